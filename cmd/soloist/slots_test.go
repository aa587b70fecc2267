package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
)

// The runs that are due first get the slots first, whenever they came, and no more run at once than there are slots.
func TestSlotsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		begin := time.Now()
		var mu sync.Mutex
		var order []int
		running, most := 0, 0
		var all sync.WaitGroup
		for i := range 20 {
			due := begin.Add(time.Duration(20-i) * time.Second) // who comes last is due first
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if err := s.take(t.Context(), due); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				s.give()
			})
		}
		all.Wait()
		want := []int{0, 1}
		for i := 19; i > 1; i-- {
			want = append(want, i)
		}
		if !slices.Equal(order, want) || most != 2 {
			t.Errorf("order %v, %d at once", order, most)
		}
		if n, _ := s.waiting(); n != 0 || s.free != 2 {
			t.Errorf("%d wait, %d free", n, s.free)
		}
	})
}

// After TERM no run begins, also if there is a slot. One that no other replica could make does, also if it must wait for
// one, until the commands are stopped.
func TestNoRunBeginsAfterTERM(t *testing.T) {
	for name, test := range map[string]struct {
		crash                 crontab.Crash
		taken, given, stopped bool
		want                  error
	}{
		"a slot":                              {crash: crontab.CrashTakeOver, want: soloist.ErrInterrupted},
		"no slot":                             {crash: crontab.CrashTakeOver, taken: true, want: soloist.ErrInterrupted},
		"give-up, a slot":                     {crash: crontab.CrashGiveUp},
		"give-up, a slot later":               {crash: crontab.CrashGiveUp, taken: true, given: true},
		"give-up, the commands are stopped":   {crash: crontab.CrashGiveUp, stopped: true, want: soloist.ErrInterrupted},
		"give-up, they are stopped in a line": {crash: crontab.CrashGiveUp, taken: true, stopped: true, want: soloist.ErrInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				draining, drain := context.WithCancel(t.Context())
				stopping, stop := context.WithCancel(t.Context())
				defer stop()
				e := &execution{cronRun: &cronRun{slots: newSlots(1), draining: draining, stop: stopping}}
				e.job.Crash = test.crash
				if test.taken {
					e.slots.free--
				}
				ended := make(chan error, 1)
				if test.taken {
					go func() { ended <- e.waitForSlot(t.Context(), soloist.Run{}) }()
					synctest.Wait()
				}
				drain()
				synctest.Wait()
				if test.given {
					e.slots.give()
				}
				if test.stopped {
					stop()
				}
				if !test.taken {
					ended <- e.waitForSlot(t.Context(), soloist.Run{})
				}
				err := <-ended
				if free := !test.taken && test.want != nil; !errors.Is(err, test.want) || (e.slots.free == 1) != free {
					t.Errorf("%v, and %d free; want %v", err, e.slots.free, test.want)
				}
			})
		})
	}
}

// What waits for a slot is seen in the metrics, while it waits: its start is counted as on time.
func TestMetricsTellWhatWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &cronRun{slots: newSlots(1)}
		pages := r.probes.pages(slog.New(slog.DiscardHandler), r.slots)
		tells := func(want ...string) {
			t.Helper()
			response := httptest.NewRecorder()
			pages.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", http.NoBody))
			for _, line := range want {
				if !strings.Contains(response.Body.String(), "\n"+line+"\n") {
					t.Errorf("%s is not in\n%s", line, response.Body)
				}
			}
		}
		if err := r.slots.take(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		tells("soloist_cron_waiting_runs 0", "soloist_cron_longest_wait_seconds 0")
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := r.slots.take(t.Context(), time.Now()); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Hour)
		}
		tells("soloist_cron_waiting_runs 2", "soloist_cron_longest_wait_seconds 7200")
		r.slots.give()
		synctest.Wait()
		tells("soloist_cron_waiting_runs 1", "soloist_cron_longest_wait_seconds 3600")
		r.slots.give()
		all.Wait()
		tells("soloist_cron_waiting_runs 0", "soloist_cron_longest_wait_seconds 0")
	})
}

// Who gives up leaves the line, and loses no slot also if its turn comes at that moment.
func TestSlotsThatNobodyWaitsForAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		if err := s.take(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		why := errors.New("why")
		var all sync.WaitGroup
		for i := range 50 {
			ctx, cancel := context.WithCancelCause(t.Context())
			all.Go(func() {
				switch err := s.take(ctx, time.Now()); {
				case err == nil:
					s.give()
				case !errors.Is(err, why):
					t.Error(err)
				}
			})
			all.Go(func() { time.Sleep(time.Duration(i) * time.Second); cancel(why) })
		}
		time.Sleep(25*time.Second + time.Millisecond)
		if n, longest := s.waiting(); n != 24 || longest != 25*time.Second+time.Millisecond {
			t.Error(fmt.Sprint(n, " wait for ", longest))
		}
		all.Go(s.give) // while the next gives up
		all.Wait()
		if s.free != 1 {
			t.Errorf("%d free", s.free)
		}
	})
}

// A slot that is given to a run which gives up in the same moment is free again, whichever of the two the run notices.
func TestSlotOfARunThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			s := newSlots(1)
			if err := s.take(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			taken := make(chan error, 1)
			go func() { taken <- s.take(ctx, time.Now()) }()
			synctest.Wait()
			cancel()
			s.give()
			if <-taken == nil {
				s.give()
			}
			if s.free != 1 {
				t.Fatalf("%d free", s.free)
			}
		}
	})
}
