//go:build unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// After the first TERM the runs go on, the second stops them, and the third kills them: then soloist ends within killedWithin.
func TestTheThirdTERMKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &cronRun{app: &app{}, log: slog.New(slog.DiscardHandler), drain: 24 * time.Hour, hurry: make(chan struct{})}
		draining, drain := context.WithCancel(t.Context())
		stopping, stop := context.WithCancel(t.Context())
		r.drainNow, r.end = drain, stop
		hangs := &generation{drain: func() {}, ended: make(chan struct{}), err: context.Canceled}
		signals := make(chan os.Signal)
		ended := make(chan error, 1)
		go func() { ended <- r.shutDown([]*generation{hangs}, signals, slog.String("signal", "terminated")) }()
		state := func(term string, wantStopped, wantHurried bool) {
			t.Helper()
			time.Sleep(time.Hour)
			synctest.Wait()
			hurried := false
			select {
			case <-r.hurry:
				hurried = true
			default:
			}
			if stopped := stopping.Err() != nil; draining.Err() == nil || stopped != wantStopped || hurried != wantHurried {
				t.Errorf("after the %s: draining %v, stopped %v, killed %v", term, draining.Err() != nil, stopped, hurried)
			}
		}
		state("first TERM", false, false)
		signals <- syscall.SIGHUP
		state("first TERM, and HUP", false, false)
		signals <- syscall.SIGTERM
		state("second TERM", true, false)
		select {
		case err := <-ended:
			t.Errorf("ended after the second TERM: %v", err)
		default:
		}
		third := time.Now()
		signals <- syscall.SIGTERM
		var code *exit
		if err := <-ended; !errors.As(err, &code) || code.code != exitUnavailable || time.Since(third) != killedWithin {
			t.Errorf("after the third TERM: %v after %v", err, time.Since(third))
		}
		state("third TERM", true, true)
		close(hangs.ended)
	})
}

// A denying store denies what soloist cron asks when it begins.
type denying struct {
	*memstore.Store
	on atomic.Bool
}

func (s *denying) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if s.on.Load() && claims[0].Holder == "soloist cron" {
		return nil, fs.ErrPermission
	}
	return s.Store.Acquire(ctx, claims)
}

// If the jobs cannot begin again after HUP, the runs under way end as after TERM before soloist does.
func TestErrorAfterHUPDrains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crontab")
	if err := os.WriteFile(path, []byte("# name: other\n@daily true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &denying{Store: memstore.New()}
		r := &cronRun{app: &app{ttl: 30 * time.Second}, path: path, log: slog.New(slog.DiscardHandler), drain: 24 * time.Hour, store: s, slots: newSlots(1)}
		r.draining, r.drainNow = context.WithCancel(t.Context())
		r.stop, r.end = context.WithCancel(t.Context())
		began, finish := make(chan struct{}), make(chan struct{})
		finished := false
		job := soloist.Job{Name: "long", Schedule: soloist.At(time.Now().Add(time.Second)), Do: func(ctx context.Context, _ soloist.Run) error {
			close(began)
			select {
			case <-finish:
				finished = true
			case <-ctx.Done():
			}
			return nil
		}}
		signals, ended := make(chan os.Signal), make(chan error, 1)
		go func() { ended <- r.untilSignal([]soloist.Job{job}, signals, nil) }()
		<-began
		s.on.Store(true)
		signals <- syscall.SIGHUP
		time.Sleep(time.Hour)
		select {
		case err := <-ended:
			t.Fatalf("ended while a run was under way: %v", err)
		default:
		}
		close(finish)
		if err := <-ended; exitCode(err) != exitDenied || !finished {
			t.Errorf("%v; the run has finished: %v", err, finished)
		}
	})
}
