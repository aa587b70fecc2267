package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A following writer calls a function with each event that replicas tell.
type following struct {
	replica string
	follow  func(event)
	rest    []byte
}

func (f *following) Write(text []byte) (int, error) {
	f.rest = append(f.rest, text...)
	for {
		line, rest, found := bytes.Cut(f.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		f.rest = rest
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return 0, err
		}
		e.Replica = f.replica
		f.follow(e)
	}
}

// The clients that are unsafe on purpose are caught on a store that keeps its promises, and tell nothing else that is wrong.
func TestUnsafeClientsAreCaught(t *testing.T) {
	s, ctx := memstore.New(), context.Background()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := newDirector(Config{Namespace: "n", TTL: 100 * ms})
	var all sync.WaitGroup
	for _, replica := range []string{"u1", "u2"} {
		all.Go(func() {
			rec := newRecorder(&following{replica: replica, follow: func(e event) {
				d.add(e)
				d.mu.Lock()
				defer d.mu.Unlock()
				if d.count.caught {
					cancel()
				}
			}})
			defer rec.flushing()()
			if err := (orders{Namespace: "n", Replica: replica, TTL: 100 * ms, Unsafe: true}).pretend(ctx, s, rec); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.events = append(d.events, enough()...)
	r := d.report()
	r.check(Config{Namespace: "n"})
	if r.judge(); r.Verdict != Held {
		t.Errorf("the verdict is %s: %v, %q", r.Verdict, r.Violations, r.Void)
	}
	grants, byes := map[string]int{}, map[string]int{}
	for _, e := range d.events {
		switch {
		case e.Kind == proof.Acquire && e.Name == "@n/"+control && e.Result == proof.Granted:
			grants[e.Holder]++ // each is another
		case e.Kind == kindBye:
			byes[e.Replica]++
		}
	}
	if len(grants) != 2 || len(byes) != 2 {
		t.Errorf("grants by holder: %v; at the end %v", grants, byes)
	}
}

// A forgetful store forgets something whenever it is asked to.
type forgetful struct{ store.Store }

func (f forgetful) Sweep(context.Context, int) (int, error) { return 1, nil }
func (f forgetful) Unwrap() store.Store                     { return f.Store }

// A replica does each kind of work in its namespace, and tells that it is ready before and that it has ended after.
func TestReplicaDoesEachKindOfWork(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := newDirector(Config{Namespace: "n", TTL: time.Second, sweeper: true})
	all := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, w := range works {
			if d.count.work[w] == 0 {
				return false
			}
		}
		return true
	}
	g, err := serve(d.add)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	rec := newRecorder(&following{replica: "r1", follow: func(e event) {
		if d.add(e); all() {
			cancel()
		}
	}})
	stop := rec.flushing()
	o := orders{Namespace: "n", Replica: "r1", Seed: 1, TTL: time.Second, Resource: g.url, Epoch: time.Now()}
	if err := o.work(ctx, forgetful{memstore.New()}, rec); err != nil {
		t.Error(err)
	}
	stop()
	if first, last := d.events[0], d.events[len(d.events)-1]; first.Kind != kindReady || last.Kind != kindBye {
		t.Errorf("told first %+v, and last %+v", first, last)
	}
	for _, e := range d.events {
		if operation(e) && (!strings.HasPrefix(e.Name, "@n/") || e.Result == proof.Granted && !strings.HasPrefix(e.Holder, "r1")) {
			t.Errorf("told %+v", e)
		}
		if e.Kind == proof.Belief && !strings.HasPrefix(e.Name, "@n/") {
			t.Errorf("believed %+v", e)
		}
	}
	r := d.report()
	r.check(Config{Namespace: "n", sweeper: true})
	if len(r.Violations) > 0 {
		t.Errorf("violations: %v", r.Violations)
	}
}

// A replica tries to open its store until it can, and ends when its director has gone.
func TestReplicaEndsWithItsDirector(t *testing.T) {
	out := &following{}
	tries := 0
	open := func() (store.Store, error) {
		if tries++; tries < 3 {
			return nil, errors.New("the server is starting")
		}
		return memstore.New(), nil
	}
	for _, unsafe := range []bool{false, true} {
		tries = 0
		in, orderly := io.Pipe()
		var kinds []proof.Kind
		out.follow = func(e event) {
			if kinds = append(kinds, e.Kind); e.Result == proof.Granted {
				orderly.Close()
			}
		}
		go func() {
			_ = json.NewEncoder(orderly).Encode(orders{
				Namespace: "n", Replica: "r1", TTL: time.Second, Unsafe: unsafe, Resource: "http://127.0.0.1:1/", Epoch: time.Now(),
			})
		}()
		if err := Replica(t.Context(), open, in, out); err != nil {
			t.Error(err)
		}
		if tries != 3 || len(kinds) == 0 || kinds[len(kinds)-1] != kindBye {
			t.Errorf("unsafe: %v; it was opened %d times, and told at last %v", unsafe, tries, kinds)
		}
	}
	if err := Replica(t.Context(), open, strings.NewReader("what?\n"), io.Discard); err == nil {
		t.Error("orders that nobody can read are followed")
	}
	closed := strings.NewReader(`{"namespace":"n","replica":"r1","ttl":1000000000}` + "\n")
	if err := Replica(t.Context(), func() (store.Store, error) { return nil, errors.New("away for good") }, closed, io.Discard); err != nil {
		t.Errorf("a replica whose store is away says %v", err)
	}
}
