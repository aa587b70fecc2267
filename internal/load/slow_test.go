package load_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A slowStore takes so long for each request, one after the other, as a machine does that has little of a processor or a slow disk.
type slowStore struct {
	store.Store
	turn                     chan struct{} // has room for the one request that is carried out
	acquire, extend, release time.Duration
}

func slow(s store.Store, acquire, extend, release time.Duration) *slowStore {
	return &slowStore{s, make(chan struct{}, 1), acquire, extend, release}
}

func (s *slowStore) take(ctx context.Context, d time.Duration) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := s.take(ctx, s.acquire); err != nil {
		return nil, err
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *slowStore) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if err := s.take(ctx, s.extend); err != nil {
		return nil, err
	}
	return s.Store.Extend(ctx, extensions)
}

func (s *slowStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if err := s.take(ctx, s.release); err != nil {
		return nil, err
	}
	return s.Store.Release(ctx, releases)
}

// On a slow store each case measures what can be done, and says what was not done in time.
func TestASlowStoreIsMeasured(t *testing.T) {
	for _, c := range load.Cases {
		t.Run(c.Letter, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				cfg := config(s)
				cfg.Size.Elements = 16_000
				cfg.Open = func(context.Context) (store.Store, error) {
					return slow(s.Share(), 6*time.Second, 2*time.Second, 6*time.Second), nil
				}
				results, err := c.Do(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // what came too late is given back
				late := 0.0
				for _, r := range results {
					for _, m := range r.More {
						if m.Name == "NOT ANSWERED IN TIME" {
							late += m.Value
						}
					}
					if r.Operations < 1 && c.Letter != "C" { // where nothing is handed over in the time
						t.Errorf("%+v", r)
					}
				}
				switch c.Letter {
				case "M": // 16 workers with a batch each: the last would have its grant when it is too late
					if late == 0 {
						t.Errorf("nothing was late: %+v", results)
					}
				case "H":
					if runs := more(t, results[0], "runs a tick"); runs != float64(small.Jobs) {
						t.Errorf("%v runs a tick; want one of each of %d jobs", runs, small.Jobs)
					}
				}
			})
		})
	}
}

// Operations that the client gives up are counted apart. Where there are no others the error is theirs.
func TestOperationsThatAreLate(t *testing.T) {
	n := 0
	s, err := load.Loop{Workers: 1, For: time.Hour}.Run(t.Context(), func(context.Context, int) error {
		switch n++; n {
		case 1, 3:
			return nil
		case 2, 4:
			return fmt.Errorf("asking: %w", context.DeadlineExceeded)
		}
		return load.ErrEnough
	})
	if err != nil || s.Operations != 2 || s.Late != 2 {
		t.Errorf("%+v, %v; want two operations, and two that were late", s, err)
	}
	_, err = load.Loop{Workers: 2}.Run(t.Context(), func(context.Context, int) error { return context.DeadlineExceeded })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("where everything is late the error is %v", err)
	}
	_, err = load.Loop{Workers: 2, For: time.Hour}.Run(t.Context(), func(context.Context, int) error { return errors.New("broken") })
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("another error is %v", err)
	}
}
