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

// A run whose end the store does not notice for longer than the client's TTL is recorded all the same, while its own lease lives.
func TestRunIsRecordedAfterALongOutage(t *testing.T) {
	for name, manual := range map[string]bool{"scheduled": false, "manual": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 10 * time.Minute, Do: func(ctx context.Context, run soloist.Run) error {
					s.Break(errors.New("away"))
					return r.do(ctx, run)
				}}
				start(t, a, job)
				if manual {
					if err := b.Admin().Trigger(background, "tick"); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(time.Hour)
				}
				time.Sleep(time.Minute)
				s.Heal()
				job.Do = r.do
				start(t, b, job)
				time.Sleep(30 * time.Minute)
				if len(r.began()) != 1 {
					t.Errorf("begun at %v; want once", r.began())
				}
			})
		})
	}
}

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

// Close does not wait for a record that the store does not take.
func TestCloseIsBoundedWhileARunIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		a := soloisttest.NewReplica(t, s, soloist.Config{Drain: 5 * time.Second})
		ran := make(chan struct{})
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		go func() {
			done <- a.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 12 * time.Hour, Do: func(context.Context, soloist.Run) error {
				s.Break(errors.New("away"))
				close(ran)
				return nil
			}})
		}()
		<-ran
		begin := time.Now()
		_ = a.Close()
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("Close took %v", took)
		}
		if err := <-done; !errors.Is(err, soloist.ErrUnknown) || !strings.Contains(err.Error(), `"tick"`) {
			t.Errorf("Run: %v; want that the run of tick could not be recorded", err)
		}
		s.Heal()
	})
}

// A Run whose functions ignore the end of their context names their jobs.
func TestRunNamesTheJobsThatIgnoreTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		ctx, cancel := context.WithCancel(background)
		end := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			stuck := func(context.Context, soloist.Run) error { <-end; return nil }
			done <- a.Run(ctx, soloist.Job{Name: "stuck", Schedule: soloist.Every(time.Minute), Do: stuck}, soloist.Job{Name: "fine", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { return nil }})
		}()
		time.Sleep(61 * time.Second)
		cancel()
		if err := <-done; err == nil || !strings.Contains(err.Error(), `"stuck"`) || strings.Contains(err.Error(), `"fine"`) {
			t.Errorf("Run: %v; want that stuck is named, and fine is not", err)
		}
		close(end)
	})
}

// A Run that fails to begin leaves the names of its jobs to the next.
func TestRunThatFailsLeavesTheNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := soloisttest.NewClient(t)
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }}
		unnamed := job
		unnamed.Do = nil
		var invalid *soloist.InvalidError
		if err := c.Run(background, job, unnamed); !errors.As(err, &invalid) {
			t.Fatalf("Run of a job that is not valid: %v", err)
		}
		s.Break(errors.New("away"))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		if err := c.Run(ctx, job); err != nil {
			t.Fatalf("Run until its context ended, without a store: %v", err)
		}
		s.Heal()
		start(t, c, job)()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first leaves nothing behind either
			if err := c.Run(background, job); !errors.Is(err, soloist.ErrClosed) {
				t.Errorf("Run of a closed client: %v", err)
			}
		}
	})
}

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
