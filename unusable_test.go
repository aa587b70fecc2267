package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// An unusable store refuses every claim with an error.
type unusable struct {
	store.Store
	err error
}

func (u unusable) Acquire(context.Context, []store.Claim) ([]store.Outcome, error) { return nil, u.err }

// What trying again does not change is returned at the start, and not tried forever.
func TestUnusableStoreEndsRunAndLead(t *testing.T) {
	for _, lasting := range []error{store.ErrSchema, fs.ErrPermission} {
		synctest.Test(t, func(t *testing.T) {
			c, err := soloist.New(unusable{memstore.New(), fmt.Errorf("the server refuses: %w", lasting)}, soloist.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(background, time.Hour)
			defer cancel()
			job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: func(context.Context, soloist.Run) error { return nil }}
			if err := c.Run(ctx, job); !errors.Is(err, lasting) {
				t.Errorf("Run: %v, want %v", err, lasting)
			}
			if err := c.Lead(ctx, "leader", func(context.Context, *soloist.Lease) error { return nil }); !errors.Is(err, lasting) {
				t.Errorf("Lead: %v, want %v", err, lasting)
			}
		})
	}
}
