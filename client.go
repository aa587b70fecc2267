package soloist

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/soloist-dev/soloist/internal/host"
	"github.com/soloist-dev/soloist/store"
)

// A Client takes and keeps leases for one process. It is safe for use by many goroutines at once; one client per store
// and process is what its batches work best with.
type Client struct {
	*core
	given Options // with zero for what has its default
	opts  Options // with the defaults
	err   error   // why opts are not valid
}

// core is what the views of a client share.
type core struct {
	store        store.Store
	cfg          Config
	log          *slog.Logger
	names        namer
	holders      atomic.Uint64
	clock        clock
	renewer      *renewer
	waiters      localWaiters
	noStoreQueue atomic.Bool // the store has reported that it keeps no queues
	noChoice     atomic.Bool // the store has reported that it cannot choose

	acquires batcher[store.Claim, store.Outcome]
	extends  batcher[store.Extension, error]
	releases batcher[store.Release, error]

	groupFrom int // in a simulation; 0 otherwise

	ctx    context.Context // ends when Shutdown or Close is called
	cancel context.CancelCauseFunc

	interrupted context.Context // ends when functions under leases are to return at once
	interrupt   context.CancelCauseFunc

	work sync.WaitGroup // goroutines that clean up

	over     chan struct{} // closed when Close has ended
	closeErr error         // of Close, once it has

	mu     sync.Mutex
	closed bool
	jobs   map[string]bool // that Run is running
	runs   sync.WaitGroup  // Runs under way
}

// batchLimit is how many names go into one batch of the client.
const batchLimit = 1024

// New makes a client on s, which stays the caller's to close, after the client. It asks nothing of the backend unless
// cfg.RequireFencing is set.
func New(s store.Store, cfg Config) (*Client, error) {
	if s == nil {
		return nil, invalid("store", "nil", "give an open store, such as memstore.New()")
	}
	given := Options{TTL: cfg.TTL, Margin: cfg.Margin}
	opts, err := given.resolved()
	if err != nil {
		return nil, err
	}
	names, err := newNamer(cfg.Namespace)
	if err != nil {
		return nil, err
	}
	if err := cfg.fill(opts); err != nil {
		return nil, err
	}
	c := &core{
		store: s, cfg: cfg, log: cfg.Logger, names: names,
		jobs: map[string]bool{},
		over: make(chan struct{}),
	}
	machine := host.Of(s)
	c.clock.host, c.groupFrom = machine.Suspended, machine.GroupFrom
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.interrupted, c.interrupt = context.WithCancelCause(context.Background())
	limits := &limits{timeout: cfg.RequestTimeout}
	c.acquires = batcher[store.Claim, store.Outcome]{do: observed(c, VerbAcquire, credible{s}.Acquire), late: c.releaseOutcomes, limit: batchLimit, limits: limits}
	c.extends = batcher[store.Extension, error]{do: observed(c, VerbExtend, credible{s}.Extend), limit: batchLimit, limits: limits}
	c.releases = batcher[store.Release, error]{do: observed(c, VerbRelease, credible{s}.Release), limit: batchLimit, limits: limits}
	c.renewer = newRenewer(c)
	if cfg.RequireFencing {
		if err := c.requireFencing(); err != nil {
			return nil, err
		}
	}
	return &Client{core: c, given: given, opts: opts}, nil
}

func (c *core) requireFencing() error {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.RequestTimeout)
	defer cancel()
	can, err := store.CapabilitiesOf(ctx, c.store)
	if err != nil {
		return fmt.Errorf("%w: asking for its capabilities: %w", ErrUnfenced, err)
	}
	if can.Fencing.Answer != store.Yes {
		return fmt.Errorf("%w: %s: %s, because %s", ErrUnfenced, can.Backend, can.Fencing.Answer, can.Fencing.Why)
	}
	return nil
}

// With returns a copy of c that uses opts for new leases; what is zero in opts is as in c. Both are one client: closing one closes both.
// If the options are not valid together, every call that takes a lease returns an *InvalidError.
func (c *Client) With(opts Options) *Client {
	opts = opts.over(c.given)
	resolved, err := opts.resolved()
	return &Client{core: c.core, given: opts, opts: resolved, err: err}
}

// plain returns a copy of c that uses opts for new leases, and inherits nothing.
func (c *Client) plain(opts Options) *Client { return (&Client{core: c.core}).With(opts) }

// Replica is the name of this process in the holders of its leases.
func (c *Client) Replica() string { return c.cfg.Replica }

// Store is the store that the client was made on.
func (c *Client) Store() store.Store { return c.store }

// usable answers why the client cannot take a lease.
func (c *Client) usable() error {
	if c.err != nil {
		return c.err
	}
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// enter counts one more function of the user's that Close waits for.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.closed:
		return ErrClosed
	}
	c.runs.Add(1)
	return nil
}

// background runs fn in a goroutine that Close waits for. When the client is being closed fn runs in the caller's.
func (c *core) background(fn func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.work.Go(fn)
	}
	c.mu.Unlock()
	if closed {
		fn()
	}
}

// newHolder makes the holder of one attempt. What makes it unique is drawn for each: clones of a virtual machine that go on from one
// snapshot have all of a process in common, but not what the kernel draws after that.
func (c *core) newHolder() string {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	var random [20]byte
	_, _ = crand.Read(random[:]) // it never fails
	for i, b := range random {
		random[i] = digits[b%32]
	}
	buffer := make([]byte, 0, store.MaxName)
	buffer = append(append(append(buffer, c.cfg.Replica...), '#'), random[:]...)
	return string(strconv.AppendUint(append(buffer, '-'), c.holders.Add(1), 36))
}
