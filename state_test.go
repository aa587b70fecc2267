package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// What a run leaves is found by its next attempt, on any replica, and by the run of the next scheduled time. The history and the count of the
// attempts do not suffer.
func TestStateOfAJobOutlivesItsRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, network *soloisttest.Store, a, b *soloist.Client) {
		var found []string
		job := soloist.Job{Name: "import", Schedule: soloist.Every(time.Hour), Retry: soloist.Retry{Attempts: 3}, Do: func(ctx context.Context, run soloist.Run) error {
			found = append(found, fmt.Sprintf("%d after %q", run.Attempt, run.Lease.State()))
			page := fmt.Sprintf("page %d", len(found))
			if err := run.Lease.SetState(ctx, []byte(page)); err != nil {
				return err
			}
			check(t, "the state from then on", string(run.Lease.State()), page)
			switch len(found) {
			case 1:
				return errors.New("to be tried again")
			case 2: // its replica is cut off
				network.Stall()
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		start(t, a, job)
		time.Sleep(61 * time.Minute)
		start(t, b, job)
		t.Cleanup(network.Heal)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		check(t, "runs", strings.Join(found, ", "), `1 after "", 2 after "page 1", 3 after "page 2", 1 after "page 3", 1 after "page 4"`)
		info, err := b.Admin().Job(background, "import")
		if err != nil {
			t.Fatal(err)
		}
		var outcomes []string
		for _, run := range info.Runs {
			outcomes = append(outcomes, run.Outcome)
		}
		check(t, "history", outcomes, []string{"failed", "abandoned", "ok", "ok", "ok"})
	})
}

// A run that is interrupted leaves how far it has come under its lease, and another replica goes on from there.
func TestInterruptedRunResumesFromItsState(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		found := make(chan string, 2)
		job := soloist.Job{Name: "batch", Schedule: soloist.At(time.Now().Add(time.Minute)), Do: func(ctx context.Context, run soloist.Run) error {
			found <- string(run.Lease.State())
			if run.Attempt > 1 || len(run.Lease.State()) > 0 {
				return nil
			}
			<-ctx.Done()
			if err := run.Lease.SetState(run.Lease.Context(), []byte("row 4711")); err != nil {
				t.Error(err)
			}
			return context.Cause(ctx)
		}}
		stop := start(t, a, job)
		check(t, "the first replica begins at", <-found, "")
		start(t, b, job)
		stop()
		check(t, "the other one begins at", <-found, "row 4711")
	})
}

// The state of an element lasts from attempt to attempt, whether they fail, crash or are given back, until the element is processed.
func TestStateOfAnElementOutlivesItsAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, network *soloisttest.Store, a, b *soloist.Client) {
		options := soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 4}}
		claim := func(c *soloist.Client, attempt int, state string) *soloist.Element {
			t.Helper()
			el, err := c.Elements("films", options).Claim(background, "4711")
			if err != nil {
				t.Fatalf("attempt %d: %v", attempt, err)
			}
			check(t, "attempt and state", fmt.Sprintf("%d %q", el.Attempt(), el.State()), fmt.Sprintf("%d %q", attempt, state))
			return el
		}
		el := claim(a, 1, "")
		must(t, el.SetState(background, []byte("scene 1")))
		must(t, el.Fail(errors.New("no disk")))
		el = claim(a, 2, "scene 1")
		must(t, el.SetState(background, []byte("scene 2")))
		must(t, el.Release())
		el = claim(a, 2, "scene 2")
		must(t, el.SetState(background, []byte("scene 3")))
		network.Stall()
		<-el.Context().Done()
		time.Sleep(time.Minute)
		el = claim(b, 3, "scene 3")
		must(t, el.Done())
		network.Heal()
		for info, err := range b.Admin().Elements(background, "films") {
			check(t, "the element", fmt.Sprint(info.Status, err), "processed<nil>")
		}
	})
}

// A state whose request got no reply counts as set: State returns it, and the end of the attempt or the run writes it again, since that
// may have been all that arrived.
func TestStateThatIsNotConfirmedIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, network *soloisttest.Store, a, _ *soloist.Client) {
		films := a.Elements("films", soloist.ElementsOptions{})
		el, err := films.Claim(background, "4711")
		must(t, err)
		must(t, el.SetState(background, []byte("scene 1")))
		network.LoseReplies(1)
		if err := el.SetState(background, []byte("scene 2")); !errors.Is(err, soloist.ErrUnknown) {
			t.Fatalf("SetState without a reply: %v", err)
		}
		check(t, "the state of the element", string(el.State()), "scene 2")
		must(t, el.Fail(errors.New("no disk")))
		el, err = films.Claim(background, "4711")
		must(t, err)
		check(t, "the state of the next attempt", string(el.State()), "scene 2")

		var found []string
		start(t, a, soloist.Job{Name: "scan", Schedule: soloist.Every(time.Minute), Do: func(ctx context.Context, run soloist.Run) error {
			found = append(found, string(run.Lease.State()))
			time.Sleep(time.Second) // what this replica asks beside its run is answered
			network.LoseReplies(1)
			if err := run.Lease.SetState(ctx, fmt.Appendf(nil, "page %d", len(found))); !errors.Is(err, soloist.ErrUnknown) {
				t.Errorf("SetState without a reply: %v", err)
			}
			return nil
		}})
		time.Sleep(150 * time.Second)
		synctest.Wait()
		check(t, "the states that the runs find", found, []string{"", "page 1"})
	})
}

// A holder outside of this process does not see the state of an element, and does not spoil it.
func TestDetachedFailureKeepsTheState(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		films := a.Elements("films", soloist.ElementsOptions{})
		el, err := films.Claim(background, "4711")
		must(t, err)
		must(t, el.SetState(background, []byte("scene 1")))
		must(t, el.Release())
		d, err := films.ClaimDetached(background, "4711", "caller#1", false)
		must(t, err)
		must(t, films.FailDetached(background, d.Detached, errors.New("no disk")))
		el, err = films.Claim(background, "4711")
		must(t, err)
		check(t, "attempt and state", fmt.Sprintf("%d %q", el.Attempt(), el.State()), `2 "scene 1"`)
	})
}

// A state that is too long for the record that it is kept in is refused.
func TestStateHasAGreatestLength(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		el, err := a.Elements("films", soloist.ElementsOptions{}).Claim(background, "4711")
		must(t, err)
		for what, one := range map[string]struct {
			lease *soloist.Lease
			most  int
		}{"lock": {mustLock(t, a, "x"), 64 << 10}, "element": {el.Lease, 16 << 10}} {
			must(t, one.lease.SetState(background, make([]byte, one.most)))
			var invalid *soloist.InvalidError
			if err := one.lease.SetState(background, make([]byte, one.most+1)); !errors.As(err, &invalid) {
				t.Errorf("%s: one byte too many: %v", what, err)
			}
			check(t, what+": the state stays", len(one.lease.State()), one.most)
		}
	})
}

// A state is what it was when it was set or asked for, whatever its user does with the bytes after that.
func TestStatesAreCopied(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, a, "x")
		bytes := []byte("first")
		must(t, l.SetState(background, bytes))
		copy(bytes, "?????")
		copy(l.State(), "!!!!!")
		check(t, "the state under the lease", string(l.State()), "first")
		must(t, l.Release())
		l = mustLock(t, b, "x")
		copy(l.State(), "!!!!!")
		check(t, "the state that was left", string(l.State()), "first")
	})
}

// The store forgets the record of a lock in whose state is nothing any more, and not one that still has some.
func TestRecordWhoseStateIsEmptyIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		for name, states := range map[string][]string{"cleared": {"p", ""}, "too-long": {strings.Repeat("p", store.MaxState+1)}, "set": {"p"}, "set-again": {"", "p"}} {
			l := mustLock(t, a, name)
			for _, state := range states {
				if err := l.SetState(background, []byte(state)); (err != nil) != (name == "too-long") {
					t.Errorf("%s: %v", name, err)
				}
			}
			must(t, l.Release())
		}
		l := mustLock(t, a, "left")
		must(t, l.SetState(background, []byte("p")))
		must(t, l.Release())
		l = mustLock(t, b, "left")
		must(t, l.SetState(background, nil))
		must(t, l.Release())
		time.Sleep(1000 * time.Hour)
		_, err := s.Sweep(background, 1000)
		must(t, err)
		var names []string
		for r, err := range s.List(background, "lock/") {
			must(t, err)
			names = append(names, r.Name)
		}
		check(t, "records", strings.Join(names, ", "), "lock/set, lock/set-again")
	})
}
