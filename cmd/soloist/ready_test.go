//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// An unlisting store carries out everything but what lists a replica with its jobs.
type unlisting struct {
	*soloisttest.Store
	on atomic.Bool
}

func (s *unlisting) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if s.on.Load() && strings.HasPrefix(extensions[0].Name, "replica/") {
		return nil, errors.New("away")
	}
	return s.Store.Extend(ctx, extensions)
}

// cron is ready when its jobs are registered, and not by the first request that succeeds: until then the replica that it takes the place of has to stay. One record that
// something else has written keeps nobody from being ready, for a deployment would never end.
func TestCronIsReadyWhenItsJobsAreRegistered(t *testing.T) {
	for _, foreign := range []string{"", "job/x", "control/x", "control-of-all", "controls"} {
		synctest.Test(t, func(t *testing.T) {
			s := &unlisting{Store: soloisttest.NewStore()}
			if foreign != "" {
				writeForeign(t, s, foreign)
			}
			s.on.Store(true)
			r := &cronRun{app: &app{ttl: 30 * time.Second}, log: slog.New(slog.DiscardHandler), drain: time.Hour, store: s, slots: newSlots(1)}
			r.draining, r.drainNow = context.WithCancel(t.Context())
			r.stop, r.end = context.WithCancel(t.Context())
			nothing := func(context.Context, soloist.Run) error { return nil }
			signals, ended := make(chan os.Signal), make(chan error, 1)
			go func() {
				ended <- r.untilSignal([]soloist.Job{{Name: "x", Schedule: soloist.Every(time.Hour), Do: nothing}, {Name: "y", Schedule: soloist.Every(time.Hour), Do: nothing}}, signals, nil)
			}()
			time.Sleep(time.Minute)
			if synctest.Wait(); r.probes.running.Load() {
				t.Errorf("%s: ready before the replica is listed with its jobs", foreign)
			}
			s.on.Store(false)
			time.Sleep(time.Minute)
			if synctest.Wait(); !r.probes.running.Load() {
				t.Errorf("%s: not ready", foreign)
			}
			signals <- syscall.SIGTERM
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", foreign, err)
			}
		})
	}
}

// writeForeign writes a record as something else does.
func writeForeign(t *testing.T, s store.Store, name string) {
	t.Helper()
	const holder = "something else"
	granted, err := s.Acquire(t.Context(), []store.Claim{{Name: name, Holder: holder, TTL: time.Second}})
	if err != nil || granted[0].Err != nil {
		t.Fatal(err, granted)
	}
	released, err := s.Release(t.Context(), []store.Release{{Name: name, Holder: holder, Token: granted[0].Grant.Token, State: []byte("not of soloist"), Retain: store.Forever}})
	if err != nil || released[0] != nil {
		t.Fatal(err, released)
	}
}
