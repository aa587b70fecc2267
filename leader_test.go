package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

func TestLeadershipMovesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		ctx, cancel := context.WithCancel(background)
		led := make(chan string, 10)
		lead := func(name string) func(context.Context, *soloist.Lease) error {
			return func(ctx context.Context, _ *soloist.Lease) error {
				led <- name
				<-ctx.Done()
				return ctx.Err()
			}
		}
		ended := make(chan error, 2)
		go func() { ended <- a.Lead(ctx, "importer", lead("a")) }()
		if who := <-led; who != "a" {
			t.Fatal(who)
		}
		go func() { ended <- b.Lead(ctx, "importer", lead("b")) }()
		time.Sleep(10 * time.Minute)
		s.Stall() // a is cut off
		if who := <-led; who != "b" {
			t.Fatal(who)
		}
		s.Heal()
		time.Sleep(10 * time.Minute)
		if len(led) > 0 {
			t.Error("a leads again although b does")
		}
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("Lead: %v", err)
			}
		}
	})
}

func TestLeadReturnsWithItsFunction(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		own := errors.New("own")
		if err := a.Lead(background, "x", func(context.Context, *soloist.Lease) error { return own }); !errors.Is(err, own) {
			t.Error(err)
		}
		if err := b.Lead(background, "x", ok); err != nil {
			t.Error(err)
		}
	})
}

// A caller that has lost its leadership stands again, as long as it is asked to lead.
func TestLeadStandsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		terms := 0
		err := a.Lead(background, "boss", func(ctx context.Context, lease *soloist.Lease) error {
			if terms++; terms == 3 {
				return nil
			}
			soloisttest.LoseLease(t, s, lease)
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil || terms != 3 {
			t.Errorf("%d terms, then: %v", terms, err)
		}
	})
}

// Every replica finds the leader by one request, and finds nobody when nobody leads.
func TestLeaderIsFound(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		who := func(c *soloist.Client) string {
			t.Helper()
			leader, err := c.Leader(background, "importer")
			must(t, err)
			return leader.Replica()
		}
		check(t, "before the first term", who(a), "")
		lease, err := a.Campaign(background, "importer")
		must(t, err)
		calls := s.Calls()
		check(t, "the leader finds", who(a), "a")
		check(t, "requests", s.Calls()-calls, 1)
		check(t, "the other one finds", who(b), "a")
		leader, err := b.Leader(background, "importer")
		check(t, "the leadership", fmt.Sprintln(leader.Kind, leader.Name, leader.Token == lease.Token(), leader.Left > 0, err), "leader importer true true <nil>\n")
		must(t, lease.Release())
		check(t, "after the term", who(b), "")
		_, err = s.Acquire(background, []store.Claim{{Name: "leader/importer", Holder: "dead#1", TTL: time.Second}})
		must(t, err)
		check(t, "the next leader", who(b), "dead")
		time.Sleep(time.Second)
		check(t, "when its lease has ended", who(b), "")
		s.Break(errors.New("away"))
		if _, err := a.Leader(background, "importer"); err == nil {
			t.Error("a store that is away has a leader")
		}
	})
}

// A campaign goes on whatever fails after its first request: somebody may be changing rights or tables.
func TestCampaignOutlastsFailures(t *testing.T) {
	for _, failure := range []error{fs.ErrPermission, store.ErrUnusable} {
		inBubble(t, func(t *testing.T, _ *soloisttest.Store, _, _ *soloist.Client) {
			s := soloisttest.NewStore()
			c := soloisttest.NewReplica(t, s, soloist.Config{})
			s.Break(errors.New("away"))
			won := make(chan error, 1)
			go func() {
				_, err := c.Campaign(background, "boss")
				won <- err
			}()
			time.Sleep(10 * time.Second)
			s.Break(failure)
			time.Sleep(time.Minute)
			s.Heal()
			if err := <-won; err != nil {
				t.Errorf("it gave up: %v", err)
			}
		})
	}
}

// The first request of a campaign that is refused, because somebody else leads, is long over when the store denies the next one. A leader that loses its lease to such a
// failure stands again.
func TestCampaignOutlastsFailuresOfLaterRequests(t *testing.T) {
	for _, failure := range []error{fs.ErrPermission, store.ErrUnusable} {
		for _, store := range []func(*soloisttest.Store) store.Store{
			func(s *soloisttest.Store) store.Store { return s },
			func(s *soloisttest.Store) store.Store { return deaf{s} }, // it has no queue
		} {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				leader, away := soloisttest.NewReplica(t, s, soloist.Config{}), s.Share()
				standby := soloisttest.NewReplica(t, store(away), soloist.Config{})
				lease, err := leader.Campaign(background, "boss")
				must(t, err)
				var terms atomic.Int32
				ctx, cancel := context.WithCancel(background)
				ended := make(chan error, 1)
				go func() {
					ended <- standby.Lead(ctx, "boss", func(ctx context.Context, _ *soloist.Lease) error {
						terms.Add(1)
						<-ctx.Done()
						return ctx.Err()
					})
				}()
				time.Sleep(time.Hour)
				for term := range int32(2) { // while it waits, then while it leads
					away.Break(failure)
					time.Sleep(5 * time.Minute)
					check(t, "terms, amid the failure", terms.Load(), term)
					if term == 0 {
						must(t, lease.Release())
					}
					away.Heal()
					time.Sleep(time.Minute)
					check(t, "terms", terms.Load(), term+1)
				}
				cancel()
				must(t, <-ended)
			})
		}
	}
}

// A campaign ends when its store has been closed, although it has waited for a while.
func TestCampaignEndsWithItsStore(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, _, _ *soloist.Client) {
		s := soloisttest.NewStore()
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		s.Break(errors.New("away"))
		time.AfterFunc(10*time.Second, func() { s.Break(store.ErrClosed) })
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		if _, err := c.Campaign(ctx, "boss"); !errors.Is(err, store.ErrClosed) || ctx.Err() != nil {
			t.Errorf("got: %v", err)
		}
	})
}

// A campaign ends when its client is closed, although it has asked for the leadership before, and nothing else ends it.
func TestCampaignEndsWithItsClient(t *testing.T) {
	for what, other := range map[string]func(*testing.T, *soloisttest.Store, *soloist.Client){
		"that is held": func(t *testing.T, _ *soloisttest.Store, b *soloist.Client) {
			_, err := b.Campaign(background, "boss")
			must(t, err)
		},
		"that is unknown": func(_ *testing.T, s *soloisttest.Store, _ *soloist.Client) { s.Break(errors.New("away")) },
	} {
		t.Run("a leadership "+what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, _, b *soloist.Client) {
				other(t, s, b)
				c := soloisttest.NewReplica(t, s, soloist.Config{})
				ctx, cancel := context.WithTimeout(background, time.Minute)
				defer cancel()
				time.AfterFunc(10*time.Second, func() { must(t, c.Close()) })
				if _, err := c.Campaign(ctx, "boss"); !errors.Is(err, soloist.ErrClosed) || ctx.Err() != nil {
					t.Errorf("got: %v", err)
				}
				s.Heal()
			})
		})
	}
}

// A leader that stops because of its context has not failed, whether it returns the error of the context or its cause.
func TestLeadThatStopsWithItsContextHasNotFailed(t *testing.T) {
	for _, why := range []func(context.Context) error{context.Context.Err, context.Cause} {
		inBubble(t, func(t *testing.T, s *soloisttest.Store, _, b *soloist.Client) {
			c := soloisttest.NewReplica(t, s, soloist.Config{})
			time.AfterFunc(time.Second, func() { must(t, c.Close()) })
			wantIs(t, "leading until the client is closed", c.Lead(background, "boss", func(ctx context.Context, _ *soloist.Lease) error {
				<-ctx.Done()
				return why(ctx)
			}), nil)
			ctx, cancel := context.WithCancelCause(background)
			time.AfterFunc(time.Second, func() { cancel(errors.New("the caller has had enough")) })
			wantIs(t, "leading until the caller has had enough", b.Lead(ctx, "boss", func(ctx context.Context, _ *soloist.Lease) error {
				<-ctx.Done()
				return why(ctx)
			}), nil)
		})
	}
}

// Who campaigns keeps its place in line, however short callers of its client wait for locks.
func TestCampaignKeepsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		first, err := a.Campaign(background, "boss")
		must(t, err)
		won := make(chan string, 2)
		stand := func(c *soloist.Client) {
			lease, err := c.Campaign(background, "boss")
			if err != nil {
				t.Error(err)
			}
			won <- c.Replica()
			_ = lease.Release()
		}
		go stand(b.With(soloist.Options{Wait: time.Second}))
		time.Sleep(500 * time.Millisecond)
		go stand(soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "c"}))
		time.Sleep(20 * time.Second)
		must(t, first.Release())
		check(t, "the next leaders", <-won+<-won, "bc")
	})
}

// The error of a function is not dropped because the leadership was lost before the caller had enough.
func TestLeadReturnsAnErrorAfterItsLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		ctx, cancel := context.WithCancel(background)
		own := errors.New("own")
		err := a.Lead(ctx, "boss", func(ctx context.Context, lease *soloist.Lease) error {
			soloisttest.LoseLease(t, s, lease)
			<-ctx.Done()
			cancel()
			return own
		})
		if !errors.Is(err, own) {
			t.Errorf("got %v, want the error of the function", err)
		}
	})
}
