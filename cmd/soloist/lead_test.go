package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A store that has ended a term by what it answers gives the same answer to the first request for the next one. lead
// goes on asking then, until it leads again.
func TestLeadOutlastsWhatHasEndedItsTerm(t *testing.T) {
	for _, failure := range []error{fs.ErrPermission, store.ErrUnusable} {
		s := soloisttest.NewStore()
		elected, refused := make(chan struct{}, 100), make(chan struct{}, 100)
		observe := func(_ context.Context, e soloist.Event) {
			switch {
			case e.Kind == soloist.EventGranted:
				elected <- struct{}{}
			case e.Kind == soloist.EventRefused && errors.Is(e.Err, failure):
				select {
				case refused <- struct{}{}:
				default:
				}
			}
		}
		c := soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: 200 * time.Millisecond, Observe: observe})
		g := &guarded{app: &app{errs: &bytes.Buffer{}, argv: []string{"sleep", "1000"}, environ: os.Environ()}}
		g.signals, g.grace = make(chan os.Signal, 1), 200*time.Millisecond
		ended := make(chan error, 1)
		opts := soloist.Options{TTL: time.Second, Margin: 300 * time.Millisecond}
		go func() { ended <- g.stand(c.With(opts), "importer", slog.New(slog.DiscardHandler)) }()
		until := func(what string, seen <-chan struct{}) {
			select {
			case <-seen:
			case err := <-ended:
				t.Fatalf("%v: lead has ended before it was %s: %v", failure, what, err)
			}
		}
		until("elected", elected)
		s.Break(failure)
		for range 2 { // the first request of all campaigns ends the term, and the next is made without success
			until("refused", refused)
		}
		s.Heal()
		until("elected again", elected)
		g.signals <- syscall.SIGTERM
		if err := <-ended; exitCode(err) != 128+int(syscall.SIGTERM) {
			t.Errorf("%v: ended with %d: %v", failure, exitCode(err), err)
		}
	}
}
