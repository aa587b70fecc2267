package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// Middleware is around all work, in its order, while the lease is held; what it returns counts.
func TestMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var saw []string
		refuse := errors.New("refused by the middleware")
		outer := func(next soloist.Handler) soloist.Handler {
			return func(ctx context.Context, work soloist.Work) error {
				s := work.Subject
				saw = append(saw, fmt.Sprintf("%s %s %s %d %v", s.Kind, s.Parent, s.Name, work.Attempt, !work.ScheduledAt.IsZero()))
				if err := work.Lease.Err(); err != nil {
					t.Errorf("%v: its lease: %v", s, err)
				}
				return next(context.WithValue(ctx, key{}, s.Name), work)
			}
		}
		inner := func(next soloist.Handler) soloist.Handler {
			return func(ctx context.Context, work soloist.Work) error {
				if ctx.Value(key{}) != work.Subject.Name || soloist.LeaseFrom(ctx) != work.Lease {
					t.Errorf("%v is not inside the first", work.Subject)
				}
				if work.Subject.Name == "no" {
					return refuse
				}
				return next(ctx, work)
			}
		}
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{Middleware: []soloist.Middleware{outer, inner}})
		elements := c.Elements("invoices", soloist.ElementsOptions{})
		ctx, cancel := context.WithCancel(background)
		for what, err := range map[string]error{
			"Do":           c.Do(background, "x", ok),
			"Lead":         c.Lead(background, "x", ok),
			"Semaphore.Do": c.Semaphore("x", 1).Do(background, ok),
			"Process":      elements.Process(background, "1", ok),
			"Run": c.Run(ctx, soloist.Job{Name: "x", Schedule: soloist.At(time.Now()), Do: func(ctx context.Context, _ soloist.Run) error {
				cancel()
				return nil
			}}),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := elements.Process(background, "no", ok); !errors.Is(err, refuse) {
			t.Errorf("refused: %v", err)
		}
		if el, err := elements.Claim(background, "no"); err != nil || el.Attempt() != 2 {
			t.Errorf("an element that the middleware has refused: %v", err)
		}
		want := []string{"element invoices 1 1 false", "element invoices no 1 false", "job  x 1 true", "leader  x 0 false", "lock  x 0 false", "permit x 0 0 false"}
		if slices.Sort(saw); !slices.Equal(saw, want) {
			t.Errorf("%q, want %q", saw, want)
		}
	})
}
