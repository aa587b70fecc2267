package soloist

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/soloist-dev/soloist/store"
)

// Config configures a client. The zero value is useful.
//
// In Config, Options and ElementsOptions, zero means the inherited value, or the default if there is none. A negative value means none: no
// bound, no waiting. Where that makes no sense, it is an error.
type Config struct {
	// Namespace keeps this application's names apart from those of others on the same backend: "" or 1 to 64 bytes without a slash. Replicas
	// that must exclude each other need the same namespace.
	Namespace string

	// Replica is the name of this process in lists, messages and the holder of each lease. It need not be unique: every attempt to acquire has
	// its own holder. The default is host and process ID.
	Replica string

	// Version is the version of this program, shown by Admin.Replicas, at most 100 bytes. The default is the version of its build.
	Version string

	// TTL and Margin apply to all leases for which neither With nor a Job sets others. See Options for their defaults.
	TTL, Margin time.Duration

	// RequestTimeout bounds each request to the store. The default is 5 s, or a third of the TTL if that is less. It must be at
	// most store.MaxTTL.
	RequestTimeout time.Duration

	// Drain is how long Run waits for its runs after its context has ended, before it cancels them. A negative value means do not wait. The
	// default is 20 s: this leaves time to hand them over within the 30 s that Kubernetes gives a pod to stop.
	Drain time.Duration

	// RequireFencing makes New return ErrUnfenced unless the store, as configured, promises fencing tokens.
	RequireFencing bool

	// Logger receives errors that no caller is waiting for: lost leases, failed runs. The default is slog.Default().
	Logger *slog.Logger

	// Middleware wraps every function that runs under a lease: those of Do, Lead, Process and jobs. The first one is the outermost.
	Middleware []Middleware

	// Observe, if not nil, is called with every Event, for metrics and tracing. It is called from many goroutines concurrently and must not
	// block. See Event for the context that it is passed.
	Observe func(context.Context, Event)
}

// fill sets the defaults of cfg and checks its fields. opts are the resolved options of all leases.
func (cfg *Config) fill(opts Options) error {
	cfg.TTL, cfg.Margin = opts.TTL, opts.Margin
	if cfg.Version == "" {
		cfg.Version = buildVersion()
	}
	if len(cfg.Version) > 100 || !utf8.ValidString(cfg.Version) {
		return invalid("version", strconv.Quote(cfg.Version[:min(len(cfg.Version), 60)]), "give at most 100 bytes of UTF-8")
	}
	if cfg.Replica == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		cfg.Replica = host + "/" + strconv.Itoa(os.Getpid())
	}
	if err := store.CheckName(cfg.Replica); err != nil || len(cfg.Replica) > 128 {
		return invalid("replica", strconv.Quote(cfg.Replica[:min(len(cfg.Replica), 60)]), "give 1 to 128 bytes of UTF-8 without control characters")
	}
	switch {
	case cfg.RequestTimeout == 0:
		cfg.RequestTimeout = min(5*time.Second, max(opts.TTL/3, 10*time.Millisecond))
	case cfg.RequestTimeout < 0 || cfg.RequestTimeout > store.MaxTTL:
		return invalid("RequestTimeout", cfg.RequestTimeout.String(), "must be > 0 and at most %v; 0 means 5s, or a third of the TTL if that is less", store.MaxTTL)
	}
	if cfg.Drain == 0 {
		cfg.Drain = 20 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return nil
}

// Options configure the leases of the client that Client.With returns. A zero field inherits the value of the original client.
type Options struct {
	// TTL is how long a lease lasts without a renewal, so how long a name stays unavailable after its holder has died. Live leases are renewed
	// every third of it. It must be at least 10 ms. The default is 30 s.
	TTL time.Duration

	// Margin is how long before the end of its lease a holder treats it as lost. It covers the time between the holder's check and its action,
	// and clocks that run at different rates. It must be less than half the TTL. The default is a tenth of the TTL, also if With or a Job sets
	// a TTL without a Margin.
	Margin time.Duration

	// AtLeast is how long a name stays unavailable, counted from the grant, even if it is released earlier. The default is 0.
	AtLeast time.Duration

	// AtMost is how long a lease is renewed, counted from the grant; then it is lost. It must be at least 10 ms. A longer TTL is reduced to
	// it. The default is no bound.
	AtMost time.Duration

	// Wait is how long to wait for a name that is held. By default Lock and Acquire wait for as long as their ctx allows, and Do, Process and
	// Claim do not wait. A negative value means that all of them wait for as long as their ctx allows, and NoWait that it is as if none was set. Lead and
	// Campaign ignore it. TryLock and TryAcquire do not wait for a name that is held. ClaimAll returns an *InvalidError if it is set.
	Wait time.Duration

	// Overdue is how long to wait, beyond Wait, for a name that should be free, where a store without a clock (store.Clockless) has to watch it before it can say
	// so. The default is 1 h. A negative value means not to wait.
	//
	// There each process counts a lease or a linger from when it first saw it, so one that has just started cannot know that it was over before. If it is by the wall
	// clock of the client that wrote it last, a call that would be refused waits once until this process has watched it for long enough, and asks again. That is
	// so for all calls that acquire a name, also TryLock and TryAcquire, but not for jobs. Nothing is granted because of a wall clock: one that is wrong costs a wait or a refusal. A
	// call is refused at once if that would take longer, or longer than until the deadline of ctx, and if the holder lives. ClaimAll waits for all its elements together, for
	// the TTL at most, and with AtMost only if it was granted none.
	Overdue time.Duration
}

// NoWait as Options.Wait undoes one that a client inherits: all calls then wait as they do by default.
const NoWait time.Duration = math.MinInt64

// over returns o with its zero fields taken from base.
func (o Options) over(base Options) Options {
	if o.TTL != 0 {
		base.Margin = 0 // a tenth of the new TTL
	}
	return Options{
		TTL: cmp.Or(o.TTL, base.TTL), Margin: cmp.Or(o.Margin, base.Margin), AtLeast: cmp.Or(o.AtLeast, base.AtLeast),
		AtMost: cmp.Or(o.AtMost, base.AtMost), Wait: cmp.Or(o.Wait, base.Wait),
		Overdue: cmp.Or(o.Overdue, base.Overdue),
	}
}

// resolved returns o with its defaults filled in. In AtLeast, AtMost and Overdue of the result, 0 means none.
func (o Options) resolved() (Options, error) {
	o.TTL = cmp.Or(o.TTL, 30*time.Second)
	if o.Wait == NoWait {
		o.Wait = 0
	}
	o.AtLeast, o.AtMost, o.Overdue = max(0, o.AtLeast), max(0, o.AtMost), max(0, cmp.Or(o.Overdue, time.Hour))
	if o.TTL < 10*time.Millisecond || o.TTL > store.MaxTTL {
		return o, invalid("TTL", o.TTL.String(), "must be between 10ms and %v", store.MaxTTL)
	}
	if o.AtMost != 0 && o.AtMost < 10*time.Millisecond {
		return o, invalid("AtMost", o.AtMost.String(), "must be at least 10ms, or negative for no bound")
	}
	if o.AtMost > 0 && o.AtMost < o.TTL {
		if o.TTL = o.AtMost; o.Margin >= o.TTL/2 {
			o.Margin = 0
		}
	}
	o.Margin = cmp.Or(o.Margin, o.TTL/10)
	switch {
	case o.Margin < 0 || o.Margin >= o.TTL/2:
		return o, invalid("Margin", o.Margin.String(), "must be greater than 0 and less than half the TTL (%v)", o.TTL)
	case o.AtLeast > store.MaxTTL:
		return o, invalid("AtLeast", o.AtLeast.String(), "must not be more than %v", store.MaxTTL)
	case o.AtMost > 0 && o.AtLeast > o.AtMost:
		return o, invalid("AtLeast", o.AtLeast.String(), "must not be more than AtMost (%v)", o.AtMost)
	}
	return o, nil
}
