package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A month whose lock is lost while it is being closed is not told as closed.
func TestLockThatIsLostDuringTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		client := soloisttest.NewReplica(t, s, soloist.Config{})
		time.AfterFunc(time.Minute, s.Stall)
		err := closeMonth(t.Context(), client, time.Hour)
		if !errors.Is(err, soloist.ErrLost) || !strings.Contains(err.Error(), "the month is not closed") {
			t.Errorf("%v; want that the month is not closed, for the lock was lost", err)
		}
	})
}
