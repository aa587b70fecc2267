package soloist

import (
	"log/slog"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

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

	// Version names the version of this program to people, at most 100 bytes. The default is that of its build.
	Version string

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

func (cfg *Config) fill(opts Options) error {
	cfg.Options = opts
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
