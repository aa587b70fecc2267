package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// An absent store refuses what it is asked while it is away, at once, and counts what it is asked.
type absent struct {
	store.Store
	away           atomic.Bool
	refused, asked atomic.Int64
}

func (a *absent) Unwrap() store.Store { return nil }

func (a *absent) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	a.asked.Add(int64(len(claims)))
	if a.away.Load() {
		a.refused.Add(int64(len(claims)))
		return nil, errors.New("connection refused")
	}
	time.Sleep(5 * time.Millisecond)
	return a.Store.Acquire(ctx, claims)
}

// A store that is away for half of the time, and refuses at once then, makes fewer failures than there are successes: what is judged is the time that it was away
// for, and not how fast it refuses.
func TestWorkPausesWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &absent{Store: memstore.New()}
		client, err := soloist.New(s, soloist.Config{TTL: time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		rec := &recorder{buf: bufio.NewWriter(io.Discard), to: json.NewEncoder(io.Discard)}
		w := &workload{client: client, rec: rec, service: &resource{"http://127.0.0.1:1", &http.Client{}}, ttl: time.Second, epoch: time.Now(), batch: firstBatch}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for span := 10 * time.Second; span < time.Minute; span += 20 * time.Second {
			time.AfterFunc(span, func() { s.away.Store(true) })
			time.AfterFunc(span+10*time.Second, func() { s.away.Store(false) })
		}
		if err := w.run(ctx); err != nil {
			t.Error(err)
		}
		if refused, asked := s.refused.Load(), s.asked.Load(); refused == 0 || refused > asked/10 {
			t.Errorf("%d of %d were refused", refused, asked)
		}
	})
}
