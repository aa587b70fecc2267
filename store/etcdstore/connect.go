package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
)

// clients is where a store has its client from.
type clients interface {
	get(ctx context.Context) (*clientv3.Client, error)
	explain(err error) error // adds why no server could be reached, if the error is that a request took too long
	close() error
}

// given is a client that its owner closes.
type given struct{ client *clientv3.Client }

func (g given) get(context.Context) (*clientv3.Client, error) { return g.client, nil }
func (g given) explain(err error) error                       { return err }
func (g given) close() error                                  { return nil }

// A connector makes a client when one is first wanted, and again when that failed: a client with a password asks etcd for a token at once.
type connector struct {
	config  clientv3.Config
	failure atomic.Pointer[string] // of the last attempt to send a request; nil if that was sent

	elections elections

	mu      sync.Mutex
	attempt *attempt // under way, or the one that succeeded
	closed  bool
	work    sync.WaitGroup
	cancel  context.CancelFunc // of config.Context
}

// An attempt is one of making a client.
type attempt struct {
	done   chan struct{} // closed when client and err are set
	client *clientv3.Client
	err    error
}

func newConnector(config clientv3.Config) *connector {
	c := &connector{config: config}
	c.config.Context, c.cancel = context.WithCancel(context.Background())
	c.config.DialOptions = append(c.config.DialOptions, grpc.WithChainUnaryInterceptor(c.note))
	return c
}

// waited begins the message of gRPC for a request that has waited in vain for a connection.
const waited = "latest balancer error: "

// note remembers why a request could not be sent. The client repeats it until its context ends, and reports only that.
func (c *connector) note(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := c.invoke(ctx, method, request, reply, conn, invoke, options...)
	switch message := status.Convert(err).Message(); {
	case err == nil:
		c.failure.Store(nil)
	case status.Code(err) == codes.Unavailable, strings.HasPrefix(message, waited):
		message = strings.TrimPrefix(message, waited)
		message += mendOf(message)
		c.failure.Store(&message)
	}
	return err
}

// invoke sends a request, and ends it when it may have been lost with a leader.
func (c *connector) invoke(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if method == etcdserverpb.Maintenance_Status_FullMethodName {
		return invoke(ctx, method, request, reply, conn, options...)
	}
	err := c.elections.during(ctx, func(ctx context.Context) error { return invoke(ctx, method, request, reply, conn, options...) },
		func(ctx context.Context) uint64 {
			member, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
			if err != nil || member.Leader == 0 {
				return 0
			}
			return member.RaftTerm
		})
	if r, ok := reply.(interface {
		GetHeader() *etcdserverpb.ResponseHeader
	}); ok && err == nil {
		c.elections.raise(r.GetHeader().GetRaftTerm())
	}
	return err
}

// mendOf returns what to do about a port that is not one of etcd's clients, after a colon; "" if the message is about something else.
func mendOf(message string) string {
	switch {
	case strings.Contains(message, "error reading server preface"):
		return ": this is not a port for clients of etcd, or it wants TLS: name one of etcd's --listen-client-urls (usually 2379, not 2380), and write tls=true if that is https"
	case strings.Contains(message, "authentication handshake failed: ") &&
		(strings.Contains(message, "EOF") || strings.Contains(message, "reset") || strings.Contains(message, "does not look like a TLS handshake")):
		return ": the port has no TLS, or is not one for clients of etcd: leave tls=true out if etcd's --listen-client-urls are http"
	}
	return ""
}

func (c *connector) explain(err error) error {
	failure := c.failure.Load()
	if failure == nil || !errors.Is(err, context.DeadlineExceeded) && status.Code(err) != codes.DeadlineExceeded {
		return err
	}
	return fmt.Errorf("%w: %s", err, *failure)
}

func (c *connector) get(ctx context.Context) (*clientv3.Client, error) {
	a, err := c.begin()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.client, wrap("connecting", c.explain(a.err))
	case <-ctx.Done():
		return nil, wrap("connecting", c.explain(ctx.Err()))
	}
}

// begin returns the current attempt, and starts one if there is none.
func (c *connector) begin() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, store.ErrClosed
	}
	if c.attempt == nil {
		a := &attempt{done: make(chan struct{})}
		c.attempt = a
		c.work.Go(func() {
			a.client, a.err = clientv3.New(c.config)
			if a.err != nil {
				c.mu.Lock()
				c.attempt = nil
				c.mu.Unlock()
			}
			close(a.done)
		})
	}
	return c.attempt, nil
}

// close closes the client, after an attempt that is under way has been given up.
func (c *connector) close() error {
	c.mu.Lock()
	c.closed = true
	a := c.attempt
	c.mu.Unlock()
	var err error
	if a != nil {
		select {
		case <-a.done:
		default:
			c.cancel()
			<-a.done
		}
		if a.client != nil {
			err = a.client.Close()
		}
	}
	c.cancel()
	c.work.Wait()
	if err != nil && c.config.Context.Err() != nil { // the client reports that its context has ended
		err = nil
	}
	return err
}
