package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

// The names that the replicas share.
const (
	jobName       = "ledger"
	elementsName  = "invoices"
	semaphoreName = "pdf"
	permits       = 2
)

// A replica is one process of the fleet.
type replica struct {
	*emitter
	gate    gate
	ctx     context.Context // ends when the replica is to drain
	client  *soloist.Client
	service *guarded
}

// Replica is what each process of the demo runs: the job, the elements and the semaphore, until SIGTERM or the end of
// its input. Its arguments are its name, the path of the store and the URL of the service. Events go to stdout, as JSON
// lines.
func Replica(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("the arguments are NAME STORE SERVICE; `soloist demo` starts its replicas itself")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &replica{emitter: newEmitter(args[0], os.Stdout), ctx: ctx}
	go func() {
		r.gate.obey(os.Stdin)
		cancel()
	}()
	before := goroutines()
	err := r.work(args[1], args[2])
	r.emit(event{Kind: bye, Left: leftOver(before), Err: errText(err)})
	if err != nil {
		return fmt.Errorf("replica %s: %w", r.replica, err)
	}
	return nil
}

// work opens the store and does all three kinds of work until r.ctx ends.
func (r *replica) work(path, url string) (err error) {
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r.client, err = soloist.New(s, soloist.Config{
		Replica: r.replica, TTL: ttl, RequestTimeout: request, Drain: drain, Logger: log, Observe: r.observe,
	})
	if err != nil {
		return err
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	r.service = &guarded{url: url, replica: r.replica, transport: transport}
	invoices, err := parseInvoices(invoicesCSV)
	if err != nil {
		return err
	}
	r.emit(event{Kind: ready})
	var aside sync.WaitGroup
	aside.Go(func() { r.issue(invoices) })
	aside.Go(r.render)
	err = r.client.Run(r.ctx, soloist.Job{Name: jobName, Schedule: soloist.Every(time.Second), Do: r.writeLedger})
	aside.Wait()
	return errors.Join(err, r.client.Close())
}

// observe reports what the store said of the end of a run, which its function does not live to see.
func (r *replica) observe(_ context.Context, e soloist.Event) {
	if job := (soloist.Subject{Kind: soloist.KindJob, Name: jobName}); e.Kind == soloist.EventReleased && e.Subject == job {
		r.emit(event{Kind: recorded, Token: e.Token, Err: errText(e.Err)})
	}
}
