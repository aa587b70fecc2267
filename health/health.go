package health

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Check is one condition for being ready.
type Check struct {
	Name string                          // for the response and the log, such as "store"
	Do   func(ctx context.Context) error // returns nil if the condition is met
}

// Store checks that a store can be read.
func Store(s store.Store) Check {
	return Check{"store", func(ctx context.Context) error { return reach(ctx, s) }}
}

// reach returns nil if the store responds.
func reach(ctx context.Context, s store.Store) error {
	if p, ok := store.As[store.Pinger](s); ok {
		if err := p.Ping(ctx); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	// A claim with a negative mark reads the record and is refused as done.
	outs, err := s.Acquire(ctx, []store.Claim{{Name: "health", Holder: "-", TTL: store.MinTTL, Mark: -1}})
	if err == nil && !errors.Is(outs[0].Err, store.ErrDone) {
		err = outs[0].Err
	}
	return err
}

// Options configure Ready. The zero value is valid.
type Options struct {
	// Timeout bounds all checks together. A check that takes longer fails. The default is 5 s.
	Timeout time.Duration

	// MaxAge is how long a result is used again, so that frequent requests do not become frequent requests to the store. The default is 1 s.
	MaxAge time.Duration

	// Logger receives a warning when the first check fails, and a message when all succeed again. The response does not contain the errors,
	// because it can be for everybody. The default is slog.Default().
	Logger *slog.Logger
}

// Live returns a handler that responds 200 and "ok". It checks nothing.
func Live() http.Handler {
	return page(func(context.Context) string { return "" })
}

// Ready returns a handler that responds 200 and "ok" if all checks succeed, else 503 and the name of the first check that failed. One round
// of checks runs at a time, and concurrent requests share its result.
func Ready(opts Options, checks ...Check) http.Handler {
	if opts.Timeout <= 0 {
		opts.Timeout = 5 * time.Second
	}
	if opts.MaxAge <= 0 {
		opts.MaxAge = time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	r := &ready{Options: opts, checks: checks, turn: make(chan struct{}, 1)}
	return page(r.failed)
}

// ready remembers the last result of the checks.
type ready struct {
	Options
	checks []Check

	turn chan struct{} // has a value while a request uses the fields below
	at   time.Time     // when the last round ended; zero before the first
	last string        // its result
}

// failed returns the name of the first check that fails, or "".
func (r *ready) failed(ctx context.Context) string {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return "canceled"
	}
	defer func() { <-r.turn }()
	if r.at.IsZero() || time.Since(r.at) >= r.MaxAge {
		before := r.last
		r.last = r.check(ctx, before)
		if r.at = time.Now(); before != "" && r.last == "" {
			r.Logger.Info("ready again")
		}
	}
	return r.last
}

// check runs the checks. Others share the result, so it does not end with the context of one request.
func (r *ready) check(ctx context.Context, before string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Timeout)
	defer cancel()
	for _, c := range r.checks {
		if err := c.Do(ctx); err != nil {
			if before != c.Name {
				r.Logger.Warn("not ready", "check", c.Name, "err", err)
			}
			return c.Name
		}
	}
	return ""
}

// page returns a handler that responds with what failed, or with "ok".
func page(failed func(context.Context) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "text/plain; charset=utf-8")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		code, text := http.StatusOK, "ok"
		if allowed := []string{http.MethodGet, http.MethodHead}; r.Method != allowed[0] && r.Method != allowed[1] {
			header.Set("Allow", strings.Join(allowed, ", "))
			code, text = http.StatusMethodNotAllowed, "method not allowed: use GET"
		} else if what := failed(r.Context()); what != "" {
			code, text = http.StatusServiceUnavailable, "not ready: "+what
		}
		w.WriteHeader(code)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, text+"\n") // a client that has gone reads nothing
		}
	})
}
