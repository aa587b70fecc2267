package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
)

// orders are what the director tells a replica, as one line of JSON on its standard input.
type orders struct {
	Namespace string        `json:"namespace"`
	Replica   string        `json:"replica"`
	Seed      uint64        `json:"seed"`
	TTL       time.Duration `json:"ttl"`
	Faults    []Fault       `json:"faults"`
	Resource  string        `json:"resource"` // its URL
	Epoch     time.Time     `json:"epoch"`
	Unsafe    bool          `json:"unsafe"` // be the positive control
}

// Replica is one process of a verification: it reads its orders from in, writes its history to out, and ends when in
// does or at SIGTERM.
func Replica(ctx context.Context, open func() (store.Store, error), in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := json.NewDecoder(in)
	var o orders
	if err := lines.Decode(&o); err != nil {
		return fmt.Errorf("reading the orders of a replica: %w", err)
	}
	go func() { // the director is gone when this ends
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	rec := newRecorder(out)
	defer rec.flushing()()
	s := opened(ctx, open)
	if s == nil {
		return nil // a history without operations is one, too
	}
	defer s.Close()
	if o.Unsafe {
		return o.pretend(ctx, s, rec)
	}
	return o.work(ctx, s, rec)
}

// opened opens the store, again and again while it cannot: its server may be down at the moment. The director has
// opened it before. It returns nil when ctx ends first.
func opened(ctx context.Context, open func() (store.Store, error)) store.Store {
	for {
		if s, err := open(); err == nil {
			return s
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return nil
		}
	}
}

func (o orders) work(ctx context.Context, s store.Store, rec *recorder) error {
	net := newNetwork(rec, o)
	client, err := soloist.New(&link{Store: s, net: net}, o.config())
	if err != nil {
		return err
	}
	rec.say(kindReady)
	w := workload{client: client, rec: rec, namespace: o.Namespace, service: &resource{o.Resource, &http.Client{Timeout: o.TTL}}, seed: o.Seed, ttl: o.TTL, epoch: o.Epoch, batch: firstBatch}
	w.sweeper, _ = store.As[store.Sweeper](s)
	err = w.run(ctx)
	if closed := client.Close(); err == nil {
		err = closed
	}
	net.late.Wait()
	rec.troubled(err)
	rec.say(kindBye)
	return nil // what went wrong is in the history
}

func (o orders) config() soloist.Config {
	return soloist.Config{
		Namespace: o.Namespace, Replica: o.Replica, TTL: o.TTL, RequestTimeout: o.TTL / 3, Drain: o.TTL,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// pretend is the client that is unsafe on purpose: it takes a lease, never renews it, and believes in it to the end,
// long after another has it. A checker that does not see that sees nothing.
func (o orders) pretend(ctx context.Context, s store.Store, rec *recorder) error {
	claim := store.Claim{Name: records.In(o.Namespace) + control, Holder: o.Replica + "#unsafe", TTL: o.TTL}
	acquire := func(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
		bound, cancel := context.WithTimeout(ctx, max(5*time.Second, o.TTL))
		defer cancel()
		return s.Acquire(bound, claims)
	}
	for ctx.Err() == nil {
		outs, err := recorded(ctx, rec, []store.Claim{claim}, acquire, claiming, (*event).claimed,
			func(err error) store.Outcome { return store.Outcome{Err: err} })
		if out := at(outs, 0, store.Outcome{Err: err}); out.Err == nil {
			b := rec.belief(claim.Name, 1, claim.Holder, out.Grant.Token)
			for ; ctx.Err() == nil; sleep(ctx, lookEvery) {
				b.held(fleet.Now())
			}
			b.end()
			break
		}
		sleep(ctx, o.TTL/20)
	}
	rec.say(kindBye)
	return nil
}
