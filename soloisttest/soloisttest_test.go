package soloisttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

var background = context.Background()

func TestStoreBreaksAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := soloisttest.NewClient(t)
		refused := errors.New("refused")
		s.Break(refused)
		if _, err := c.TryLock(background, "x"); !errors.Is(err, refused) {
			t.Errorf("broken: %v", err)
		}
		s.Heal()
		l, err := c.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		s.Stall()
		<-l.Context().Done()
		if !errors.Is(l.Err(), soloist.ErrLost) {
			t.Errorf("stalled for longer than the TTL: %v", l.Err())
		}
		s.Heal()
		s.Slow(time.Second)
		start := time.Now()
		if _, err := c.TryLock(background, "y"); err != nil || time.Since(start) < time.Second {
			t.Errorf("slow: %v after %v", err, time.Since(start))
		}
		s.Heal()
		before := s.Calls()
		s.LoseReplies(1)
		if _, err := c.TryLock(background, "z"); err != nil || s.Calls()-before != 2 {
			t.Errorf("with a lost reply: %v, %d calls", err, s.Calls()-before)
		}
	})
}

func TestReplicasShareAStore(t *testing.T) {
	c, s := soloisttest.NewClient(t)
	other := soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "other"})
	l, err := c.TryLock(background, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.TryLock(background, "x"); !errors.Is(err, soloist.ErrHeld) {
		t.Errorf("got: %v", err)
	}
	soloisttest.LoseLease(t, s, l)
	if !errors.Is(l.Err(), soloist.ErrLost) {
		t.Errorf("after LoseLease: %v", l.Err())
	}
}
