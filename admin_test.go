package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// collect returns what a list yields, and its error.
func collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for one, err := range list {
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// overwrite replaces the state of a record that nobody holds, as something else than soloist may do.
func overwrite(t *testing.T, s store.Store, name, state string) {
	t.Helper()
	claim := store.Claim{Name: name, Holder: "something else", TTL: time.Minute}
	outs, err := s.Acquire(background, []store.Claim{claim})
	if err != nil || outs[0].Err != nil {
		t.Fatal(err, outs[0].Err)
	}
	rel := store.Release{Name: name, Holder: claim.Holder, Token: outs[0].Grant.Token, State: []byte(state), Retain: store.Forever}
	if errs, err := s.Release(background, []store.Release{rel}); err != nil || errs[0] != nil {
		t.Fatal(err, errs[0])
	}
}

// sleepOr sleeps unless ctx ends first.
func sleepOr(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A run that hangs is taken away from its replica: it is over, its history says by whom and why, and the job goes on.
func TestStuckRunIsReleased(t *testing.T) {
	for name, test := range map[string]struct {
		manual bool
		crash  soloist.Crash
	}{"scheduled": {}, "manual": {manual: true}, "at most once": {crash: soloist.CrashGiveUp}, "manual, at most once": {manual: true, crash: soloist.CrashGiveUp}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				ended := make(chan error, 1)
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Crash: test.crash, Do: func(ctx context.Context, run soloist.Run) error {
					if _ = r.do(ctx, run); len(r.began()) == 1 {
						<-ctx.Done()
						ended <- context.Cause(ctx)
						return ctx.Err()
					}
					return nil
				}}
				start(t, a, job)
				start(t, b, job)
				admin := b.Admin()
				due := time.Now().Truncate(time.Hour).Add(time.Hour).UTC()
				if test.manual {
					due = time.Now().UTC()
					must(t, admin.Trigger(background, "tick"))
				} else {
					time.Sleep(time.Until(due))
				}
				time.Sleep(20 * time.Minute)
				seen, err := admin.Job(background, "tick")
				if err != nil || seen.Running == nil {
					t.Fatal(seen, err)
				}
				if err := admin.Release(background, seen.Running.LeaseInfo, "it hangs in the disk"); err != nil {
					t.Fatal(err)
				}
				if err := <-ended; !errors.Is(err, soloist.ErrLost) {
					t.Errorf("its context: %v", err)
				}
				time.Sleep(20 * time.Minute)
				if n := len(r.began()); n != 1 {
					t.Errorf("begun %d times; want that it is not run again", n)
				}
				info, err := admin.Job(background, "tick")
				if err != nil || len(info.Runs) != 1 {
					t.Fatalf("%+v, %v", info, err)
				}
				run := info.Runs[0]
				if run.Outcome != soloist.OutcomeReleased || !strings.Contains(run.Error, "it hangs in the disk") || !strings.Contains(run.Error, b.Replica()) ||
					run.Replica != seen.Running.Replica() || run.Token != seen.Running.Token || run.Manual != test.manual || run.EndedAt.Sub(run.StartedAt) != 20*time.Minute {
					t.Errorf("history: %+v", run)
				}
				check(t, "scheduled", run.ScheduledAt, due)
				time.Sleep(time.Hour)
				if n := len(r.began()); n != 2 {
					t.Errorf("begun %d times an hour later; want that the job goes on", n)
				}
				actions, err := collect(admin.Actions(background))
				if len(actions) == 0 || err != nil {
					t.Fatal(actions, err)
				}
				last := actions[len(actions)-1]
				if last.Verb != soloist.ActionRelease || last.Kind != soloist.KindJob || last.Name != "tick" || last.Token != run.Token || last.Reason != "it hangs in the disk" || last.By != b.Replica() {
					t.Errorf("action: %+v", last)
				}
			})
		})
	}
}

// A lease that has ended is not released, and the error says who has the name now.
func TestReleaseSaysWhoHasTheName(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		l, err := a.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		seen := soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: l.Token()}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		err = b.Admin().Release(background, seen, "a test")
		if !errors.Is(err, soloist.ErrNotHeld) || !strings.Contains(err.Error(), "it is free") {
			t.Errorf("of a free name: %v", err)
		}
		next, err := a.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		err = b.Admin().Release(background, seen, "a test")
		var now *soloist.NotHeldError
		if !errors.As(err, &now) || now.Now == nil || now.Now.Token != next.Token() || now.Now.Replica() != a.Replica() {
			t.Errorf("of one that another has: %v", err)
		}
		if next.Err() != nil || next.Check(background) != nil {
			t.Errorf("the holder: %v", next.Err())
		}
		var bad *soloist.InvalidError
		if err := b.Admin().Release(background, soloist.LeaseInfo{Kind: "lok", Name: "x", Token: 1}, ""); !errors.As(err, &bad) {
			t.Errorf("a kind that is none: %v", err)
		}
	})
}

// A release by force says of what it is, in the list of actions, and so does the error if it has ended.
func TestForcedReleasesAreTold(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
			held := map[soloist.Kind]*soloist.Lease{}
			var err error
			mustAcquire(t, a, soloist.Detached{Kind: soloist.KindPermit, Name: "s", Limit: 2, Holder: "a#1"}, false)
			held[soloist.KindPermit], err = a.Semaphore("s", 2).TryAcquire(background)
			must(t, err)
			el, err := a.Elements("invoices", soloist.ElementsOptions{}).Claim(background, "1")
			must(t, err)
			held[soloist.KindElement] = el.Lease
			for _, seen := range []soloist.LeaseInfo{{Kind: soloist.KindPermit, Name: "s", Permit: 1}, {Kind: soloist.KindElement, Name: "1", Job: "invoices"}} {
				l := held[seen.Kind]
				seen.Token = l.Token()
				stale := seen
				stale.Token--
				var not *soloist.NotHeldError
				err := b.Admin().Release(background, stale, "a test")
				if !errors.As(err, &not) || not.Seen != stale || not.Now == nil || not.Now.Token != l.Token() || not.Now.Holder == "" ||
					not.Now.Kind != seen.Kind || not.Now.Name != seen.Name || not.Now.Job != seen.Job || not.Now.Permit != seen.Permit {
					t.Errorf("with an old token: %+v", err)
				}
				if crashed {
					continue
				}
				must(t, b.Admin().Release(background, seen, "a test"))
				actions, err := collect(b.Admin().Actions(background))
				must(t, err)
				last := actions[len(actions)-1]
				last.At = time.Time{}
				if !strings.HasPrefix(last.Holder, l.Holder()) {
					t.Errorf("the holder in %+v", last)
				}
				last.Holder = ""
				check(t, "action", last, soloist.Action{Verb: soloist.ActionRelease, Kind: seen.Kind, Name: seen.Name, Job: seen.Job, Permit: seen.Permit, Token: l.Token(), Reason: "a test", By: "b"})
			}
		})
	}
}

// What has ended is not released by force: a lease that nobody has renewed, one that ends just then, and any while the client is closed or its store away.
func TestForcedReleaseOfWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &troubled{Store: soloisttest.NewStore()}
		holder, c := soloisttest.NewReplica(t, s.Share(), soloist.Config{}), soloisttest.NewReplica(t, s, soloist.Config{})
		d, _ := mustAcquire(t, holder, lockOf("a#1"), false) // who dies
		time.Sleep(time.Minute)
		var not *soloist.NotHeldError
		seen := soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: d.Token}
		if err := c.Admin().Release(background, seen, "a test"); !errors.As(err, &not) || not.Now != nil || errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("a lease that has run out: %v", err)
		}

		l := mustLock(t, holder, "x")
		seen.Token = l.Token()
		var next *soloist.Lease
		s.set(func(c store.Claim, _ store.Outcome) {
			if c.Name == "lock/x" && next == nil {
				must(t, l.Release())
				next = mustLock(t, holder, "x")
			}
		}, nil)
		if err := c.Admin().Release(background, seen, "a test"); !errors.As(err, &not) || not.Now == nil || not.Now.Token != next.Token() || !strings.Contains(err.Error(), "holds it") {
			t.Errorf("a lease that ends meanwhile: %v", err)
		}
		must(t, next.Check(background))

		lingers, err := holder.With(soloist.Options{AtLeast: time.Minute}).TryLock(background, "y")
		must(t, err)
		must(t, lingers.Release())
		if err := c.Admin().Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: "y", Token: lingers.Token()}, "a test"); err == nil || !strings.Contains(err.Error(), "stays taken for another 1m0s") {
			t.Errorf("a name that lingers: %v", err)
		}

		seen.Token = next.Token()
		away := errors.New("away")
		s.Break(away)
		wantIs(t, "while the store is away", c.Admin().Release(background, seen, "a test"), away)
		s.Heal()
		must(t, c.Close())
		wantIs(t, "when the client is closed", c.Admin().Release(background, seen, "a test"), soloist.ErrClosed)
		must(t, next.Check(background))
	})
}

// A run that is released by force in the pause before another attempt is over: its scheduled time is done, although it could still be begun in time.
func TestRunIsReleasedBetweenAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Grace: 50 * time.Minute, Retry: soloist.Retry{Attempts: 3, Backoff: 40 * time.Minute}, Do: func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			return errors.New("no paper")
		}}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(65 * time.Minute)
		seen, err := b.Admin().Job(background, "tick")
		if err != nil || seen.Running == nil {
			t.Fatal(seen, err)
		}
		must(t, b.Admin().Release(background, seen.Running.LeaseInfo, "a test"))
		time.Sleep(30 * time.Minute)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Hour})
		info, err := b.Admin().Job(background, "tick")
		if err != nil || len(info.Runs) != 2 || info.Runs[1].Outcome != soloist.OutcomeReleased || info.Runs[1].Attempt != 2 || !info.Runs[1].ScheduledAt.Equal(begin.Add(time.Hour)) {
			t.Errorf("%+v, %v; want that the second attempt was released", info.Runs, err)
		}
	})
}

// All jobs are paused at once, and resumed: those that are there, and those that come later, on this replica and others.
// A job that was paused by name stays paused.
func TestAllJobsArePaused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		admin := b.Admin()
		var r recorder
		jobs := make([]soloist.Job, 2500)
		for i := range jobs {
			jobs[i] = soloist.Job{Name: "job " + strconv.Itoa(i), Schedule: soloist.Every(time.Hour), Do: r.do}
		}
		start(t, a, jobs...)
		time.Sleep(time.Second)
		if err := admin.Pause(background, "job 7", "this one alone"); err != nil {
			t.Fatal(err)
		}
		before := s.Calls()
		if err := admin.PauseAll(background, "the fleet moves"); err != nil {
			t.Fatal(err)
		}
		if calls := s.Calls() - before; calls > 20 {
			t.Errorf("%d calls", calls)
		}
		if err := admin.PauseAll(background, "it still moves"); err != nil {
			t.Error(err)
		}
		late := soloist.Job{Name: "late", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedAll, Do: r.do}
		start(t, b, append(jobs[:100:100], late)...)
		time.Sleep(3 * time.Hour)
		check(t, "runs in a pause", len(r.began()), 0)
		for _, job := range []string{"job 7", "job 8", "late"} {
			info, err := admin.Job(background, job)
			if err != nil || info.Paused == nil || info.Paused.All != (job != "job 7") || !info.Next.IsZero() {
				t.Errorf("%s: %+v, next %v, %v", job, info.Paused, info.Next, err)
			}
			if err := admin.Resume(background, job); !errors.Is(err, soloist.ErrAllPaused) || !strings.Contains(err.Error(), "it still moves") {
				t.Errorf("resumed %s alone: %v", job, err)
			}
		}
		if p, err := admin.AllPaused(background); err != nil || p == nil || p.Reason != "it still moves" || p.By != "b" {
			t.Errorf("%+v, %v", p, err)
		}
		if err := admin.ResumeAll(background); err != nil {
			t.Fatal(err)
		}
		if p, err := admin.AllPaused(background); err != nil || p != nil {
			t.Errorf("%+v, %v", p, err)
		}
		actions, err := collect(admin.Actions(background))
		must(t, err)
		if n := len(actions); n != 4 || actions[1].Verb != soloist.ActionPause || actions[1].Reason != "the fleet moves" || actions[1].Name != "" || actions[3].Verb != soloist.ActionResume {
			t.Errorf("the actions are %+v; want a pause of one job, two of all, and the end of that", actions)
		}
		time.Sleep(time.Hour)
		check(t, "runs after it", len(r.began()), len(jobs)-1+60)
		if info, err := admin.Job(background, "job 7"); err != nil || info.Paused == nil || info.Paused.Reason != "this one alone" || info.Paused.All {
			t.Errorf("%+v, %v", info.Paused, err)
		}
	})
}

// An untold store lists no commands to jobs, so a replica does not know them before it claims.
type untold struct{ *soloisttest.Store }

func (s untold) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	if prefix == "control/" {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, errors.New("not now")) }
	}
	return s.Store.List(ctx, prefix)
}

// A pause of all jobs holds on a replica that was not notified: the claim of what is due finds it.
func TestAPauseOfAllJobsIsNeverMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := soloisttest.NewStore()
		admin := soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
		start(t, soloisttest.NewReplica(t, untold{s.Share()}, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: r.do})
		time.Sleep(1500 * time.Millisecond)
		for range 20 {
			time.Sleep(499 * time.Millisecond) // just before it is due
			synctest.Wait()
			before := len(r.began())
			if err := admin.PauseAll(background, "a check"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			check(t, "runs in a pause", len(r.began()), before)
			if err := admin.ResumeAll(background); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1501 * time.Millisecond)
		}
		if n := len(r.began()); n < 20 {
			t.Errorf("%d runs between the pauses", n)
		}
	})
}

// While nobody knows whether all jobs are paused, no replica starts any, and no client overwrites what it cannot read.
func TestUnreadableControlOfAllJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		spoil(t, s, "control-of-all", "?????")
		if err := b.Admin().PauseAll(background, "it cannot be written"); err == nil {
			t.Error("what was there has been overwritten")
		}
		if _, err := b.Admin().AllPaused(background); err == nil {
			t.Error("what cannot be read was read")
		}
		if err := b.Admin().Resume(background, "tick"); err == nil || errors.Is(err, soloist.ErrAllPaused) {
			t.Errorf("a job was resumed, or all are said to be paused: %v", err)
		}
		if err := b.Admin().ResumeAll(background); err == nil {
			t.Error("all jobs were resumed")
		}
		var r recorder
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: r.do})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		check(t, "runs of a job of which nobody knows whether it is paused", len(r.began()), 0)
	})
}

// A meddling store does something when a lock is to be released by force, and sweeps after that.
type meddling struct {
	*soloisttest.Store
	before func()
}

func (s *meddling) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if s.before == nil || releases[0].Name != "lock/x" {
		return s.Store.Release(ctx, releases)
	}
	s.before()
	s.before = nil
	errs, err := s.Store.Release(ctx, releases)
	if _, err := s.Sweep(ctx, 100); err != nil {
		return nil, err
	}
	return errs, err
}

// What a holder has left with a name, after the one who releases it by force has looked, is not forgotten.
func TestAReleaseByForceForgetsNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &meddling{Store: soloisttest.NewStore()}
		a, admin := soloisttest.NewReplica(t, s.Share(), soloist.Config{}), soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
		lease, err := a.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		s.before = func() {
			if err := lease.SetState(background, []byte("left")); err != nil {
				t.Error(err)
			}
		}
		if err := admin.Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: lease.Token()}, "a test"); err != nil {
			t.Fatal(err)
		}
		next, err := a.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		check(t, "state", string(next.State()), "left")
	})
}

// A lease that was released by force, but whose holder may not notice, is neither held for certain nor free for certain.
func TestHalfOfAReleaseByForceIsUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		lease := mustLock(t, a, "x")
		refusing := failing{s.Share(), func(c store.Claim) bool { return c.Name == "lock/x" && c.Mark >= 0 }}
		admin := soloisttest.NewReplica(t, refusing, soloist.Config{}).Admin()
		err := admin.Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: lease.Token()}, "a test")
		wantIs(t, "half of it", err, soloist.ErrUnknown)
	})
}

// An endsWith store ends each list with an error.
type endsWith struct {
	*soloisttest.Store
	err error
}

func (s endsWith) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

func (s endsWith) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range s.Store.ListAfter(ctx, prefix, after) {
			if !yield(r, err) {
				return
			}
		}
		yield(store.Record{}, s.err)
	}
}

// A list that lacks records which something else has written, and no more, is told from one that the store has not told to its end, however many they are.
func TestOnlyUnreadable(t *testing.T) {
	if soloist.OnlyUnreadable(nil) || soloist.OnlyUnreadable(errors.New("away")) {
		t.Error("no error, or another one, is about records")
	}
	spoilt := endsWith{soloisttest.NewStore(), &store.UnreadableError{Err: errors.New("the row of lock/x cannot be")}}
	if _, err := collect(soloisttest.NewReplica(t, spoilt, soloist.Config{}).Admin().Locks(t.Context())); !soloist.OnlyUnreadable(err) {
		t.Errorf("records that the store cannot read: %v", err)
	}
	for _, n := range []int{0, 1, 30} {
		s := soloisttest.NewStore()
		for i := range n {
			for _, kind := range []string{"job/", "control/", "replica/", "semaphore/"} {
				claim := store.Claim{Name: kind + strconv.Itoa(i), Holder: "a#1", TTL: time.Hour}
				outs, err := s.Acquire(t.Context(), []store.Claim{claim})
				if err == nil {
					_, err = s.Extend(t.Context(), []store.Extension{{Name: claim.Name, Holder: claim.Holder, Token: outs[0].Grant.Token, TTL: time.Hour, State: []byte("page 7")}})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, early := range []bool{false, true} {
			admin := soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
			if early {
				admin = soloisttest.NewReplica(t, endsWith{s, errors.New("away")}, soloist.Config{}).Admin()
			}
			_, jobs := collect(admin.Jobs(t.Context()))
			_, replicas := collect(admin.Replicas(t.Context()))
			_, semaphores := collect(admin.Semaphores(t.Context()))
			for what, err := range map[string]error{"jobs": jobs, "replicas": replicas, "semaphores": semaphores} {
				if (err != nil) != (early || n > 0) || soloist.OnlyUnreadable(err) != (n > 0 && !early) {
					t.Errorf("%d records, cut off: %t: %s: %t of %v", n, early, what, soloist.OnlyUnreadable(err), err)
				}
			}
		}
	}
}

// However many records of replicas cannot be read, a failure of the store between them is not forgotten: jobs would be told as those of no replica.
func TestFailureOfTheStoreBetweenManyUnreadableRecords(t *testing.T) {
	s := soloisttest.NewStore()
	put := func(name, state string) {
		t.Helper()
		claim := store.Claim{Name: name, Holder: "a#1", TTL: time.Hour}
		outs, err := s.Acquire(t.Context(), []store.Claim{claim})
		if err == nil {
			_, err = s.Extend(t.Context(), []store.Extension{{Name: name, Holder: claim.Holder, Token: outs[0].Grant.Token, TTL: time.Hour, State: []byte(state)}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 { // as many as an error lists
		put(fmt.Sprintf("replica/0%d", i), "page 7")
	}
	put("replica/10", `{"replica":"a","jobs":1,"digest":"1"}`)
	put("replica/11", `{"replica":"b","jobs":1,"digest":"2"}`)
	put("replica-jobs/11/0", "page 7")
	put("job/x", "{}")
	away := failing{s, func(c store.Claim) bool { return c.Name == "replica-jobs/10/0" }}
	jobs, err := collect(soloisttest.NewReplica(t, away, soloist.Config{}).Admin().Jobs(t.Context()))
	if err == nil || soloist.OnlyUnreadable(err) || len(jobs) > 0 {
		t.Errorf("%d jobs, and only about records: %t of %v", len(jobs), soloist.OnlyUnreadable(err), err)
	}
	jobs, err = collect(soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Admin().Jobs(t.Context()))
	if !soloist.OnlyUnreadable(err) || len(jobs) != 1 {
		t.Errorf("without a failure of the store: %d jobs, and only about records: %t of %v", len(jobs), soloist.OnlyUnreadable(err), err)
	}
}
