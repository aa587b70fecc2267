//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// After the first TERM the runs go on, the second stops them, and the third kills them: then soloist ends within killedWithin.
func TestTheThirdTERMKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &cronRun{app: &app{}, log: slog.New(slog.DiscardHandler), drain: 24 * time.Hour, hurry: make(chan struct{})}
		draining, drain := context.WithCancel(t.Context())
		stopping, stop := context.WithCancel(t.Context())
		r.drainNow, r.end = drain, stop
		hangs := &generation{cancel: func() {}, ended: make(chan struct{}), err: context.Canceled}
		signals := make(chan os.Signal)
		ended := make(chan error, 1)
		go func() { ended <- r.shutDown([]*generation{hangs}, signals, syscall.SIGTERM) }()
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
