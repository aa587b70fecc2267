package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/health"
	prommetrics "github.com/soloist-dev/soloist/metrics/prometheus"
	"github.com/soloist-dev/soloist/store"
)

// probes are the pages that --listen serves: /healthz and /readyz for probes, and /metrics for Prometheus. They contain no secret, and change
// nothing.
type probes struct {
	address addressFlag
	metrics *prommetrics.Metrics // nil without --listen
	server  *http.Server         // nil without --listen

	store    atomic.Pointer[store.Store] // once it has been opened
	running  atomic.Bool                 // what the process is for has begun
	draining atomic.Bool                 // the process is shutting down
}

func (p *probes) flag(c *cobra.Command) {
	c.Flags().Var(&p.address, "listen", "serve /healthz, /readyz and /metrics at PORT of 127.0.0.1, at IP:PORT, or at unix:PATH; everybody who can connect may read them")
}

// begin serves the pages, if an address was given, with more metrics than those of all subcommands.
func (p *probes) begin(log *slog.Logger, more ...prometheus.Collector) error {
	if p.address.Address == nil {
		return nil
	}
	l, err := p.address.open()
	if err != nil {
		return err
	}
	p.server = p.address.serve(l, p.pages(log, more...), log)
	return nil
}

// pages returns the pages.
func (p *probes) pages(log *slog.Logger, more ...prometheus.Collector) *http.ServeMux {
	p.metrics = prommetrics.New(prommetrics.Options{})
	reg := prometheus.NewRegistry()
	reg.MustRegister(p.metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(more...)
	mux := http.NewServeMux()
	mux.Handle("/healthz", health.Live())
	mux.Handle("/readyz", health.Ready(health.Options{Logger: log},
		unless("draining", func() bool { return !p.draining.Load() }),
		health.Check{Name: "store", Do: p.reach},
		unless("starting", p.running.Load)))
	mux.Handle("/metrics", prommetrics.Handler(reg))
	return mux
}

var errState = errors.New("the process is not in the state to work")

// unless returns a check that fails, with the name of a state, until fine.
func unless(state string, fine func() bool) health.Check {
	return health.Check{Name: state, Do: func(context.Context) error {
		if fine() {
			return nil
		}
		return errState
	}}
}

var errNotOpen = errors.New("the store has not been opened yet")

func (p *probes) reach(ctx context.Context) error {
	s := p.store.Load()
	if s == nil {
		return errNotOpen
	}
	return health.Store(*s).Do(ctx)
}

// uses notes which store the process uses.
func (p *probes) uses(s store.Store) { p.store.Store(&s) }

// observe returns an observer of a client that counts each event and passes it on to next.
func (p *probes) observe(next func(context.Context, soloist.Event)) func(context.Context, soloist.Event) {
	if p.metrics == nil {
		return next
	}
	return func(ctx context.Context, e soloist.Event) {
		p.metrics.Observe(ctx, e)
		next(ctx, e)
	}
}

// end stops serving the pages.
func (p *probes) end() {
	if p.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
}
