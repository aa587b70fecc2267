package verify

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A name serves for four TTLs, for all replicas the same.
func TestNamesServeForAWhile(t *testing.T) {
	for ago, want := range map[time.Duration]string{0: "lock@0", 3 * time.Hour: "lock@0", 5 * time.Hour: "lock@1", 79 * time.Hour: "lock@19"} {
		w := &workload{ttl: time.Hour, epoch: time.Now().Add(-ago)}
		if got := w.now("lock"); got != want {
			t.Errorf("after %v the name is %s, want %s", ago, got, want)
		}
	}
}

// Leases are held for moments, and now and then for a part of the TTL or for longer than it, so that they run out.
func TestSpansAreOfAllLengths(t *testing.T) {
	w, rng := &workload{ttl: time.Second}, rand.New(rand.NewPCG(1, 1))
	moments, parts, long := 0, 0, 0
	for range 1000 {
		switch d := w.span(rng); {
		case d < 0 || d >= 2*time.Second:
			t.Errorf("held for %v", d)
		case d < 10*ms:
			moments++
		case d < 250*ms:
			parts++
		case d > time.Second:
			long++
		}
	}
	if moments < 500 || parts < 50 || long < 5 {
		t.Errorf("%d for a moment, %d for a part of the TTL, %d for longer", moments, parts, long)
	}
}

// Failures in a row are followed by pauses that grow, but no longer than a quarter of the TTL.
func TestPausesAfterFailuresGrow(t *testing.T) {
	w, rng := &workload{ttl: time.Second}, rand.New(rand.NewPCG(1, 1))
	for failures, longest := range map[int]time.Duration{1: 10 * ms, 2: 20 * ms, 3: 40 * ms, 6: 250 * ms, 1000: 250 * ms} {
		for range 20 {
			if d := w.backoff(failures, rng); d < longest/2 || d > longest {
				t.Errorf("after %d failures a pause of %v, want %v at most", failures, d, longest)
			}
		}
	}
}

// Half of those who hold a name alone write under its token, and those who share it do not.
func TestWhoHoldsANameAloneWrites(t *testing.T) {
	writes := 0
	lease := leased(t)
	g, err := serve(func(e event) {
		if writes++; e.Name != "@n/lock/x" || e.Token != lease.Token() || e.Result != proof.Okay {
			t.Errorf("told %+v", e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	var beliefs []event
	rec := newRecorder(&following{follow: func(e event) { beliefs = append(beliefs, e) }})
	w := &workload{rec: rec, service: &resource{g.url, &http.Client{}}, ttl: time.Hour}
	rng := rand.New(rand.NewPCG(1, 1))
	for limit, want := range map[int]bool{1: true, 2: false} {
		writes, beliefs = 0, nil
		for range 40 {
			w.hold(lease, "@n/lock/x", limit, 0, rng)
		}
		w.rec.tell(false)
		if writes > 35 || (writes > 5) != want || !want && writes > 0 {
			t.Errorf("of 40 of whom %d may hold the name, %d have written", limit, writes)
		}
		if len(beliefs) != 40 || beliefs[0].Limit != limit || beliefs[0].Holder != lease.Holder() || beliefs[0].Token != lease.Token() {
			t.Errorf("%d beliefs are told: %+v", len(beliefs), beliefs)
		}
	}
	if err := lease.Release(); err != nil {
		t.Fatal(err)
	}
	writes, beliefs = 0, nil
	for range 40 {
		w.hold(lease, "@n/lock/x", 1, time.Hour, rng)
	}
	if w.rec.tell(false); writes > 0 || len(beliefs) > 0 {
		t.Errorf("under a lease that is over: %d writes, and the beliefs %+v", writes, beliefs)
	}
}

// A run whose lease was lost before does nothing, and one whose lease is lost meanwhile has failed.
func TestRunWhoseLeaseIsLostHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		before, meanwhile bool
		want              proof.Result // of the run that is told, "" if none is
	}{"held": {false, false, proof.Okay}, "lost before": {true, false, ""}, "lost meanwhile": {false, true, proof.Failed}} {
		lease := leased(t)
		if c.before {
			_ = lease.Release()
		}
		var told proof.Result
		w := &workload{namespace: "n", ttl: time.Hour, rec: newRecorder(&following{follow: func(e event) {
			switch {
			case e.Kind == proof.Run && e.Until == proof.Never && c.meanwhile:
				_ = lease.Release()
			case e.Kind == proof.Run:
				told = e.Result
			case e.Kind == proof.Belief && e.Name != "@n/job/job":
				t.Errorf("%s: told %+v", name, e)
			}
		}})}
		err := w.job(t.Context(), soloist.Run{Job: "job", ScheduledAt: time.UnixMilli(500), Lease: lease})
		if told != c.want || (err == nil) != (c.want == proof.Okay) {
			t.Errorf("%s: the run is told as %q, and answers %v", name, told, err)
		}
	}
}

// A paced store takes its time, and refuses.
type paced struct {
	store.Store
	took time.Duration
	err  error // of the whole call
	each error // of each claim
}

func (p *paced) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if time.Sleep(p.took); p.err != nil {
		return nil, p.err
	}
	if p.each != nil {
		outs := make([]store.Outcome, len(claims))
		for i := range outs {
			outs[i].Err = p.each
		}
		return outs, nil
	}
	return p.Store.Acquire(ctx, claims)
}

func (p *paced) Unwrap() store.Store { return nil }

// Batches of elements grow while the store answers well within the TTL, become smaller when it does not, and are of one element
// after a failure.
func TestBatchesAreAsTheStoreIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &paced{Store: memstore.New()}
		client, err := soloist.New(s, soloist.Config{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		var troubles int
		w := &workload{client: client, namespace: "n", ttl: time.Second, epoch: time.Now(), rec: newRecorder(&following{follow: func(e event) {
			if e.Kind == kindTrouble {
				troubles++
			}
		}})}
		rng := rand.New(rand.NewPCG(1, 1))
		step := func(name string, batch, want int, fails bool) {
			t.Helper()
			w.batch, troubles = batch, 0
			err := w.elements(t.Context(), rng)
			w.rec.tell(false)
			if w.batch != want || (err != nil) != fails || (troubles > 0) != fails {
				t.Errorf("%s: after %d elements at once come %d, want %d; it answers %v, with %d troubles", name, batch, w.batch, want, err, troubles)
			}
		}
		step("fast", 10, 13, false)
		step("fast", batchSize, batchSize, false)
		s.took = 100 * ms
		step("slow", 100, 50, false)
		step("slow", 2, 2, false)
		s.took, s.err = 0, errors.New("away")
		step("away", 100, 1, true)
		s.err, s.each = nil, errors.New("refused")
		step("all refused", 100, 1, true)
		s.each = store.ErrHeld
		step("all held", 10, 13, false)
		step("all held, after a failure", 1, 2, false)
	})
}

// What took long is followed by a rest that is longer, so that a slow store can do something else.
func TestRestIsForASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workload{ttl: time.Second}
		for took, want := range map[time.Duration]time.Duration{0: 0, 50 * ms: 0, 60 * ms: 120 * ms} {
			begin := time.Now()
			if w.rest(t.Context(), took); time.Since(begin) != want {
				t.Errorf("after %v a rest of %v, want %v", took, time.Since(begin), want)
			}
		}
	})
}
