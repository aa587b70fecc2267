package soloist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

func definitionsOf(n int) map[string]uint32 {
	jobs := map[string]uint32{}
	for i := range n {
		jobs[fmt.Sprint("job ", i)] = uint32(i)
	}
	return jobs
}

// The jobs of a replica take as many records as its readers expect, say the same on each replica that has the same jobs, and can be read again.
func TestPagesOfJobs(t *testing.T) {
	for jobs, want := range map[int]int{0: 0, 1: 1, carriedPerPage - 1: 1, carriedPerPage: 1, carriedPerPage + 1: 2, 2 * carriedPerPage: 2, 2*carriedPerPage + 1: 3} {
		definitions := definitionsOf(jobs)
		states := pages(definitions)
		if len(states) != want || pageCount(jobs) != want {
			t.Errorf("%d jobs: %d records, of which %d are read; want %d", jobs, len(states), pageCount(jobs), want)
		}
		if again := pages(maps.Clone(definitions)); fmt.Sprint(again) != fmt.Sprint(states) {
			t.Errorf("%d jobs: the same jobs say something else", jobs)
		}
		read := map[uint32]uint32{}
		for _, state := range states {
			if err := parsePage(state, read); err != nil || len(state) > store.MaxState {
				t.Errorf("%d jobs: %v, a state of %d bytes", jobs, err, len(state))
			}
		}
		for name, definition := range definitions {
			if read[hash32(name)] != definition {
				t.Fatalf("%d jobs: %q is read as %d, not as %d", jobs, name, read[hash32(name)], definition)
			}
		}
	}
	for _, state := range []string{"?", "AAAA"} {
		if err := parsePage([]byte(state), map[uint32]uint32{}); err == nil {
			t.Errorf("%q is read as jobs", state)
		}
	}
}

// A replica that has fewer jobs than before leaves no records behind, neither while it runs nor after it.
func TestRecordsOfAReplicaThatHasFewerJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		c, err := New(s, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p := newPresence(c)
		records := func() (states []int) {
			for {
				if n, err := s.Sweep(t.Context(), 100); err != nil {
					t.Fatal(err)
				} else if n == 0 {
					break
				}
			}
			for r, err := range s.List(t.Context(), kindReplicaJobs) {
				if err != nil {
					t.Fatal(err)
				}
				states = append(states, len(r.State))
			}
			return states
		}
		for _, row := range []struct{ jobs, records int }{{2*carriedPerPage + 1, 3}, {1, 1}, {carriedPerPage + 1, 2}, {0, 0}, {1, 1}} {
			p.set(definitionsOf(row.jobs))
			if err := p.announce(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := records(); len(got) != row.records {
				t.Errorf("%d jobs: records of %d bytes, want %d of them", row.jobs, got, row.records)
			}
		}
		p.set(definitionsOf(carriedPerPage + 1))
		if err := p.announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.withdraw()
		if got := records(); len(got) != 0 {
			t.Errorf("after it has gone: records of %d bytes", got)
		}
	})
}

// Many records are overwritten in batches that the store takes.
func TestManyRecordsAreOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sized{Store: memstore.New()}
		c, err := New(s, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		names := make([]string, 2*batchLimit+10)
		for i := range names {
			names[i] = fmt.Sprintf("lock/%05d", i)
		}
		if err := errors.Join(c.overwrite(t.Context(), names, time.Time{}, c.newHolder, func(i int) store.Release {
			return store.Release{State: []byte(names[i]), Retain: Forever}
		})...); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(s.sizes) != fmt.Sprint([]int{batchLimit, batchLimit, 10}) {
			t.Errorf("batches of %d", s.sizes)
		}
		n := 0
		for r, err := range s.List(t.Context(), "lock/") {
			if n++; err != nil || string(r.State) != r.Name {
				t.Fatalf("%q has %q, %v", r.Name, r.State, err)
			}
		}
		if n != len(names) {
			t.Errorf("%d records, want %d", n, len(names))
		}
	})
}

// A sized store notes the sizes of batches.
type sized struct {
	*memstore.Store
	sizes []int
}

func (s *sized) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	s.sizes = append(s.sizes, len(claims))
	return s.Store.Acquire(ctx, claims)
}

// What the record of a replica says becomes its description; the clock of the replica is compared with the one here at the time of its claim.
func TestDescriptionOfAReplica(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ms := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	state := func(clock, died int64) []byte {
		return fmt.Appendf(nil, `{"replica":"a","host":"h","pid":7,"version":"v1","started":%d,"clock":%d,"jobs":3,"digest":"d","ttl":30000,"died":%d}`, ms(-time.Hour), clock, died)
	}
	for what, row := range map[string]struct {
		r     store.Record
		ahead time.Duration
		alive bool
		quiet time.Duration
		shown bool
	}{
		"alive, an hour ahead":     {store.Record{Holder: "a#1", Token: 1, Left: 25 * time.Second, Age: time.Minute, State: state(ms(time.Hour-time.Minute), 0)}, time.Hour, true, 5 * time.Second, true},
		"alive, a minute behind":   {store.Record{Holder: "a#1", Token: 1, Left: 30 * time.Second, Age: time.Minute, State: state(ms(-2*time.Minute), 0)}, -time.Minute, true, 0, true},
		"dead, and nobody noticed": {store.Record{Holder: "a#1", Token: 1, Age: time.Minute, State: state(ms(-time.Minute), 0)}, 0, false, 30 * time.Second, true},
		"dead for ten minutes":     {store.Record{Token: 2, Age: 10 * time.Minute, State: state(ms(time.Hour), ms(-10*time.Minute))}, 0, false, 10*time.Minute + 30*time.Second, true},
		"dead for an hour":         {store.Record{Token: 2, Age: time.Hour, State: state(ms(time.Hour), ms(-time.Hour))}, 0, false, time.Hour + 30*time.Second, false},
	} {
		info, shown, err := replicaInfo("1", row.r, now)
		if err != nil || shown != row.shown || info.ClockAhead != row.ahead || info.Alive != row.alive || info.Silent != row.quiet || info.Left != row.r.Left {
			t.Errorf("%s: %+v, shown %t, %v", what, info, shown, err)
		}
		if info.Replica != "a" || info.Host != "h" || info.PID != 7 || info.Version != "v1" || !info.Started.Equal(now.Add(-time.Hour)) || info.Jobs != 3 || info.id != "1" || info.digest != "d" {
			t.Errorf("%s: %+v", what, info)
		}
	}
	if _, shown, err := replicaInfo("1", store.Record{Holder: "a#1"}, now); shown || err != nil {
		t.Errorf("one that has just begun: shown %t, %v", shown, err)
	}
	for _, foreign := range []string{"?", `{"replica":"a","jobs":-1000000}`, `{"replica":"a","jobs":10000001}`} {
		if _, shown, err := replicaInfo("1", store.Record{State: []byte(foreign)}, now); shown || err == nil || !strings.Contains(err.Error(), `"1" is not soloist's`) {
			t.Errorf("a record that something else has written, %s: shown %t, %v", foreign, shown, err)
		}
	}
	if info, shown, err := replicaInfo("1", store.Record{State: []byte(`{"replica":"a","jobs":10000000}`)}, now); !shown || err != nil || info.Jobs != 10_000_000 {
		t.Errorf("a replica with very many jobs: %+v, shown %t, %v", info, shown, err)
	}
}

// The version of a program that does not set one is that of its build.
func TestVersionOfTheBuild(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this build has no information, though go test gives it to all programs of a module")
	}
	want := info.Main.Version
	if i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "vcs.revision" }); i >= 0 && want == "(devel)" {
		want = info.Settings[i].Value[:12]
	}
	if got := buildVersion(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
