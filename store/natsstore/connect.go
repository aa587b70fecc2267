package natsstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
)

// links is where a store has its connection from.
type links interface {
	get(ctx context.Context) (*link, error)
	close() error
}

// given is a connection that its owner closes.
type given struct {
	js jetstream.JetStream

	mu     sync.Mutex
	link   *link
	closed bool
}

func (g *given) get(context.Context) (*link, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, store.ErrClosed
	}
	if g.link == nil {
		g.link = newLink(g.js)
	}
	return g.link, nil
}

func (g *given) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed = true; g.link != nil {
		g.link.end()
	}
	return nil
}

// A connector connects when a connection is first wanted, and again when that failed or the client has given the connection up.
type connector struct {
	options nats.Options
	domain  string

	mu      sync.Mutex
	attempt *attempt // under way, or the one that succeeded
	closed  bool
	work    sync.WaitGroup
}

// An attempt is one of connecting.
type attempt struct {
	done chan struct{} // closed when link and err are set
	link *link
	err  error
}

func (c *connector) get(ctx context.Context) (*link, error) {
	a, err := c.begin()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.link, a.err
	case <-ctx.Done():
		return nil, errors.Join(errNotSent, ctx.Err())
	}
}

// begin returns the attempt that counts, and starts one if there is none.
func (c *connector) begin() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, store.ErrClosed
	}
	if a := c.attempt; a != nil {
		select {
		case <-a.done:
			if a.err == nil && !a.link.nc.IsClosed() {
				return a, nil
			}
			if a.link != nil {
				a.link.end()
			}
		default:
			return a, nil
		}
	}
	a := &attempt{done: make(chan struct{})}
	c.attempt = a
	c.work.Go(func() {
		defer close(a.done)
		a.link, a.err = c.connect()
	})
	return a, nil
}

func (c *connector) connect() (*link, error) {
	nc, err := c.options.Connect()
	if err != nil {
		return nil, explained(err)
	}
	js, err := jetstream.New(nc)
	if c.domain != "" {
		js, err = jetstream.NewWithDomain(nc, c.domain)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return newLink(js), nil
}

// close closes the connection, after an attempt that is under way.
func (c *connector) close() error {
	c.mu.Lock()
	c.closed = true
	a := c.attempt
	c.mu.Unlock()
	c.work.Wait()
	if a != nil && a.link != nil {
		a.link.end()
		a.link.nc.Close()
	}
	return nil
}

// How a connection that was lost is noticed, and made again.
const (
	pingEvery  = 5 * time.Second
	pingsLost  = 2
	pauseFirst = 100 * time.Millisecond
)
