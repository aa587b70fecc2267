package cassandrastore

import (
	"context"
	"sync"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
)

// sessions is where a backend has its session from.
type sessions interface {
	get(ctx context.Context) (*gocql.Session, error)
	close() error
}

// given is a session that its owner closes.
type given struct{ session *gocql.Session }

func (g given) get(context.Context) (*gocql.Session, error) { return g.session, nil }
func (g given) close() error                                { return nil }

// A connector connects when a session is first wanted, and again when that failed.
type connector struct {
	cluster    *gocql.ClusterConfig
	datacenter string // whose nodes requests are sent to, unless none of them can be reached and cluster allows others; "" for all

	mu      sync.Mutex
	attempt *attempt // under way, or the one that succeeded
	closed  bool
}

// An attempt is an attempt to connect. The driver cannot be interrupted, so an attempt may outlive the call that began it.
type attempt struct {
	done    chan struct{} // closed when session and err are set
	session *gocql.Session
	err     error
}

func (c *connector) get(ctx context.Context) (*gocql.Session, error) {
	a, err := c.begin()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.session, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
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
		c.attempt = &attempt{done: make(chan struct{})}
		go c.connect(c.attempt)
	}
	return c.attempt, nil
}

func (c *connector) connect(a *attempt) {
	var seen observer
	cluster := c.configured(&seen)
	if a.session, a.err = cluster.CreateSession(); a.err != nil {
		a.err = seen.reason(a.err)
		c.mu.Lock()
		c.attempt = nil
		c.mu.Unlock()
	}
	close(a.done)
}

// configured returns the configuration of one session.
func (c *connector) configured(seen *observer) gocql.ClusterConfig {
	cluster := *c.cluster
	cluster.ConnectObserver = seen
	cluster.PoolConfig.HostSelectionPolicy = c.policy()
	return cluster
}

// policy returns a new policy, for a session needs one that no other has had.
func (c *connector) policy() gocql.HostSelectionPolicy {
	if c.datacenter != "" {
		return gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(c.datacenter))
	}
	return gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
}

// close closes the session, after an attempt to connect that is under way has ended.
func (c *connector) close() error {
	c.mu.Lock()
	a := c.attempt
	c.closed = true
	c.mu.Unlock()
	if a != nil {
		if <-a.done; a.session != nil {
			a.session.Close()
		}
	}
	return nil
}

// An observer remembers why a server refused to be connected to: the driver keeps only the text of that.
type observer struct {
	mu  sync.Mutex
	err error
}

func (o *observer) ObserveConnect(seen gocql.ObservedConnect) {
	if !is[gocql.RequestError](seen.Err) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = seen.Err
}

// reason adds to an error of the driver why the server refused, if it did.
func (o *observer) reason(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return err
	}
	return refusal{err, o.err}
}

// A refusal is an error of the driver, whose text says why the server refused, with that reason as an error.
type refusal struct {
	error
	reason error
}

func (r refusal) Unwrap() []error { return []error{r.error, r.reason} }
