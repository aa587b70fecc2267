//go:build unix

package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/sqlitestore"
	"github.com/soloist-dev/soloist/test/servers"
)

// directing is a director of replicas that do nothing.
func directing(t *testing.T, c Config) *director {
	t.Helper()
	c.Executable, c.Args = "sleep", []string{"1000"}
	d := newDirector(c)
	d.resource = &guarded{url: "http://resource/"}
	t.Cleanup(d.killAll)
	if err := d.complete(); err != nil {
		t.Fatal(err)
	}
	return d
}

// Each replica is told who it is, with its own seed, and two are told to be unsafe.
func TestReplicasAreToldWhatToBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orders")
	d := newDirector(Config{
		Namespace: "n", TTL: 7 * time.Second, Replicas: 3, Faults: []Fault{Kill, Slow}, Seed: 5,
		Executable: "sh", Args: []string{"-c", `read -r line; printf '%s\n' "$line" >>` + path + `
			echo '{"k":"ready","p":"somebody"}'
			exec sleep 1000`},
	})
	d.resource = &guarded{url: "http://resource/"}
	defer d.killAll()
	if err := d.complete(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	servers.Wait(t, "the orders of five replicas", func() bool {
		text, _ := os.ReadFile(path)
		lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(lines) == 5 && len(d.events) == 5
	})
	names, seeds, unsafe := map[string]bool{}, map[uint64]bool{}, 0
	for _, line := range lines {
		var o orders
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if names[o.Replica], seeds[o.Seed] = true, true; o.Unsafe {
			unsafe++
		}
		if o.Namespace != "n" || o.TTL != d.TTL || o.Resource != "http://resource/" || !o.Epoch.Equal(d.epoch) || fmt.Sprint(o.Faults) != "[kill slow]" {
			t.Errorf("told %s", line)
		}
	}
	if len(names) != 5 || len(seeds) != 5 || unsafe != 2 {
		t.Errorf("%d names, %d seeds, %d are unsafe", len(names), len(seeds), unsafe)
	}
	for _, e := range d.events { // a replica cannot speak for another
		if delete(names, e.Replica); e.Kind != kindReady {
			t.Errorf("told %+v", e)
		}
	}
	if len(names) != 0 {
		t.Errorf("nothing was told by %v", names)
	}
}

// The place of a replica that has ended or was killed is taken by another of its kind.
func TestReplicasAreReplaced(t *testing.T) {
	d := directing(t, Config{TTL: time.Second, Replicas: 2})
	killed, ended := d.workers[0], d.controls[1]
	before := fleet.Now()
	d.strike(t.Context(), killed, Kill)
	if e := d.events; len(e) != 1 || e[0].Kind != proof.Fault || Fault(e[0].Fault) != Kill || e[0].Replica != killed.Name ||
		e[0].At < before || e[0].Until < e[0].At {
		t.Errorf("told of the kill: %+v", e)
	}
	if err := ended.Signal(fleet.Kill); err != nil { // by somebody else
		t.Fatal(err)
	}
	<-ended.Gone
	if err := d.complete(); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range slices.Concat(d.controls, d.workers) {
		names[p.Name] = p.Running()
	}
	if len(d.controls) != 2 || len(d.workers) != 2 || len(names) != 4 || names[killed.Name] || names[ended.Name] {
		t.Errorf("the unsafe ones are %d, the others %d: %v", len(d.controls), len(d.workers), names)
	}
	if len(d.ended) != 1 || d.ended[0].Name != ended.Name {
		t.Errorf("ended by themselves: %v", d.ended)
	}
}

// What is struck is a replica that has worked since it was last struck, and that is not paused; the clients that are unsafe are left alone.
func TestVictimIsAReplicaThatWorks(t *testing.T) {
	d := directing(t, Config{TTL: time.Hour, Replicas: 1})
	p := d.workers[0]
	works := func() {
		for _, p := range slices.Concat(d.controls, d.workers) {
			d.done[p.Name] = sound
		}
	}
	if got := d.victim(); got != nil {
		t.Errorf("%s has done nothing, and is struck", got.Name)
	}
	if works(); d.victim() != p {
		t.Errorf("it works, and is not struck")
	}
	if got := d.victim(); got != nil {
		t.Errorf("%s has done nothing since it was struck, and is struck", got.Name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := fleet.Now()
	d.strike(ctx, p, PauseLong)
	if works(); d.victim() != nil {
		t.Errorf("it is paused, and struck")
	}
	servers.Wait(t, "it is stopped", p.Stopped)
	cancel()
	if d.pauses.Wait(); d.victim() != p {
		t.Errorf("it was paused, and is not struck any more")
	}
	if e := d.events; len(e) > 1 || len(e) == 1 && (Fault(e[0].Fault) != PauseLong || e[0].Replica != p.Name ||
		e[0].At < before || e[0].Until < e[0].At) {
		t.Errorf("told of the pause: %+v", e)
	}
	if err := p.End(fleet.Kill); err != nil {
		t.Fatal(err)
	}
	if works(); d.victim() != nil {
		t.Errorf("it was told to end, and is struck")
	}
}

// A pause counts if the process was stopped for all of it.
func TestPauseCountsIfItWasSeen(t *testing.T) {
	d := directing(t, Config{TTL: time.Second, Replicas: 3})
	d.pause(t.Context(), d.workers[0], PauseShort, ms)
	if e := d.events; len(e) != 1 || Fault(e[0].Fault) != PauseShort || e[0].Replica != d.workers[0].Name || e[0].Until < e[0].At+ms {
		t.Errorf("told of the pause: %+v", e)
	}
	during := func(p *fleet.Process, sig func() error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d.pauses.Go(func() { d.pause(ctx, p, PauseLong, time.Hour) })
		servers.Wait(t, "it is stopped", p.Stopped)
		if err := sig(); err != nil {
			t.Fatal(err)
		}
		servers.Wait(t, "it is not stopped", func() bool { return !p.Stopped() })
		cancel()
		d.pauses.Wait()
		if len(d.events) != 1 {
			t.Errorf("told of a pause that was cut short: %+v", d.events[1:])
		}
	}
	p := d.workers[1]
	during(p, func() error { return p.Signal(fleet.Continue) })
	p = d.workers[2]
	during(p, func() error { return p.End(fleet.Kill) })
}

// At the end of a run all replicas are told to end, also the unsafe ones, and are waited for.
func TestAllReplicasAreToldToEnd(t *testing.T) {
	d := directing(t, Config{TTL: time.Second, Replicas: 2})
	if err := d.drain(d.ending()); err != nil || len(d.notes) > 0 {
		t.Errorf("%v, %q", err, d.notes)
	}
	areGone(t, d)
}

// Replicas that do not end when they are told to are killed, each of them, and it is told.
func TestReplicasThatDoNotEndAreKilled(t *testing.T) {
	d := directing(t, Config{TTL: time.Second, Replicas: 3})
	for _, p := range d.workers {
		if err := p.Signal(fleet.Stop); err != nil {
			t.Fatal(err)
		}
		servers.Wait(t, p.Name+" is stopped", p.Stopped)
	}
	drained := make(chan error, 1)
	go func() { drained <- d.drain(time.After(0)) }()
	servers.Wait(t, "all are gone", func() bool { return len(drained) > 0 })
	if err := <-drained; err != nil {
		t.Error(err)
	}
	for _, p := range d.workers {
		if !slices.ContainsFunc(d.notes, func(note string) bool {
			return strings.HasPrefix(note, "replica "+p.Name+" was told to end and did not")
		}) {
			t.Errorf("nothing is told of %s: %q", p.Name, d.notes)
		}
	}
	areGone(t, d)
}

func areGone(t *testing.T, d *director) {
	t.Helper()
	for _, p := range slices.Concat(d.controls, d.workers) {
		select {
		case <-p.Gone:
		default:
			t.Errorf("%s is still there", p.Name)
		}
	}
}

// The faults of processes come less often the more of them there are to meet, and at any time: a gap is of parts of the TTL.
func TestGapIsOfTheTTL(t *testing.T) {
	d := newDirector(Config{TTL: time.Second, Replicas: 4, Seed: 1})
	for range 100 {
		if gap := d.gap(); gap < 50*ms || gap > 300*ms {
			t.Errorf("a gap of %v", gap)
		}
	}
}

// A store in the memory of one process is not verified, and what cannot be opened or asked is told.
func TestStoreThatCannotBeVerified(t *testing.T) {
	away := errors.New("away")
	for want, open := range map[string]func() (store.Store, error){
		"memory of one process": func() (store.Store, error) { return memstore.New(), nil },
		"away":                  func() (store.Store, error) { return nil, away },
	} {
		r, err := Run(t.Context(), Config{Open: open, Executable: "sleep", Args: []string{"1000"}, Namespace: "n", Replicas: 2, TTL: time.Second})
		if r != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, r, err)
		}
	}
}

// A verification that is ended, or whose replicas cannot be started, says why, and removes what it has left in the store.
func TestVerificationThatIsEndedRemovesItsRecords(t *testing.T) {
	s, err := sqlitestore.Open(filepath.Join(servers.Directory(t), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	why := errors.New("a signal")
	for name, c := range map[string]struct {
		executable string
		want       error
	}{"ended": {"sh", why}, "no replicas": {filepath.Join(t.TempDir(), "none"), os.ErrNotExist}} {
		path := filepath.Join(t.TempDir(), "started")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		if c.executable == "sh" {
			go func() {
				for ; ctx.Err() == nil; time.Sleep(ms) {
					if _, err := os.Stat(path); err == nil {
						cancel(why)
					}
				}
			}()
		}
		claims := []store.Claim{{Name: "@n/lock/x", Holder: "r1", TTL: time.Millisecond}, {Name: "@other/lock/x", Holder: "r1", TTL: time.Hour}}
		if _, err := s.Acquire(t.Context(), claims); err != nil {
			t.Fatal(err)
		}
		open := func() (store.Store, error) { return lent{s}, nil }
		r, err := Run(ctx, Config{
			Open: open, Executable: c.executable, Args: []string{"-c", "echo >" + path + "; exec sleep 1000"},
			Namespace: "n", Replicas: 2, TTL: time.Second, Within: time.Hour,
		})
		if r != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		var left []string
		for record, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, record.Name)
		}
		if fmt.Sprint(left) != "[@other/lock/x]" {
			t.Errorf("%s: left: %q", name, left)
		}
	}
}

// A lent store is closed by its owner.
type lent struct{ store.Store }

func (lent) Close() error          { return nil }
func (k lent) Unwrap() store.Store { return k.Store }
