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

// A Client acquires and renews leases for one process. It is safe for concurrent use. Use one client per store and process: its requests
// are batched best then.
type Client struct {
	*core
	given Options // as given; zero fields mean the default
	opts  Options // given, with the defaults filled in
	err   error   // why opts are not valid
}

// core is the state that the copies of a client (see With) share.
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

	groupFrom int // set by simulations; 0 otherwise

	ctx    context.Context // ends when Shutdown or Close is called
	cancel context.CancelCauseFunc

	interrupted context.Context // ends when functions under leases are to return at once
	interrupt   context.CancelCauseFunc

	work sync.WaitGroup // goroutines that clean up

	over     chan struct{} // closed when Close has ended
	closeErr error         // of Close, once it has

	mu     sync.Mutex
	closed bool
	ended  bool            // Close has begun to release what is left, and waits for no more goroutines that clean up
	jobs   map[string]bool // that Run is running
	runs   sync.WaitGroup  // Runs under way
}

// batchLimit is how many names go into one batch of the client.
const batchLimit = 1024

// New returns a client on s. It sends no request unless cfg.RequireFencing is set. The caller must close s, after the client.
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

// With returns a copy of c that uses opts for new leases. Zero fields of opts inherit those of c. Both copies are one client: closing one
// closes both. If the options are not valid together, every call that acquires a lease returns an *InvalidError.
func (c *Client) With(opts Options) *Client {
	opts = opts.over(c.given)
	resolved, err := opts.resolved()
	return &Client{core: c.core, given: opts, opts: resolved, err: err}
}

// plain returns a copy of c that uses opts for new leases, and inherits nothing.
func (c *Client) plain(opts Options) *Client { return (&Client{core: c.core}).With(opts) }

// Replica returns the name of this process in the holders of its leases: Config.Replica or its default.
func (c *Client) Replica() string { return c.cfg.Replica }

// Store returns the store that was passed to New.
func (c *Client) Store() store.Store { return c.store }

// usable returns the reason why the client cannot acquire leases, or nil.
func (c *Client) usable() error {
	if c.err != nil {
		return c.err
	}
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// enter counts one more function of the user, for which Close waits.
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

// background runs fn in a goroutine that Close waits for. Once Close has begun to release what is left, fn runs in the caller's goroutine.
func (c *core) background(fn func()) {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.work.Go(fn)
	}
	c.mu.Unlock()
	if ended {
		fn()
	}
}

// newHolder returns the holder of one attempt to acquire. Each one has its own random part: clones of a virtual machine that resume from
// one snapshot share the whole memory of a process, but not the random bytes that the kernel returns after that.
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
