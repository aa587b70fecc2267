package soloist

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// The record of a job that was removed has no holder, no state and no time left. One that is held, or whose holder has died, is there.
func TestWhichRecordsAreForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		r    store.Record
		want bool
	}{
		"removed":    {store.Record{Token: 7}, true},
		"never made": {store.Record{}, true},
		"held":       {store.Record{Token: 7, Holder: "a#1", Left: time.Second}, false},
		"abandoned":  {store.Record{Token: 7, Holder: "a#1"}, false},
		"lingers":    {store.Record{Token: 7, Left: time.Second}, false},
		"registered": {store.Record{Token: 7, State: []byte("{}")}, false},
	} {
		if got := forgotten(test.r); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// An error names some of many replicas, and says how many more there are.
func TestNamesOfReplicas(t *testing.T) {
	var all []Definition
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"} {
		all = append(all, Definition{Replica: name})
	}
	for n, want := range map[int]string{1: "a", 3: "a, b, c", 11: "a, b, c, d, e, f, g, h, i, j, k", 13: "a, b, c, d, e, f, g, h, i, j, k and 2 more"} {
		if got := names(all[:n]); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// No event has a negative time, and those that are not negative stay as they are.
func TestObservedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Event
		c, err := New(memstore.New(), Config{Observe: func(_ context.Context, e Event) { got = append(got, e) }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.observe(t.Context(), Event{Waited: -1, Duration: -1, Delay: -1})
		c.observe(t.Context(), Event{Waited: 1, Duration: 2, Delay: 3})
		if len(got) != 2 || got[0] != (Event{}) || got[1] != (Event{Waited: 1, Duration: 2, Delay: 3}) {
			t.Errorf("told of %+v", got)
		}
	})
}

// A page of the jobs of a replica that cannot be read may have any job: that is said, and what the other pages have is known.
func TestPageOfJobsThatCannotBeRead(t *testing.T) {
	s := &unreadableStore{Store: memstore.New()}
	c := forceClient(t, s)
	names := c.pageNames("id", 2)
	write := func(name string, state []byte) {
		t.Helper()
		outs, err := s.Acquire(t.Context(), []store.Claim{{Name: name, Holder: "h", TTL: time.Minute}})
		if err != nil || outs[0].Err != nil {
			t.Fatal(outs, err)
		}
		if errs, err := s.Release(t.Context(), []store.Release{{Name: name, Holder: "h", Token: outs[0].Grant.Token, State: state, Retain: Forever}}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
	}
	write(names[0], pages(map[string]uint32{"a": 1})[0])
	s.part.Store(&names[1])
	f := fleet{replicas: []ReplicaInfo{{id: "id", Replica: "r", Jobs: carriedPerPage + 1, Alive: true}}, jobs: map[string]map[uint32]uint32{}}
	c.readJobs(t.Context(), &f, func(ReplicaInfo) bool { return true })
	if err := f.bad.err(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got: %v", err)
	}
	if len(f.having("a")) != 1 {
		t.Error("a job that could be read is not there")
	}
}

// With a claim the replica reads what people have asked of its jobs, unless it has the latest. A job of which that cannot be read stays as paused as it was. That the
// latest was not known counts until all claims of a round are answered.
func TestWhatIsAskedOfJobsIsReadWithTheirClaims(t *testing.T) {
	s := memstore.New()
	c := forceClient(t, s)
	r, err := c.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	var requests []jobRequest
	for _, name := range []string{"a", "b"} {
		j := r.plan.with(t, Job{Name: name, Schedule: Every(minute), Do: doNothing})
		j.asked.Paused = &Pause{Reason: "before"}
		requests = append(requests, jobRequest{job: j, spec: j.jobSpec})
	}
	outs, err := s.Acquire(t.Context(), []store.Claim{{Name: "control/a", Holder: "h", TTL: time.Minute}})
	if err != nil || outs[0].Err != nil {
		t.Fatal(outs, err)
	}
	if errs, err := s.Release(t.Context(), []store.Release{{Name: "control/a", Holder: "h", Token: outs[0].Grant.Token, State: []byte("?"), Retain: Forever}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	r.plan.news.version = 7
	told := func(version int64) store.Outcome {
		return store.Outcome{Err: &store.DoneError{Record: store.Record{Token: version}}}
	}
	for _, round := range []struct {
		version int64
		unsure  bool
	}{{7, false}, {8, true}, {7, true}} {
		errs := r.readControls(t.Context(), requests, told(round.version))
		if r.plan.unsure != round.unsure {
			t.Errorf("of version %d: unsure %t", round.version, r.plan.unsure)
		}
		if a, b := errs[0] != nil, errs[1] != nil; a != (round.version == 8) || b {
			t.Errorf("of version %d: %v", round.version, errs)
		}
		if requests[0].job.asked.Paused == nil || (requests[1].job.asked.Paused != nil) != !round.unsure {
			t.Errorf("of version %d: %+v and %+v", round.version, requests[0].job.asked, requests[1].job.asked)
		}
	}
}

// The version of the commands is not known while somebody changes them, and is again when that has died.
func TestVersionOfTheCommands(t *testing.T) {
	for name, test := range map[string]struct {
		r    store.Record
		want int64
	}{
		"none":            {store.Record{}, 0},
		"changed":         {store.Record{Token: 7}, 7},
		"being changed":   {store.Record{Token: 7, Holder: "a#1", Left: time.Second}, unsettled},
		"its change died": {store.Record{Token: 7, Holder: "a#1"}, 7},
		"it lingers":      {store.Record{Token: 7, Left: time.Second}, 7},
	} {
		if got := controlsVersion(test.r); got != test.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// A doubtfulOnce store says late, and once, that it does not know what became of a claim.
type doubtfulOnce struct {
	*memstore.Store
	asked []time.Time
}

func (s *doubtfulOnce) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if s.asked = append(s.asked, time.Now()); len(s.asked) == 1 {
		time.Sleep(3 * time.Second)
		return nil, store.AsUnknown(errors.New("the connection broke"))
	}
	return s.Store.Acquire(ctx, claims)
}

// The answer to a claim is of when it was asked for last: as of then a replica looks for the run of a holder that has died.
func TestAnAnswerIsOfTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &doubtfulOnce{Store: memstore.New()}
		c := forceClient(t, s)
		outs, asked, err := c.claimBatch(t.Context(), []store.Claim{{Name: "job/a", Holder: "h", TTL: time.Minute}}, c.clock.earliest())
		if err != nil || outs[0].Err != nil || len(s.asked) != 2 || !asked.Equal(s.asked[1]) {
			t.Errorf("%+v, %v: asked at %v, and that is said to be %v", outs, err, s.asked, asked)
		}
	})
}

// Until when a pause has lasted cannot be after its record was written last, whatever the clock of who wrote it showed.
func TestEndOfAPauseByAWrongClock(t *testing.T) {
	now := time.UnixMilli(100_000_000)
	state := control{Resumed: now.Add(time.Hour).UnixMilli()}.json()
	for age, want := range map[time.Duration]time.Duration{0: skew, time.Minute: skew - time.Minute, 3 * time.Hour: skew - 3*time.Hour} {
		c, err := controlOf(store.Record{State: state, Age: age}, now)
		if got := time.UnixMilli(c.Resumed).Sub(now); got != want || err != nil {
			t.Errorf("written %v ago: it lasted until %v from now, want %v; %v", age, got, want, err)
		}
	}
}

// A job that was forgotten and comes back on a replica whose clock is ahead is run by the others nevertheless, from when those know it.
func TestForgottenJobIsBackOnAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		ahead, right := forceClient(t, s), forceClient(t, s.Share())
		var ran []time.Duration
		begin := time.Now()
		job := Job{Name: "tick", Schedule: Every(minute), Missed: MissedAll, Do: func(_ context.Context, run Run) error {
			ran = append(ran, run.ScheduledAt.Sub(begin))
			return nil
		}}
		runFor := func(c *Client, d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			if err := c.Run(ctx, job); err != nil {
				t.Error(err)
			}
		}
		runFor(right, 90*second)
		time.Sleep(10*minute + 30*second)
		if err := right.Admin().Forget(t.Context(), "tick"); err != nil {
			t.Fatal(err)
		}
		r, err := ahead.NewRunner(job)
		if err != nil {
			t.Fatal(err)
		}
		jobs := r.plan.joining()
		jobs[0].since = time.Now().Add(time.Hour)
		missing, _, err := r.read(t.Context(), jobs, []string{jobs[0].name})
		if err == nil {
			_, err = r.create(t.Context(), missing)
		}
		if err != nil || len(missing) != 1 {
			t.Fatal(missing, err)
		}
		info, err := right.Admin().Job(t.Context(), "tick")
		if err != nil || !info.DoneUpTo.IsZero() {
			t.Errorf("before it has run it is done up to %v: %v", info.DoneUpTo, err)
		}
		runFor(right, 150*second)
		if want := []time.Duration{minute, 13 * minute, 14 * minute}; !slices.Equal(ran, want) {
			t.Errorf("run for %v, want %v", ran, want)
		}
	})
}
