package soloist_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// The list of actions keeps the newest, and fits its record however long the reasons are.
func TestActionsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})
		time.Sleep(time.Second)
		for i := range 130 {
			if err := b.Admin().Pause(background, "tick", strconv.Itoa(i)+" "+strings.Repeat(`"<`, 900)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Admin().Resume(background, "tick"); err != nil {
			t.Fatal(err)
		}
		actions, err := collect(b.Admin().Actions(background))
		if err != nil || len(actions) < 20 || len(actions) > 100 || actions[len(actions)-1].Verb != soloist.ActionResume || actions[len(actions)-2].Verb != soloist.ActionPause {
			t.Fatalf("%d actions, %v", len(actions), err)
		}
		if last := actions[len(actions)-2].Reason; !strings.HasPrefix(last, "129 ") {
			t.Errorf("the last pause in the list is %.9q; want that of number 129", last)
		}
	})
}

// The list of actions has a hundred, if they fit.
func TestTheNewestActionsAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})
		for i := range 130 {
			if err := b.Admin().Pause(background, "tick", strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		actions, err := collect(b.Admin().Actions(background))
		if err != nil || len(actions) != 100 || actions[0].Reason != "30" || actions[99].Reason != "129" {
			t.Errorf("%d actions, %v; want those of 30 to 129", len(actions), err)
		}
		spoil(t, s, "actions", "?????")
		if actions, err := collect(b.Admin().Actions(background)); err == nil || len(actions) > 0 {
			t.Errorf("of a list that cannot be read: %+v, %v", actions, err)
		}
		if err := b.Admin().Resume(background, "tick"); err != nil {
			t.Errorf("it keeps a job from being resumed: %v", err)
		}
		if actions, err := collect(b.Admin().Actions(background)); err != nil || len(actions) != 1 || actions[0].Verb != soloist.ActionResume {
			t.Errorf("after that: %+v, %v", actions, err)
		}
	})
}

// An unheard store carries out the first release of a record, and does not reply to it. It calls others before and after.
type unheard struct {
	*soloisttest.Store
	record        string
	before, after func()
	said          atomic.Bool
}

func (s *unheard) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if releases[0].Name != s.record || !s.said.CompareAndSwap(false, true) {
		return s.Store.Release(ctx, releases)
	}
	s.before()
	_, _ = s.Store.Release(ctx, releases)
	s.after()
	return nil, errNoReply
}

// A change that took effect without a reply, and that could not be repeated because somebody else got the record, is unknown: nobody is told that nothing was
// changed, and the list of actions has it.
func TestChangeThatIsRepeatedTooLateIsUnknown(t *testing.T) {
	failed := errors.New("failed")
	for verb, record := range map[string]string{soloist.ActionRelease: "lock/x", soloist.ActionPause: "control/tick", soloist.ActionRetry: "element/invoices/1", soloist.ActionForget: "job/tick"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := soloisttest.NewStore()
				s := &unheard{Store: mem.Share(), record: record, before: func() {}, after: func() {}}
				a, b := soloisttest.NewReplica(t, mem, soloist.Config{}), soloisttest.NewReplica(t, mem.Share(), soloist.Config{})
				admin := soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
				followed := make(chan error, 1)
				tick := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing}
				var err error
				switch verb {
				case soloist.ActionRelease:
					l := mustLock(t, a, "x")
					go func() {
						_, err := b.Lock(background, "x")
						followed <- err
					}()
					synctest.Wait()
					err = admin.Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: l.Token()}, "stuck")
					wantIs(t, "the lease", l.Check(background), soloist.ErrLost)
				case soloist.ActionPause:
					<-runs(t, a, tick).Ready()
					s.before = func() { // the next one waits in line for the lock
						go func() { followed <- b.Admin().Trigger(background, "tick") }()
						synctest.Wait()
					}
					err = admin.Pause(background, "tick", "stuck")
					job, read := admin.Job(background, "tick")
					if wantIs(t, "reading", read, nil); job.Paused == nil {
						t.Error("the job is not paused")
					}
				case soloist.ActionRetry:
					invoices := func(c *soloist.Client) *soloist.Elements {
						return c.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}})
					}
					wantIs(t, "processing", invoices(a).Process(background, "1", func(context.Context, *soloist.Element) error { return failed }), failed)
					s.after = func() {
						_, err := invoices(b).Claim(background, "1")
						followed <- err
					}
					err = admin.RetryElement(background, "invoices", "1")
				case soloist.ActionForget:
					stop := start(t, a, tick)
					synctest.Wait()
					stop()
					s.after = func() {
						start(t, b, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: func(ctx context.Context, _ soloist.Run) error {
							<-ctx.Done()
							return nil
						}})
						time.Sleep(3 * time.Second) // it is run by then
						followed <- nil
					}
					err = admin.Forget(background, "tick")
				}
				if !errors.Is(err, soloist.ErrUnknown) || errors.Is(err, soloist.ErrNotHeld) || errors.Is(err, soloist.ErrLost) {
					t.Errorf("%v; want that it is unknown", err)
				}
				wantIs(t, "who followed", <-followed, nil)
				actions, err := collect(admin.Actions(background))
				if err != nil || !slices.ContainsFunc(actions, func(a soloist.Action) bool { return a.Verb == verb }) {
					t.Errorf("the actions are %+v, %v", actions, err)
				}
			})
		})
	}
}

// The name of who makes changes is cut: each record that says it is read again and again.
func TestLongNameOfWhoMakesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		leave(t, s, "job/tick", `{"schedule":"@every 1m0s"}`)
		admin := soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
		longest := strings.Repeat("alice/", 21) + "as" // 128 bytes
		for who, want := range map[string]string{
			longest: longest, longest + "b": longest, strings.Repeat(longest, 700): longest,
			longest[:127] + "ß": longest[:127], longest[:126] + "ß": longest[:126] + "ß", "al\xffice": "alice",
		} {
			must(t, admin.By(who).Pause(background, "tick", "a test"))
			job, err := admin.Job(background, "tick")
			must(t, err)
			check(t, "who has paused the job", job.Paused.By, want)
			actions, err := collect(admin.Actions(background))
			must(t, err)
			check(t, "who is listed", actions[len(actions)-1].By, want)
		}
	})
}
