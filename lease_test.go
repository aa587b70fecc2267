package soloist_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A function that is to stop can finish under its lease, whatever it is the function of: its own context has ended, and that of the lease has
// not. When the lease is lost both end.
func TestContextOfTheLeaseOutlivesThatOfTheFunction(t *testing.T) {
	kinds := map[string]func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error{
		"lock": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Do(ctx, "x", fn)
		},
		"leader": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Lead(ctx, "x", fn)
		},
		"permit": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Semaphore("x", 1).Do(ctx, fn)
		},
		"element": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Elements("x", soloist.ElementsOptions{}).Process(ctx, "1", func(ctx context.Context, el *soloist.Element) error { return fn(ctx, el.Lease) })
		},
		"job": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Run(ctx, soloist.Job{Name: "x", Schedule: soloist.Every(time.Second), Do: func(ctx context.Context, run soloist.Run) error { return fn(ctx, run.Lease) }})
		},
	}
	for kind, run := range kinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				client := soloisttest.NewReplica(t, s, soloist.Config{Drain: -1})
				ctx, stop := context.WithCancel(t.Context())
				ran := false
				err := run(client, ctx, func(ctx context.Context, lease *soloist.Lease) error {
					ran = true
					if soloist.LeaseFrom(ctx) != lease {
						t.Error("LeaseFrom does not find the lease")
					}
					stop()
					<-ctx.Done()
					if err := lease.Context().Err(); err != nil {
						t.Errorf("the context of the lease has ended with that of the function: %v", err)
					}
					if err := lease.Check(lease.Context()); err != nil {
						t.Errorf("renewing the lease after that: %v", err)
					}
					soloisttest.LoseLease(t, s, lease)
					if cause := context.Cause(lease.Context()); !errors.Is(cause, soloist.ErrLost) {
						t.Errorf("the context of a lost lease ended because of %v", cause)
					}
					return nil
				})
				if !ran {
					t.Errorf("the function did not run: %v", err)
				}
			})
		})
	}
}
