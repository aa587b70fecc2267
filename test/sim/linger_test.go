package sim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A replica that sees a linger for the first time, on a store without a clock, is refused for the whole of it. The time that it has claimed within Grace is begun then, if the
// job was free by the clocks of the replicas before Grace was over; else it is left out, as on a store with a clock.
func TestLingerThatIsSeenLate(t *testing.T) {
	const period, atLeast, grace = time.Hour, 30 * time.Minute, time.Minute
	for _, row := range []struct {
		rule   string
		manual time.Duration // when the first replica runs the job once more, before the second time is due
		want   []string
	}{
		{"the linger was over before", 0, []string{"first 1h0m0s", "second 2h0m0s at 2h29m0s", "second 3h0m0s"}},
		{"the linger ends within Grace", atLeast - grace/2, []string{"first 1h0m0s", "first again", "second 2h0m0s at 2h29m0s", "second 3h0m0s"}},
		{"the linger ends after Grace", atLeast - 2*grace, []string{"first 1h0m0s", "first again", "second 3h0m0s"}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now() // an hour that is full
				shared := &items{kept: map[string]casstore.Record{}}
				var runs []string
				replica := func(name string) (*soloist.Client, func()) {
					ctx, cancel := context.WithCancel(context.Background())
					client, err := soloist.New(shared.open(0), soloist.Config{Replica: name})
					if err != nil {
						t.Fatal(err)
					}
					ended := make(chan error)
					go func() {
						ended <- client.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.Every(period), AtLeast: atLeast, Grace: grace,
							Do: func(_ context.Context, run soloist.Run) error {
								text := fmt.Sprint(name, " ", run.ScheduledAt.Sub(begin))
								if late := time.Since(run.ScheduledAt); late > grace {
									text += fmt.Sprint(" at ", time.Since(begin).Truncate(time.Minute))
								}
								if run.Manual {
									text = name + " again"
								}
								runs = append(runs, text)
								return nil
							}})
					}()
					return client, func() {
						cancel()
						if err := <-ended; err != nil {
							t.Error(err)
						}
						if err := client.Close(); err != nil {
							t.Error(err)
						}
					}
				}
				first, stop := replica("first")
				time.Sleep(period + time.Second)
				if row.manual > 0 {
					time.Sleep(2*period - row.manual - time.Since(begin))
					if err := first.Admin().Trigger(context.Background(), "tick"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2*period - time.Minute - time.Since(begin))
				stop()
				_, stop = replica("second")
				time.Sleep(3*period + time.Minute - time.Since(begin))
				stop()
				if !slices.Equal(runs, row.want) {
					t.Errorf("ran %q, want %q", runs, row.want)
				}
			})
		})
	}
}
