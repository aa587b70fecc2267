package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
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
		s.Break(errors.New("away"))
		if _, err := a.Leader(background, "importer"); err == nil {
			t.Error("a store that is away has a leader")
		}
	})
}
