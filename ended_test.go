package soloist_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// Another call that would record something else does not report an element as recorded that was ended: only what the
// first call has written is in the record.
func TestOnlyTheFirstEndOfAnElementIsRecorded(t *testing.T) {
	done := func(el *soloist.Element) error { return el.Done() }
	fail := func(el *soloist.Element) error { return el.Fail(errors.New("no paper")) }
	release := func(el *soloist.Element) error { return el.Release() }
	for what, c := range map[string]struct {
		first, second func(*soloist.Element) error
		recorded      bool // the second call has nothing to record that the first has not
		status        string
		attempts      int
	}{
		"released, and then done":   {release, done, false, "waiting", 0},
		"released, and then failed": {release, fail, false, "waiting", 0},
		"released twice":            {release, release, true, "waiting", 0},
		"done, and then released":   {done, release, true, "processed", 0},
		"done twice":                {done, done, true, "processed", 0},
		"done, and then failed":     {done, fail, false, "processed", 0},
		"failed, and then done":     {fail, done, false, "waiting", 1},
		"failed twice counts once":  {fail, fail, true, "waiting", 1},
		"failed, and then released": {fail, release, true, "waiting", 1},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				e := a.Elements("x", soloist.ElementsOptions{})
				el, err := e.Claim(background, "1")
				must(t, err)
				must(t, c.first(el))
				before := s.Calls()
				if err := c.second(el); (err == nil) != c.recorded || err != nil && !errors.Is(err, soloist.ErrLost) {
					t.Errorf("the second call: %v; want nil: %t, else ErrLost", err, c.recorded)
				}
				check(t, "requests of the second call", s.Calls()-before, 0)
				for info, err := range b.Admin().Elements(background, "x") {
					must(t, err)
					if info.Status != c.status || info.Attempts != c.attempts {
						t.Errorf("the element is %s after %d attempts, want %s after %d", info.Status, info.Attempts, c.status, c.attempts)
					}
				}
			})
		})
	}
}

// Another call that ends a lease has the answer of the first, whatever that is, and waits for it.
func TestEachCallThatEndsALeaseHasItsAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		e := a.With(soloist.Options{TTL: time.Minute}).Elements("x", soloist.ElementsOptions{})
		el, err := e.Claim(background, "1")
		must(t, err)
		s.Break(nil)
		ends := []func() error{el.Done, el.Done, el.Release, func() error { return e.DoneAll([]*soloist.Element{el})[0] }}
		answers := make(chan error, len(ends))
		for _, end := range ends {
			go func() { answers <- end() }()
			synctest.Wait()
		}
		if early := len(answers); early > 0 {
			t.Errorf("%d calls ended before the first had its answer", early)
		}
		for range ends {
			wantIs(t, "done, without a store", <-answers, soloist.ErrUnknown)
		}
		wantIs(t, "done once more", el.Done(), soloist.ErrUnknown)
	})
}

// An element that is in a list twice is recorded once, and has the same answer in both places.
func TestAnElementThatIsListedTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		e := a.Elements("x", soloist.ElementsOptions{})
		el, err := e.Claim(background, "1")
		must(t, err)
		for i, err := range e.DoneAll([]*soloist.Element{el, el}) {
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}

// An observer of the end of a lease can end it, too: it has the answer already.
func TestAnObserverReleasesWhatIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *soloist.Lease
		var again error
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{Observe: func(_ context.Context, e soloist.Event) {
			if e.Kind == soloist.EventReleased {
				again = l.Release()
			}
		}})
		l = mustLock(t, c, "x")
		must(t, l.Release())
		must(t, again)
	})
}

// Process does not report an element as processed that its function has released, and a failure that the function
// recorded counts.
func TestProcessOfWhatItsFunctionHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		e := a.Elements("x", soloist.ElementsOptions{})
		for what, c := range map[string]struct {
			end  func(*soloist.Element) error
			lost bool
		}{
			"released": {func(el *soloist.Element) error { return el.Release() }, true},
			"failed":   {func(el *soloist.Element) error { return el.Fail(errors.New("no paper")) }, true},
			"done":     {func(el *soloist.Element) error { return el.Done() }, false},
		} {
			if err := e.Process(background, what, func(_ context.Context, el *soloist.Element) error { return c.end(el) }); errors.Is(err, soloist.ErrLost) != c.lost || !c.lost && err != nil {
				t.Errorf("%s: %v", what, err)
			}
			_, err := e.Claim(background, what)
			if errors.Is(err, soloist.ErrDone) == c.lost {
				t.Errorf("%s: then claimed: %v", what, err)
			}
		}
	})
}

// The function of a job cannot release the lease of its run: nothing would be recorded, and another replica would run
// it again.
func TestAFunctionCannotReleaseItsRun(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var answers []error
		at := time.Now().Add(time.Minute)
		for _, c := range []*soloist.Client{a, b} {
			start(t, c, soloist.Job{Name: "invoices", Schedule: soloist.At(at), Do: func(_ context.Context, run soloist.Run) error {
				answers = append(answers, run.Lease.Release(), run.Lease.Err())
				time.Sleep(time.Minute)
				return nil
			}})
		}
		time.Sleep(10 * time.Minute)
		var refused *store.InvalidError
		if len(answers) != 2 || !errors.As(answers[0], &refused) || answers[1] != nil {
			t.Errorf("got %v of one run, want a release that is refused, and a lease that is held", answers)
		}
		info, err := a.Admin().Job(background, "invoices")
		must(t, err)
		if !info.DoneUpTo.Equal(at) {
			t.Errorf("done up to %v, want %v", info.DoneUpTo, at)
		}
	})
}
