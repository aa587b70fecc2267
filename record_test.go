package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A job whose errors are full of characters of which JSON makes several bytes runs as often as it is due, and keeps a bounded history.
func TestHistoryFitsItsRecord(t *testing.T) {
	for name, text := range map[string]string{"NUL": "\x00", "angle": "<>&", "quotes": `"\`, "not UTF-8": "\xff\xfe", "separators": "\u2028\u2029"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: func(ctx context.Context, run soloist.Run) error {
					_ = r.do(ctx, run)
					return errors.New(strings.Repeat(text, 2000))
				}}
				start(t, a, job)
				start(t, b, job)
				time.Sleep(30*time.Minute + time.Second)
				if n := len(r.began()); n != 30 {
					t.Errorf("%d runs in 30 minutes", n)
				}
				info, err := a.Admin().Job(background, "tick")
				if err != nil || len(info.Runs) == 0 || len(info.Runs) > 20 {
					t.Errorf("the history has %d runs, %v; want at most 20", len(info.Runs), err)
				}
				for rec, err := range s.List(background, "job/") {
					if err != nil || len(rec.State) > store.MaxState {
						t.Errorf("a state of %d bytes, %v", len(rec.State), err)
					}
				}
			})
		})
	}
}

// The history keeps the newest 20 runs.
func TestHistoryKeepsTheNewest(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		begin := time.Now()
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { return nil }})
		time.Sleep(25*time.Minute + time.Second)
		info, err := a.Admin().Job(background, "tick")
		if err != nil {
			t.Fatal(err)
		}
		var minutes []string
		for _, run := range info.Runs {
			minutes = append(minutes, fmt.Sprint(run.ScheduledAt.Sub(begin).Minutes()))
		}
		check(t, "minutes", strings.Join(minutes, " "), "6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25")
	})
}
