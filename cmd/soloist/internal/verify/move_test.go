//go:build unix

package verify

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/store/sqlitestore"
	"github.com/soloist-dev/soloist/test/servers"
)

// The sizes of a move of a fleet. Those of make live are in the Makefile.
var (
	movedReplicas = flag.Int("move.replicas", 3, "how many processes a fleet that moves has")
	movedElements = flag.Int("move.elements", 300, "how many elements were processed before the move")
	movedGrants   = flag.Int("move.grants", 30, "how many grants there are at least between two steps")
	movedTTL      = flag.Duration("move.ttl", 2*time.Second, "the TTL of the leases")
	movedFaults   = flag.String("move.faults", "kill", "of the processes and of their requests")
	movedStrikes  = flag.Duration("move.strikes", 0, "how often a process is struck while records are copied; 0 is once for each phase, before that")
	movedGraves   = flag.Bool("move.graves", false, "kill processes before their phase is left, too, and wait for the end of their announcements")
)

// movedVariable has what a process of a fleet that moves opens: PHASE OLD NEW.
const movedVariable = "VERIFY_TEST_MOVE"

func openMoved(text string) (store.Store, error) {
	parts := strings.Split(text, " ")
	var phase move.Phase
	if err := phase.UnmarshalText([]byte(parts[0])); err != nil {
		return nil, err
	}
	before, err := openURL(parts[1])
	if err != nil {
		return nil, err
	}
	after, err := openURL(parts[2])
	if err != nil {
		return nil, errors.Join(err, before.Close())
	}
	return fleetmove.Join(before, after, phase, fmt.Sprint("process ", os.Getpid()))
}

func openURL(url string) (store.Store, error) {
	ctx := context.Background()
	switch scheme, rest, _ := strings.Cut(url, ":"); scheme {
	case "redis":
		return redisstore.OpenURL(ctx, url)
	case "postgres":
		return pgstore.OpenURL(ctx, url)
	default:
		return sqlitestore.Open(rest)
	}
}

// TestFleetMovesFromSQLiteToRedis: processes that work, and that are killed, move from one store to another. One of them is left behind in each phase, and
// the move does not go on until it has followed. The history of all of them is judged as that of one store, and nothing that was processed before is processed again.
func TestFleetMovesFromSQLiteToRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	moveFleet(t, "sqlite:"+filepath.Join(servers.Directory(t), "old.db"), servers.Redis(t).URL)
}

// TestFleetMovesFromRedisToPostgreSQL is the same for other stores.
func TestFleetMovesFromRedisToPostgreSQL(t *testing.T) {
	servers.Live(t)
	to := servers.Postgres(t).URL
	s, err := pgstore.OpenURL(t.Context(), to)
	if err == nil {
		_, err = s.Migrate(t.Context())
	}
	must(t, err)
	must(t, s.Close())
	moveFleet(t, servers.Redis(t).URL, to)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func moveFleet(t *testing.T, from, to string) {
	t.Helper()
	faults, err := ParseFaults(*movedFaults)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	before, err := openURL(from)
	must(t, err)
	defer before.Close()
	after, err := openURL(to)
	must(t, err)
	defer after.Close()
	f := &movingFleet{t: t, from: from, to: to, before: before, after: after, phase: move.OldOnly, director: newDirector(Config{
		Executable: self, Namespace: "verify-test", TTL: max(*movedTTL, ttlFor(t, before, after)), Replicas: *movedReplicas, Faults: faults, Seed: 1, sweeper: true,
	})}
	f.resource, err = serve(f.add)
	must(t, err)
	defer f.resource.close()
	defer f.killAll()
	f.manager, err = fleetmove.Manage(f.before, f.after, "the test")
	must(t, err)
	defer f.manager.Close()

	f.process(f.before)
	must(t, f.manager.Plan(t.Context()))
	f.enter()
	for _, phase := range []move.Phase{move.OldDecides, move.NewDecides, move.NewOnly} {
		f.roll(phase)
		f.advance()
	}
	for _, few := f.rarest(); few < leastFaults; _, few = f.rarest() { // on a quick machine a move is over sooner
		servers.Wait(t, "a process that works, to strike it", f.struck)
		f.pauses.Wait()
		f.enter()
	}
	must(t, f.drain(f.ending()))
	f.examine(f.after)
	f.judge()
}

// ttlFor returns a TTL that is long enough for stores as slow as these are now.
func ttlFor(t *testing.T, stores ...store.Store) time.Duration {
	t.Helper()
	var slowest time.Duration
	for _, s := range stores {
		for i := range 10 {
			begun := time.Now()
			out, err := s.Acquire(t.Context(), []store.Claim{{Name: fmt.Sprint("speed/", i), Holder: "x", TTL: time.Minute}})
			must(t, errors.Join(err, out[0].Err))
			slowest = max(slowest, time.Since(begun))
			errs, err := s.Release(t.Context(), []store.Release{{Name: fmt.Sprint("speed/", i), Holder: "x", Token: out[0].Grant.Token}})
			must(t, errors.Join(append(errs, err)...))
		}
	}
	return 20 * slowest
}

// A movingFleet is the processes of a fleet that moves.
type movingFleet struct {
	*director
	t             *testing.T
	from, to      string
	before, after store.Store
	manager       *fleetmove.Manager
	phase         move.Phase
}

// rarest returns the fault of processes that was made least often, and how often.
func (f *movingFleet) rarest() (fault Fault, n int) {
	own := slices.DeleteFunc(slices.Clone(f.Faults), func(x Fault) bool { return x != Kill && x != PauseShort && x != PauseLong })
	f.rng.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	f.mu.Lock()
	defer f.mu.Unlock()
	fault = slices.MinFunc(own, func(a, b Fault) int { return f.count.faults[a] - f.count.faults[b] })
	return fault, f.count.faults[fault]
}

// enter starts processes in the phase, in the place of those that have ended, and lets the fleet work.
func (f *movingFleet) enter() {
	f.t.Helper()
	f.Env = append(os.Environ(), movedVariable+"="+f.phase.String()+" "+f.from+" "+f.to)
	must(f.t, f.complete())
	grants := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.count.grants
	}
	for had, enough := time.Now(), grants()+*movedGrants; grants() < enough; {
		last := grants()
		time.Sleep(time.Millisecond)
		switch {
		case grants() > last:
			had = time.Now()
		case time.Since(had) > servers.Patience:
			for _, p := range slices.Concat(f.controls, f.workers) {
				f.t.Logf("%s, running %t, said: %s", p.Name, p.Running(), p.Said())
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.t.Fatalf("nobody was granted anything in %v in the phase %v; the last of %d events are %+v; ended by themselves: %v",
				servers.Patience, f.phase, len(f.events), f.events[max(0, len(f.events)-20):], f.ended)
		}
	}
}

// roll replaces the processes by those of the next phase, one by one. The last one is left behind, and refuses the next step.
func (f *movingFleet) roll(phase move.Phase) {
	f.t.Helper()
	f.phase = phase
	all := slices.Concat(f.controls, f.workers)
	f.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, p := range all {
		if i == len(all)-1 {
			var behind *fleetmove.BehindError
			if stage, _, err := f.manager.Advance(f.t.Context(), false, move.Options{}); !errors.As(err, &behind) {
				f.t.Errorf("with a process that is left behind: %v, %v", stage, err)
			}
		}
		if *movedGraves && f.rng.IntN(3) == 0 {
			f.strike(f.t.Context(), p, Kill)
		} else {
			must(f.t, p.End(fleet.Terminate))
			<-p.Gone
		}
		f.enter()
	}
}

// advance goes on to the next phase, while processes of this one are killed and paused, at least one of them.
func (f *movingFleet) advance() {
	f.t.Helper()
	begun := time.Now()
	servers.Wait(f.t, "a process that works, to strike it", f.struck)
	for abandoned := false; ; f.amid(func() { time.Sleep(f.TTL / 4) }) {
		var report move.Report
		var err error
		f.amid(func() { _, report, err = f.manager.Advance(f.t.Context(), false, move.Options{Abandoned: abandoned}) })
		if err == nil && report.Complete() {
			f.t.Logf("%v: %d of %d names were copied last, after %v", f.phase, report.Copied, report.Names, time.Since(begun).Round(time.Second))
			return
		}
		again := err == nil || errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrUnknown)
		if !again || time.Since(begun) > 4*servers.Patience { // thousands of elements are copied under faults
			f.t.Fatalf("%v: after %v the copy is not complete: %+v, %v; of its examples the stores have:%s",
				f.phase, time.Since(begun).Round(time.Second), report, err, f.records(report.Examples))
		}
		if err == nil {
			abandoned = report.Taken == 0 // nobody takes the names of some moments ago any more
		}
	}
}

// records describes what both stores have of names.
func (f *movingFleet) records(names []string) string {
	var said strings.Builder
	for _, name := range names {
		for _, s := range []store.Store{f.before, f.after} {
			for r, err := range s.List(f.t.Context(), name) {
				if err != nil || r.Name == name {
					fmt.Fprintf(&said, "\n%+v %v", r, err)
				}
			}
		}
	}
	return said.String()
}

// amid calls do, and strikes processes until it returns.
func (f *movingFleet) amid(do func()) {
	f.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	var next <-chan time.Time
	if *movedStrikes > 0 {
		ticks := time.NewTicker(*movedStrikes)
		defer ticks.Stop()
		next = ticks.C
	}
	for {
		select {
		case <-done:
			return
		case <-next:
			f.struck()
		}
	}
}

// struck kills or pauses a process that works, and lets another take the place of one that was killed. It reports false if there is none.
func (f *movingFleet) struck() bool {
	f.t.Helper()
	victim := f.victim()
	if victim == nil {
		return false
	}
	fault, _ := f.rarest()
	f.strike(f.t.Context(), victim, fault)
	must(f.t, f.complete())
	return true
}

// elements calls fn with the names of all elements of before the move, in batches.
func (f *movingFleet) elements(s store.Store, fn func(all *soloist.Elements, ids []string)) {
	f.t.Helper()
	c, err := soloist.New(s, soloist.Config{Namespace: "examined", TTL: time.Minute, RequestTimeout: 20 * time.Second})
	must(f.t, err)
	defer c.Close()
	ids := make([]string, *movedElements)
	for i := range ids {
		ids[i] = fmt.Sprint("element ", i)
	}
	for batch := range slices.Chunk(ids, 1000) {
		fn(c.Elements("e", soloist.ElementsOptions{}), batch)
	}
}

// process records all elements as processed.
func (f *movingFleet) process(s store.Store) {
	f.t.Helper()
	f.elements(s, func(all *soloist.Elements, ids []string) {
		claimed, err := all.ClaimAll(f.t.Context(), ids)
		must(f.t, err)
		var mine []*soloist.Element
		for _, c := range claimed {
			must(f.t, c.Err)
			mine = append(mine, c.Element)
		}
		must(f.t, errors.Join(all.DoneAll(mine)...))
	})
}

// examine claims all elements, which must be refused.
func (f *movingFleet) examine(s store.Store) {
	f.t.Helper()
	f.elements(s, func(all *soloist.Elements, ids []string) {
		claimed, err := all.ClaimAll(f.t.Context(), ids)
		must(f.t, err)
		for _, c := range claimed {
			if !errors.Is(c.Err, soloist.ErrDone) {
				f.t.Errorf("%s was processed before the move, and is granted after it: %v", c.ID, c.Err)
			}
		}
	})
}

// judge judges the history of all processes.
func (f *movingFleet) judge() {
	f.t.Helper()
	r := reportOf(f.events)
	for i, e := range proof.Moved(r.history()) {
		if i == len(r.events) {
			r.events = append(r.events, event{})
		}
		r.events[i].Event = e
	}
	r.check(f.Config)
	r.ended(f.director.ended)
	r.judge()
	f.t.Log("\n" + r.Text())
	for _, v := range r.Violations {
		f.t.Error(v)
	}
	for _, why := range r.Void {
		f.t.Error(why)
	}
	longest, name := longestPause(r.history())
	f.t.Logf("a name that was asked for was free for %v at most: %s", longest.Round(time.Millisecond), name)
}

// longestPause returns for how long a name was refused at most after its last lease had ended.
func longestPause(h proof.History) (longest time.Duration, name string) {
	h = slices.DeleteFunc(h, func(e proof.Event) bool { return !operation(event{Event: e}) })
	ends := map[string]time.Duration{} // by name: when the last of its leases ended
	slices.SortStableFunc(h, func(a, b proof.Event) int { return int(min(a.Until, a.At+time.Hour) - min(b.Until, b.At+time.Hour)) })
	for _, e := range h {
		switch {
		case e.Kind == proof.Acquire && e.Result == proof.Held:
			if end, ok := ends[e.Name]; ok && e.At-end > longest {
				longest, name = e.At-end, e.Name
			}
		case e.Kind == proof.Acquire && e.Result == proof.Granted, e.Kind == proof.Extend && e.Result == proof.Okay:
			ends[e.Name] = max(ends[e.Name], e.Until+e.TTL)
		case (e.Kind == proof.Acquire || e.Kind == proof.Extend) && e.Result == proof.Unknown:
			ends[e.Name] = max(ends[e.Name], e.At+e.TTL*4/3)
		case e.Kind == proof.Release && e.Result == proof.Okay:
			ends[e.Name] = e.Until + e.Linger
		}
	}
	return longest, name
}
