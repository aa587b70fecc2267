package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

// A director plays the demo: it has the processes and the service, and notes what happens.
type director struct {
	Config
	begun     time.Duration
	path      string // of the store
	store     store.Store
	service   *service
	dashboard *dashboard // nil unless Config.Open
	invoices  []invoice
	processes []*fleet.Process
	history   history

	from, to int64 // the scheduled times that the audit is about, unix seconds
}

func newDirector(c Config) (*director, error) {
	d := &director{Config: c, begun: fleet.Now(), path: filepath.Join(c.Dir, "demo.db")}
	var err error
	if d.invoices, err = parseInvoices(invoicesCSV); err != nil {
		return nil, err
	}
	if d.store, err = sqlitestore.Open(d.path); err != nil {
		return nil, err
	}
	if d.service, err = serve(d.history.add); err != nil {
		return nil, errors.Join(err, d.store.Close())
	}
	if c.Open {
		if d.dashboard, err = show(d.store); err != nil {
			return nil, errors.Join(err, d.service.close(), d.store.Close())
		}
		d.progress("the dashboard of this run, until it ends: %s", d.dashboard.url)
	}
	return d, nil
}

// progress reports what happens, with the time since the start.
func (d *director) progress(format string, args ...any) {
	fmt.Fprintf(d.Progress, "%5.1f s  %s\n", (fleet.Now() - d.begun).Seconds(), fmt.Sprintf(format, args...))
}

// launch starts a replica.
func (d *director) launch(name string) error {
	h := &d.history
	p, err := fleet.Launch{
		Name: name, Executable: d.Executable, Args: append(slices.Clone(d.Args), name, d.path, d.service.url),
		Failed: func(e *fleet.EndedError) { h.fail(e) },
		Line: func(line []byte) {
			var e event
			if json.Unmarshal(line, &e) == nil { // a killed process may have begun a line
				e.Replica = name
				h.add(e)
			}
		},
	}.Start()
	if err == nil {
		h.add(event{Replica: name, Kind: started})
		d.processes = append(d.processes, p)
	}
	return err
}

// running returns the processes that have not been told to end.
func (d *director) running() []*fleet.Process {
	var running []*fleet.Process
	for _, p := range d.processes {
		if p.Running() {
			running = append(running, p)
		}
	}
	return running
}

func (d *director) process(name string) *fleet.Process {
	for _, p := range d.processes {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// drain asks the replicas to end, and waits until they have.
func (d *director) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainLimit, fmt.Errorf("it has not ended %v after SIGTERM", drainLimit))
	defer cancel()
	running := d.running()
	var errs []error
	for _, p := range running {
		p.Tell(cmdGo)
		errs = append(errs, p.End(fleet.Terminate), p.Signal(fleet.Continue))
	}
	for _, p := range running {
		select {
		case <-p.Gone:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("draining replica %s: %w; it said: %s", p.Name, context.Cause(ctx), p.Said()))
		}
	}
	d.progress("all replicas have drained")
	return errors.Join(errs...)
}

// close kills what is still running, waits for it, and closes the rest.
func (d *director) close() error {
	var errs []error
	for _, p := range d.processes {
		errs = append(errs, p.End(fleet.Kill))
	}
	for _, p := range d.processes {
		<-p.Gone
	}
	if d.dashboard != nil {
		errs = append(errs, d.dashboard.close())
	}
	return errors.Join(append(errs, d.service.close(), d.store.Close())...)
}

// findings are all that the audit is drawn from.
func (d *director) findings(ctx context.Context) (*findings, error) {
	f := &findings{events: d.history.all(), from: d.from, to: d.to, invoices: d.invoices, ttl: ttl, permits: permits}
	for _, p := range d.processes {
		select {
		case <-p.Gone:
		default:
			f.processesLeft++
		}
	}
	for r, err := range d.store.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("looking for leases that are left: %w", err)
		}
		if r.Holder != "" && !r.Free() {
			f.leasesLeft++
		}
	}
	client, err := soloist.New(d.store, soloist.Config{Replica: "director"})
	if err != nil {
		return nil, err
	}
	for e, err := range client.Admin().Elements(ctx, elementsName) {
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		if e.Status == "processed" {
			f.processed++
		}
	}
	return f, client.Close()
}

// logs shows what the replicas logged last, for the one that looks into a failure.
func (d *director) logs() {
	for _, p := range d.processes {
		d.progress("replica %s has logged: %s", p.Name, p.Said())
	}
}

// keep writes all events beside the store.
func (d *director) keep(events []event) (err error) {
	path := filepath.Join(d.Dir, "events.jsonl")
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keeping the events: %w", err)
	}
	lines := json.NewEncoder(file)
	for _, e := range events {
		err = errors.Join(err, lines.Encode(e))
	}
	d.progress("the store and all events are kept in %s", d.Dir)
	return errors.Join(err, file.Close())
}
