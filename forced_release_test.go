package soloist

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A breakingStore fails each request for the lock x after some releases and claims.
type breakingStore struct {
	*memstore.Store
	releases, claims int // so many are answered; then the answers are lost, after the request has had its effect if late is set
	late             bool
}

func (s *breakingStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark < 0 || claims[0].Name != "lock/x" {
		return s.Store.Acquire(ctx, claims)
	}
	if s.claims--; s.claims < 0 {
		if s.late {
			_, _ = s.Store.Acquire(ctx, claims)
		}
		return nil, store.AsUnknown(errors.New("lost"))
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *breakingStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if releases[0].Name != "lock/x" {
		return s.Store.Release(ctx, releases)
	}
	if s.releases--; s.releases < 0 {
		if s.late {
			_, _ = s.Store.Release(ctx, releases)
		}
		return nil, store.AsUnknown(errors.New("lost"))
	}
	return s.Store.Release(ctx, releases)
}

func forceClient(t *testing.T, s store.Store) *Client {
	t.Helper()
	c, err := New(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A caller that held what was released by force is told that its lease is lost, though nobody has followed; what was there stays.
func TestForceReleaseLeavesATrace(t *testing.T) {
	for kind, take := range map[Kind]func(*Client) (*Lease, error){
		KindLock:   func(c *Client) (*Lease, error) { return c.TryLock(context.Background(), "x") },
		KindLeader: func(c *Client) (*Lease, error) { return c.Campaign(context.Background(), "x") },
		KindPermit: func(c *Client) (*Lease, error) { return c.Semaphore("x", 1).TryAcquire(context.Background()) },
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				a, b := forceClient(t, s), forceClient(t, s.Share())
				l, err := take(a)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.SetState(t.Context(), []byte("page 7")); err != nil {
					t.Fatal(err)
				}
				if err := b.With(Options{AtLeast: time.Minute}).Admin().Release(t.Context(), LeaseInfo{Kind: kind, Name: "x", Token: l.token}, "a test"); err != nil {
					t.Fatal(err)
				}
				if err := l.Release(); !errors.Is(err, ErrLost) {
					t.Errorf("its holder's release: %v", err)
				}
				next, err := take(b)
				if err != nil || string(next.State()) != "page 7" {
					t.Errorf("the next: %v", err)
				}
			})
		})
	}
}

// When only a part of a release by force is answered for, its caller is told so.
func TestForceReleaseHalfWay(t *testing.T) {
	for _, late := range []bool{false, true} {
		for what, s := range map[string]*breakingStore{
			"the release": {claims: 1, releases: 0}, "the claim": {claims: 0, releases: 1}, "the second release": {claims: 1, releases: 1},
		} {
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s.Store, s.late = memstore.New(), late
					a := forceClient(t, s.Share())
					l, err := a.TryLock(t.Context(), "x")
					if err != nil {
						t.Fatal(err)
					}
					if err := forceClient(t, s).Admin().Release(t.Context(), LeaseInfo{Kind: KindLock, Name: "x", Token: l.Token()}, "a test"); !errors.Is(err, ErrUnknown) {
						t.Errorf("got: %v", err)
					}
					time.Sleep(time.Minute)
					if _, err := a.TryLock(t.Context(), "x"); err != nil && what != "the release" {
						t.Errorf("a minute later: %v", err)
					}
				})
			})
		}
	}
}

// Somebody who waits is not held up by a release by force.
func TestForceReleaseForAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		a, b, c := forceClient(t, s), forceClient(t, s.Share()), forceClient(t, s.Share())
		l, err := a.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *Lease)
		go func() {
			next, err := c.Lock(t.Context(), "x")
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		synctest.Wait()
		begin := time.Now()
		if err := b.Admin().Release(t.Context(), LeaseInfo{Kind: KindLock, Name: "x", Token: l.Token()}, "a test"); err != nil {
			t.Error(err)
		}
		if next := <-got; time.Since(begin) > 0 || next.Err() != nil {
			t.Errorf("after %v: %v", time.Since(begin), next.Err())
		}
		if err := l.Release(); !errors.Is(err, ErrLost) {
			t.Errorf("its holder's release: %v", err)
		}
	})
}

// What lingers is held by nobody: a release by force says so, and changes nothing.
func TestWhatLingersIsNotReleasedByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forceClient(t, memstore.New()).With(Options{AtLeast: time.Minute})
		l, err := c.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		err = c.Admin().Release(t.Context(), LeaseInfo{Kind: KindLock, Name: "x", Token: l.token}, "a test")
		var not *NotHeldError
		if !errors.As(err, &not) || not.Now == nil || not.Now.Holder != "" || not.Now.Left != time.Minute {
			t.Errorf("%v; want that it is not held, and stays taken for a minute", err)
		}
	})
}

// A fixed delay counts from when a run was released by force.
func TestDelayCountsFromAReleaseByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forceClient(t, memstore.New())
		ctx, stop := context.WithCancel(t.Context())
		began := make(chan time.Time, 10)
		ended := make(chan error, 1)
		go func() {
			ended <- c.Run(ctx, Job{Name: "tick", Schedule: Delay(10 * time.Minute), Do: func(ctx context.Context, _ Run) error {
				began <- time.Now()
				<-ctx.Done()
				return ctx.Err()
			}})
		}()
		<-began
		time.Sleep(time.Hour)
		seen, err := c.Admin().Job(t.Context(), "tick")
		if err != nil || seen.Running == nil {
			t.Fatal(seen, err)
		}
		released := time.Now()
		if err := c.Admin().Release(t.Context(), seen.Running.LeaseInfo, "a test"); err != nil {
			t.Fatal(err)
		}
		if info, err := c.Admin().Job(t.Context(), "tick"); err != nil || len(info.Runs) != 1 || !info.Runs[0].ScheduledAt.Equal(info.Runs[0].StartedAt) {
			t.Errorf("%+v, %v; want a run that was due when it began", info.Runs, err)
		}
		if again := (<-began).Sub(released); again < 10*time.Minute || again > 11*time.Minute {
			t.Errorf("it is run again %v after the release, want 10 minutes", again)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The schedule that a job's record has as text gives the scheduled time of a run that was released by force, if it has one then; else that is when the run began.
func TestNewestTimeOfARecordedSchedule(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	ten, err := cron.ParseIn("0 10 * * *", tokyo)
	if err != nil {
		t.Fatal(err)
	}
	midnight := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	until := midnight.Add(90 * time.Minute)
	for _, test := range []struct {
		text        string
		after, want time.Time
	}{
		{"@every 1h0m0s", midnight.Add(-48 * time.Hour), midnight.Add(time.Hour)},
		{"0 1 * * *", time.Time{}, midnight.Add(time.Hour)},
		{"0 1 * * *", midnight.Add(80 * time.Minute), until}, // the record is done with that
		{describe(ten), time.Time{}, midnight.Add(time.Hour)},
		{describe(Delay(time.Hour)), midnight, until},
		{describe(At(midnight.Add(time.Hour))), midnight, midnight.Add(time.Hour)},
		{"no schedule", midnight, until},
		{"", midnight, until},
	} {
		if got := newestDue(test.text, "tick", test.after, until); !got.Equal(test.want) {
			t.Errorf("%q after %v: %v, want %v", test.text, test.after, got, test.want)
		}
	}
}

// A state that cannot be read stays as it is when the run is released by force.
func TestForceReleaseKeepsAStateThatIsNotOurs(t *testing.T) {
	if mark, state := runReleased(store.Record{State: []byte("page 7"), Mark: 3}, "tick", "a test", time.Now()); mark != 0 || state != nil {
		t.Errorf("mark %d and state %q, want that both stay", mark, state)
	}
}

// A run that is released by force leaves what has been due since it began to be run, whether or not its record shows which run it is.
func TestForcedReleaseLeavesWhatWasDueSince(t *testing.T) {
	now := epoch.Add(time.Hour)
	for _, pending := range []int64{0, ms(30 * time.Minute)} {
		state := jobState{Schedule: "@every 1m0s", Pending: pending}
		mark, _ := runReleased(store.Record{Mark: ms(minute), Age: 10 * time.Minute, Holder: "a#1", State: state.json()}, "tick", "a test", now)
		if want := ms(50 * time.Minute); mark != want {
			t.Errorf("with %d pending it is done until %v, want %v", pending, time.UnixMilli(mark).UTC(), time.UnixMilli(want).UTC())
		}
	}
}

// The clock of who releases a run by force may be behind that of who began it: the scheduled time of the run is done all the same, and is the one in the history.
func TestForcedReleaseByAClockThatIsBehind(t *testing.T) {
	due := after(2 * time.Hour)
	for what, row := range map[string]struct {
		behind time.Duration
		mark   int64
		state  jobState
		again  string // what the next replica runs; "" if it is nothing
	}{
		"one that is recorded":                      {50 * time.Millisecond, ms(time.Hour), jobState{Pending: due.UnixMilli()}, ""},
		"one that is recorded, of another day":      {time.Hour, ms(time.Hour), jobState{Pending: due.UnixMilli()}, ""},
		"one that follows from what was done":       {50 * time.Millisecond, ms(time.Hour), jobState{}, ""},
		"the first":                                 {2 * time.Second, 0, jobState{Since: ms(61 * minute)}, ""},
		"one before it, by a clock that is right":   {0, ms(0), jobState{}, ""},
		"one that was begun some seconds before it": {5 * time.Second, ms(time.Hour), jobState{}, "2h0m0s attempt 1"},
	} {
		t.Run(what, func(t *testing.T) {
			row.state.Schedule = "@every 1h0m0s"
			released := due.Add(10 * minute)
			record := store.Record{Mark: row.mark, Age: 10 * minute, Holder: "a#1", Token: 1, State: row.state.json()}
			mark, state := runReleased(record, "tick", "a test", released.Add(-row.behind))
			_, job := known{schedule: Every(time.Hour), missed: MissedOnce}.planner(t)
			d := job.decide(store.Grant{Token: 2, Mark: max(mark, row.mark), State: state}, trip{released, released, 0})
			check(t, "the next replica", d.text(), row.again)
			if runs := d.state.Runs; row.again == "" && (len(runs) != 1 || !runs[0].ScheduledAt.Equal(due)) {
				t.Errorf("the history has %+v, want the time %v", runs, due)
			}
		})
	}
}
