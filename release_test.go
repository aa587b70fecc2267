package soloist_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// Of several leases that end in one batch each is reported while it lives, whatever the first of them records.
func TestEachReleaseOfABatchHasItsOwnBound(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		c := a.With(soloist.Options{TTL: 10 * time.Minute})
		claimed, err := c.Elements("x", soloist.ElementsOptions{}).ClaimAll(background, []string{"1", "2"})
		if err != nil {
			t.Fatal(err)
		}
		s.Break(errors.New("away"))
		time.AfterFunc(2*time.Minute, s.Heal)
		if errs := c.Elements("x", soloist.ElementsOptions{}).DoneAll([]*soloist.Element{claimed[0].Element, claimed[1].Element}); errors.Join(errs...) != nil {
			t.Errorf("recording: %v", errs)
		}
	})
}

// A lease that ends soon does not bound what is recorded in one batch with it.
func TestShortLeaseDoesNotBoundItsBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var both []*soloist.Element
		for _, ttl := range []time.Duration{30 * time.Second, 10 * time.Minute} {
			el, err := a.With(soloist.Options{TTL: ttl}).Elements("x", soloist.ElementsOptions{}).Claim(background, ttl.String())
			if err != nil {
				t.Fatal(err)
			}
			both = append(both, el)
		}
		s.Break(errors.New("away"))
		time.AfterFunc(2*time.Minute, s.Heal)
		if errs := a.Elements("x", soloist.ElementsOptions{}).DoneAll(both); errs[0] == nil || errs[1] != nil {
			t.Errorf("recording: %v; want that the first is lost, and the second is recorded", errs)
		}
	})
}

// Of a batch of releases those are asked again that were not answered, and each answer goes to its own. One that is lost only then may have been released before.
func TestRepeatedBatchOfReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := doubtful{Store: memstore.New()}
		var asked []string
		s.released = func(releases []store.Release, errs []error) ([]error, error) {
			asked = append(asked, "|")
			for i, r := range releases {
				asked = append(asked, r.Name[len("element/invoices/"):])
				switch {
				case len(releases) == 5 && i%2 == 0:
					errs[i] = errNoReply
				case r.Name == "element/invoices/2":
					errs[i] = store.ErrLost
				}
			}
			return errs, nil
		}
		invoices := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("invoices", soloist.ElementsOptions{})
		claimed, err := invoices.ClaimAll(background, []string{"0", "1", "2", "3", "4"})
		if err != nil {
			t.Fatal(err)
		}
		var elements []*soloist.Element
		for _, c := range claimed {
			elements = append(elements, c.Element)
		}
		for i, err := range invoices.DoneAll(elements) {
			var want error
			if i == 2 {
				want = soloist.ErrUnknown
			}
			wantIs(t, fmt.Sprint("element ", i), err, want)
		}
		if got := fmt.Sprint(asked); got != "[| 0 1 2 3 4 | 0 2 4]" {
			t.Errorf("asked for %s", got)
		}
	})
}

// A release that had no reply may have been carried out, whatever became of those that repeat it: that the lease is gone in the end tells nothing.
func TestReleaseWithoutAReplyStaysUnknown(t *testing.T) {
	refused := errors.New("connection refused") // it was not sent
	for what, one := range map[string]struct {
		answers []error
		want    error
	}{
		"no reply, lost":          {[]error{errNoReply, store.ErrLost}, soloist.ErrUnknown},
		"no reply, refused, lost": {[]error{errNoReply, refused, store.ErrLost}, soloist.ErrUnknown},
		"refused, lost":           {[]error{refused, store.ErrLost}, soloist.ErrLost},
		"refused, released":       {[]error{refused, nil}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, asked := doubtful{Store: memstore.New()}, 0
				s.released = func(_ []store.Release, errs []error) ([]error, error) {
					if asked < len(one.answers) {
						errs[0] = one.answers[asked]
					}
					asked++
					return errs, nil
				}
				err := mustLock(t, soloisttest.NewReplica(t, s, soloist.Config{}), "x").Release()
				wantIs(t, "releasing", err, one.want)
				if errors.Is(one.want, soloist.ErrUnknown) && errors.Is(err, soloist.ErrLost) {
					t.Errorf("releasing: %v; nobody knows that it was lost", err)
				}
				check(t, "requests", asked, len(one.answers))
			})
		})
	}
}

// What a release records is tried for as long as the lease may last, which an extension can have made longer than its TTL,
// also one that had no reply.
func TestAnExtensionBoundsTheRelease(t *testing.T) {
	for what, replies := range map[string]bool{"a reply": true, "no reply": false} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
				el, err := a.Elements("x", soloist.ElementsOptions{}).Claim(background, "1")
				must(t, err)
				if replies {
					must(t, el.Extend(background, time.Hour))
				} else {
					s.LoseReplies(1)
					wantIs(t, "extending", el.Extend(background, time.Hour), soloist.ErrUnknown)
				}
				must(t, el.Check(background))
				s.Break(errors.New("away"))
				time.AfterFunc(10*time.Minute, s.Heal)
				must(t, el.Done())
			})
		})
	}
}

// A release that records nothing is not tried for longer than two request timeouts, however long its lease lasts: that ends by itself.
func TestReleaseThatRecordsNothingIsShort(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		l, err := a.With(soloist.Options{TTL: time.Hour}).TryLock(background, "x")
		must(t, err)
		s.Break(errors.New("away"))
		begin := time.Now()
		wantIs(t, "releasing", l.Release(), soloist.ErrUnknown)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %v; want at most two request timeouts, of 5s", took)
		}
	})
}

// An extension that was refused, as one that is longer than any lease, makes no release wait longer for a store that is away.
func TestRefusedExtensionBoundsNoRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		el, err := a.Elements("x", soloist.ElementsOptions{}).Claim(background, "1")
		must(t, err)
		wantIs(t, "extending it forever", el.Extend(background, soloist.Forever), store.ErrInvalid)
		s.Break(errors.New("away"))
		time.AfterFunc(time.Hour, s.Heal)
		begin := time.Now()
		wantIs(t, "recording", el.Done(), soloist.ErrUnknown)
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("it took %v; want that it ends with the lease", took)
		}
	})
}

// A name lingers for as long as AtLeast says from the grant on, which may be as late as its reply.
func TestALingerCountsFromTheGrant(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.Slow(3 * time.Second)
		l := mustLock(t, a.With(soloist.Options{AtLeast: 10 * time.Second}), "x")
		s.Slow(0)
		must(t, l.Release())
		time.Sleep(10*time.Second - time.Millisecond)
		_, err := b.TryLock(background, "x")
		wantIs(t, "10 s after the grant", err, soloist.ErrHeld)
		time.Sleep(time.Millisecond)
		mustLock(t, b, "x")
	})
}

// An element that has failed rests for its pause, also if AtLeast would keep it for less.
func TestAPauseIsNotCutShortByAtLeast(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		resting := soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3, Backoff: time.Minute}}
		el, err := a.With(soloist.Options{AtLeast: 10 * time.Second}).Elements("x", resting).Claim(background, "1")
		must(t, err)
		must(t, el.Fail(errors.New("no paper")))
		time.Sleep(time.Minute - time.Second)
		_, err = b.Elements("x", resting).Claim(background, "1")
		wantIs(t, "within its pause", err, soloist.ErrHeld)
		time.Sleep(time.Second)
		_, err = b.Elements("x", resting).Claim(background, "1")
		wantIs(t, "after its pause", err, nil)
	})
}

// What is recorded is tried for two request timeouts at least, also under a lease that is shorter: then it is known that it was not.
func TestShortLeaseIsKnownToBeLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		el, err := a.With(soloist.Options{TTL: 3 * time.Second}).Elements("x", soloist.ElementsOptions{}).Claim(background, "1")
		must(t, err)
		s.Break(errors.New("away"))
		time.AfterFunc(6*time.Second, s.Heal)
		if err := el.Done(); !errors.Is(err, soloist.ErrLost) || errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("recording: %v, want that the lease was lost", err)
		}
	})
}

// Of many that end together, in several requests, one that remains unanswered keeps no other from being recorded: nothing renews their leases any more.
func TestReleaseWithoutAnAnswerDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := doubtful{Store: memstore.New()}
		s.released = func(releases []store.Release, errs []error) ([]error, error) {
			if releases[0].Name == "element/many/0" {
				errs[0] = errNoReply
			}
			return errs, nil
		}
		many := soloisttest.NewReplica(t, s, soloist.Config{}).Elements("many", soloist.ElementsOptions{})
		for i, err := range many.DoneAll(claimMany(t, many, 1100)) { // of which 1024 go into the first request
			if i == 0 {
				wantIs(t, "the one that is not answered", err, soloist.ErrUnknown)
			} else if err != nil {
				t.Fatalf("element %d: %v", i, err)
			}
		}
	})
}

// Of many that end together, in several requests, each is tried for as long as its own lease may last, also in a request after the first.
func TestEachOfManyReleasesHasItsOwnBound(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		many := a.Elements("many", soloist.ElementsOptions{})
		elements := claimMany(t, many, 1025) // of which 1024 go into the first request
		must(t, elements[1024].Extend(background, time.Hour))
		s.Break(errors.New("away"))
		time.AfterFunc(10*time.Minute, s.Heal)
		errs := many.DoneAll(elements)
		if errs[0] == nil || errs[1024] != nil {
			t.Errorf("recording: %v and %v; want that the first is lost, and the last is recorded", errs[0], errs[1024])
		}
	})
}

func claimMany(t *testing.T, e *soloist.Elements, n int) []*soloist.Element {
	t.Helper()
	ids, elements := make([]string, n), make([]*soloist.Element, n)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	claimed, err := e.ClaimAll(background, ids)
	must(t, err)
	for i, c := range claimed {
		must(t, c.Err)
		elements[i] = c.Element
	}
	return elements
}

// A release that took effect without a reply, and that could not be repeated because another has got the name since, has an unknown outcome: its lease had not ended
// before, so nobody is told that it was lost.
func TestReleaseThatIsRepeatedTooLateIsUnknown(t *testing.T) {
	for what, one := range map[string]struct {
		record string
		take   func(*testing.T, *soloist.Client) (release func() error)
	}{
		"a lock": {"lock/x", func(t *testing.T, c *soloist.Client) func() error { return mustLock(t, c, "x").Release }},
		"a permit": {"semaphore/x/0", func(t *testing.T, c *soloist.Client) func() error {
			l, err := c.Semaphore("x", 1).TryAcquire(background)
			must(t, err)
			return l.Release
		}},
		"an element": {"element/e/1", func(t *testing.T, c *soloist.Client) func() error {
			el, err := c.Elements("e", soloist.ElementsOptions{}).Claim(background, "1")
			must(t, err)
			return func() error { return el.Fail(errors.New("failed")) }
		}},
		"a detached lease": {"lock/x", func(t *testing.T, c *soloist.Client) func() error {
			d, _, err := c.Detached().Acquire(background, soloist.Detached{Kind: soloist.KindLock, Name: "x", Holder: "h"}, false)
			must(t, err)
			return func() error { return c.Detached().Release(background, d) }
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := soloisttest.NewStore()
				s := &unheard{Store: mem, record: one.record, before: func() {}}
				var w witness
				a := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})
				b := soloisttest.NewReplica(t, mem.Share(), soloist.Config{})
				release := one.take(t, a)
				s.after = func() { one.take(t, b) }
				if err := release(); !errors.Is(err, soloist.ErrUnknown) || errors.Is(err, soloist.ErrLost) {
					t.Errorf("releasing: %v, want that it is unknown", err)
				}
				if lost := w.that(func(e soloist.Event) bool { return e.Kind == soloist.EventLost || e.Lost }); len(lost) > 0 {
					t.Errorf("events of a loss: %v; want none, for it is unknown", lost)
				}
			})
		})
	}
}
