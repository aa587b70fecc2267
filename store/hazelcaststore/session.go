package hazelcaststore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/soloist-dev/soloist/store"
)

// A session is a client that is connected, with its map.
type session struct {
	client   *hazelcast.Client
	entries  *hazelcast.Map
	members  *members
	looked   atomic.Bool           // whether an entry was looked at after it was written, which gives it the expiry of the map
	unusable atomic.Pointer[error] // why the map cannot be used
}

// A connector connects when a session is first wanted, and again when that failed or when the client has lost the cluster. A client that reconnects by itself
// does not report the members that left while it was away.
type connector struct {
	client hazelcast.Config
	cfg    Config

	mu      sync.Mutex
	attempt *attempt // under way, or the one that succeeded
	closed  chan struct{}
	calls   sync.WaitGroup // what may still use a client
}

func newConnector(client hazelcast.Config, cfg Config) *connector {
	return &connector{client: client, cfg: cfg, closed: make(chan struct{})}
}

// isClosed reports whether close was called. Called under c.mu, what it returns stays true or false until c.mu is unlocked.
func (c *connector) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// An attempt is one of connecting. It may outlive the call that began it, and the store: the client library can be asked to end it, and may not do so
// while it dials, pauses between two attempts or waits for TLS.
type attempt struct {
	until   time.Time     // then another one takes its place
	done    chan struct{} // closed when session and err are set
	session *session
	err     error
}

// get returns a session that was connected a moment ago.
func (c *connector) get(ctx context.Context) (*session, error) {
	a, err := c.begin()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.session, a.err
	case <-c.closed:
		return nil, store.ErrClosed
	case <-ctx.Done():
		return nil, c.unconnected(ctx.Err())
	}
}

// unconnected is the error of an attempt to connect. Members say nothing to a client that has the wrong name of the cluster, or TLS where they have none.
func (c *connector) unconnected(err error) error {
	cluster := c.client.Cluster
	doing := fmt.Sprintf("connecting to the cluster %q at %s", cluster.Name, strings.Join(cluster.Network.Addresses, ", "))
	if !refused(err) {
		doing += " (a member does not answer a client that has another port, another name of the cluster or, in tls=, the wrong kind of TLS: check the three)"
	}
	return wrap(doing, err)
}

// begin returns the current attempt, and starts one if there is none.
func (c *connector) begin() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return nil, store.ErrClosed
	}
	if c.attempt != nil && c.attempt.over() {
		c.attempt = nil
	}
	if c.attempt == nil {
		a := &attempt{until: time.Now().Add(c.within()), done: make(chan struct{})}
		c.attempt = a
		go c.connect(a)
	}
	return c.attempt, nil
}

// within is how long an attempt may take.
func (c *connector) within() time.Duration {
	return time.Duration(c.client.Cluster.ConnectionStrategy.Timeout)
}

// over reports whether the attempt has ended and its client, if it has one, does not run any more, or whether it should have ended.
func (a *attempt) over() bool {
	select {
	case <-a.done:
		return a.session == nil || !a.session.client.Running()
	default:
		return time.Now().After(a.until)
	}
}

// connect makes the attempt a. One that ends after close, or when another one has its place, leaves no client behind.
func (c *connector) connect(a *attempt) {
	defer close(a.done)
	ctx, cancel := context.WithTimeout(context.Background(), c.within())
	defer cancel()
	go func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	session, err := c.open(ctx)
	if err != nil {
		a.err = err
		return
	}
	c.mu.Lock()
	switch {
	case c.isClosed():
		a.err = store.ErrClosed
	case c.attempt != a:
		a.err = c.unconnected(context.DeadlineExceeded)
	default:
		a.session = session
	}
	c.mu.Unlock()
	if a.err != nil {
		shutdown(session.client)
	}
}

// open connects.
func (c *connector) open(ctx context.Context) (*session, error) {
	config, seen := without(c.client), newMembers(c.cfg.MinMembers)
	config.AddMembershipListener(seen.change)
	client, err := hazelcast.StartNewClientWithConfig(ctx, config)
	if err != nil {
		return nil, c.unconnected(err)
	}
	entries, err := client.GetMap(ctx, c.cfg.Map)
	if err != nil {
		shutdown(client)
		return nil, wrap("looking for the map", err)
	}
	seen.settle()
	return &session{client: client, entries: entries, members: seen}, nil
}

// without returns a copy of a configuration without listeners and near caches. A copy that the client library makes shares the listeners with what it is a copy of.
func without(c hazelcast.Config) hazelcast.Config {
	return hazelcast.Config{
		ClientName: c.ClientName, Labels: slices.Clone(c.Labels), Cluster: c.Cluster.Clone(), Failover: c.Failover.Clone(),
		Serialization: c.Serialization.Clone(), Logger: c.Logger.Clone(), Stats: c.Stats,
	}
}

// shutdown ends a client. One that has lost the cluster may not respond.
func shutdown(client *hazelcast.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	_ = client.Shutdown(ctx) // what it does not end ends with its connections
}

// close shuts the client down. It waits for no attempt to connect, which may take as long as the client library likes, and ends the requests that are under way.
func (c *connector) close() error {
	c.mu.Lock()
	var open *session
	if !c.isClosed() {
		close(c.closed)
		if c.attempt != nil {
			open = c.attempt.session
		}
	}
	c.mu.Unlock()
	if open != nil {
		shutdown(open.client)
	}
	c.calls.Wait()
	return nil
}

// call makes a request, and returns at the end of ctx without waiting for it.
func call[T any](ctx context.Context, c *connector, request func() (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	var none T
	c.mu.Lock()
	if c.isClosed() {
		c.mu.Unlock()
		return none, store.ErrClosed
	}
	replied := make(chan reply, 1)
	c.calls.Go(func() {
		value, err := request()
		replied <- reply{value, err}
	})
	c.mu.Unlock()
	select {
	case r := <-replied:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// pause is how long a read waits before it is sent again.
const pause = 100 * time.Millisecond

// ask makes a request that changes nothing, again and again while the cluster replies that another attempt may succeed, such as during a migration.
func ask[T any](ctx context.Context, c *connector, s *session, request func() (T, error)) (T, error) {
	for {
		value, err := call(ctx, c, request)
		if err == nil || !temporary(err) || !s.client.Running() {
			return value, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return value, ctx.Err()
		}
	}
}
