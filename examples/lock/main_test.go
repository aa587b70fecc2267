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

// What is said of the month is true also if the lock is lost while it is being closed, or cannot be released after it.
func TestWhatIsSaidOfTheMonth(t *testing.T) {
	for _, row := range []struct {
		during time.Duration // when the store goes away
		want   error
		says   string
	}{
		{30 * time.Minute, soloist.ErrLost, "the month is not closed"},
		{time.Hour - time.Second, soloist.ErrUnknown, "the month is closed, but the lock may stay taken"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			client := soloisttest.NewReplica(t, s, soloist.Config{})
			time.AfterFunc(row.during, func() { s.Break(errors.New("the store is away")) })
			if err := closeMonth(t.Context(), client, time.Hour); !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v; want %v, and %q", err, row.want, row.says)
			}
		})
	}
}
