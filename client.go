package soloist

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/internal/host"
	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// Config configures a client. The zero value is useful.
type Config struct {
	// Namespace keeps this application's names apart from those of others on the same backend: "" or 1 to 64 bytes
	// without a slash. Replicas that are to exclude each other need the same one.
	Namespace string

	// Replica names this process to people, in the holder of each lease. The default is host and process id. It need not
	// be unique: every attempt to acquire gets a holder of its own.
	Replica string

	// Options are the defaults of every lease; Client.With changes them for some.
	Options

	// RequestTimeout bounds each request to the store. The default is 5 s, or a third of the TTL if that is less.
	RequestTimeout time.Duration

	// Drain is how long Run and Close wait for runs before they cancel them. The default is 30 s; negative waits not at all.
	Drain time.Duration

	// RequireFencing makes New fail with ErrUnfenced unless the store, as it is configured, promises fencing tokens.
	RequireFencing bool

	// Logger gets what nobody is there to be told as an error: lost leases, failed runs. The default is slog.Default().
	Logger *slog.Logger

	// Observe, if not nil, is told of everything that happens, for metrics and tracing. It is called from many
	// goroutines and must not block.
	Observe func(Event)
}

// Options say how leases are taken and kept.
type Options struct {
	// TTL is how long the name stays taken after the process that holds it has died. Leases of living processes are
	// renewed at a third of it. 0 means 30 s; else at least 10 ms.
	TTL time.Duration

	// Margin is how long before the end of its lease a holder is told that it is lost. It covers what the holder does
	// between looking and acting, and clocks that run at different rates. 0 means a tenth of the TTL; else less than half.
	Margin time.Duration

	// AtLeast is how long a name stays taken, counted from the grant, even if it is released before.
	AtLeast time.Duration

	// AtMost is how long a lease is renewed, counted from the grant; then it is lost. 0 sets no bound.
	AtMost time.Duration

	// Wait is how long Do, Lock and Acquire wait for a name that is held. 0 means not at all for Do and without bound for
	// Lock and Acquire, whose ctx bounds it; negative means without bound for Do too.
	Wait time.Duration
}

func (o Options) filled() (Options, error) {
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	if o.TTL < 10*time.Millisecond || o.TTL > store.MaxTTL {
		return o, invalid("TTL", o.TTL.String(), "must be between 10ms and %v", store.MaxTTL)
	}
	if o.AtMost != 0 && o.AtMost < 10*time.Millisecond {
		return o, invalid("AtMost", o.AtMost.String(), "must be 0 (no bound) or at least 10ms")
	}
	if o.AtMost > 0 && o.AtMost < o.TTL {
		o.TTL = o.AtMost
	}
	if o.Margin == 0 {
		o.Margin = o.TTL / 10
	}
	switch {
	case o.Margin < 0 || o.Margin >= o.TTL/2:
		return o, invalid("Margin", o.Margin.String(), "must be at least 0 and less than half the TTL (%v)", o.TTL)
	case o.AtLeast < 0 || o.AtLeast > store.MaxTTL:
		return o, invalid("AtLeast", o.AtLeast.String(), "must be between 0 and %v", store.MaxTTL)
	case o.AtMost > 0 && o.AtLeast > o.AtMost:
		return o, invalid("AtLeast", o.AtLeast.String(), "must not be more than AtMost (%v)", o.AtMost)
	}
	return o, nil
}

// A Client takes and keeps leases for one process. It is safe for use by many goroutines at once; one client per store
// and process is what its batches work best with.
type Client struct {
	*core
	opts Options
	err  error // of With
}

// core is what the views of a client share.
type core struct {
	store   store.Store
	cfg     Config
	log     *slog.Logger
	names   namer
	holders atomic.Uint64
	clock   clock
	keeper  *keeper
	queues  queues
	noLines atomic.Bool // the store has said that it keeps none

	acquires batcher[store.Claim, store.Outcome]
	extends  batcher[store.Extension, error]
	releases batcher[store.Release, error]

	herdFrom int // in a simulation; 0 otherwise

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // goroutines that clean up

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
	opts, err := cfg.Options.filled()
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
	if guest, ok := s.(host.Guest); ok {
		simulated := guest.SimulatedHost()
		c.clock.host, c.herdFrom = simulated.Suspended, simulated.HerdFrom
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	limits := &limits{timeout: cfg.RequestTimeout}
	c.acquires = batcher[store.Claim, store.Outcome]{do: observed(c, VerbAcquire, credible{s}.Acquire), late: c.giveBackAll, limit: batchLimit, limits: limits}
	c.extends = batcher[store.Extension, error]{do: observed(c, VerbExtend, credible{s}.Extend), limit: batchLimit, limits: limits}
	c.releases = batcher[store.Release, error]{do: observed(c, VerbRelease, credible{s}.Release), limit: batchLimit, limits: limits}
	c.keeper = newKeeper(c)
	if cfg.RequireFencing {
		if err := c.requireFencing(); err != nil {
			return nil, err
		}
	}
	return &Client{core: c, opts: opts}, nil
}

func (cfg *Config) fill(opts Options) error {
	cfg.Options = opts
	if cfg.Replica == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		cfg.Replica = host + "/" + strconv.Itoa(os.Getpid())
	}
	if err := store.CheckName(cfg.Replica); err != nil || len(cfg.Replica) > 128 {
		return invalid("replica", strconv.Quote(cfg.Replica), "give 1 to 128 bytes of UTF-8 without control characters")
	}
	switch {
	case cfg.RequestTimeout == 0:
		cfg.RequestTimeout = min(5*time.Second, max(opts.TTL/3, 10*time.Millisecond))
	case cfg.RequestTimeout < 0:
		return invalid("RequestTimeout", cfg.RequestTimeout.String(), "must be > 0")
	}
	if cfg.Drain == 0 {
		cfg.Drain = 30 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return nil
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

// With answers a view of the same client whose leases have other options. Options that are not valid are reported by the
// first call that uses them.
func (c *Client) With(opts Options) *Client {
	opts, err := opts.filled()
	return &Client{core: c.core, opts: opts, err: err}
}

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

// Close stops Run from starting anything and waits, for Config.Drain, for the functions that run under leases: of Run, Do,
// Process and Lead. Then it cancels their contexts, and after another TTL it leaves those that ignore that alone, and their
// leases to expire. Every other lease is released; its context ends with ErrClosed. What is to be cleaned up behind callers who have
// given up, such as a place in a line, is waited for until a RequestTimeout after Close was called. It does not close the store. The error
// joins what could not be released. Every call of Close waits for the same end and returns the same error.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.closeErr = c.close()
		close(c.over)
	}
	<-c.over
	return c.closeErr
}

func (c *core) close() error {
	c.cancel(ErrClosed)
	returned := make(chan struct{})
	go func() {
		c.runs.Wait()
		close(returned)
	}()
	if !within(returned, c.cfg.Drain) {
		c.keeper.cancelAll(ErrClosed)
		within(returned, max(c.cfg.TTL, time.Second))
	}
	err := c.keeper.close()
	c.work.Wait()
	if rand.N(sweepOneIn) == 0 {
		c.sweep()
	}
	return err
}

// sweepOneIn: of clients that live for a moment only, as those of commands, one in so many sweeps.
const sweepOneIn = 16

// within waits for done, at most for d.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// sweep lets the store forget some of what it may forget, if that is not done by the backend. It is nobody's duty, so
// every client does some of it: now and then while it runs jobs, and sometimes when it closes.
func (c *core) sweep() {
	s, ok := c.store.(store.Sweeper)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.RequestTimeout)
	defer cancel()
	if _, err := s.Sweep(ctx, batchLimit); err != nil && !errors.Is(err, store.ErrClosed) {
		c.log.Warn("sweeping the store", "err", err)
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
