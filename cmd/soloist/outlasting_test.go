package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
)

// A command that waits for a lock outlasts a store that cannot be reached: for as long as --wait says, and without an end with forever.
func TestWaitOutlastsTheStore(t *testing.T) {
	const outage, request = time.Hour, time.Millisecond
	away := errors.New("the store is away")
	for _, c := range []struct {
		wait time.Duration
		want error
		took time.Duration // at most
	}{
		{-1, nil, outage + 2*time.Second}, {2 * outage, nil, outage + 2*time.Second}, {time.Minute, away, time.Minute + request}, {0, away, request},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := outlasting(t.Context(), soloist.Options{Wait: c.wait}, func(o soloist.Options) (*soloist.Lease, error) {
				if c.wait < 0 && o.Wait >= 0 || c.wait >= 0 && o.Wait > max(0, c.wait-time.Since(start)) {
					t.Errorf("after %v of %v the lease is waited for %v", time.Since(start), c.wait, o.Wait)
				}
				time.Sleep(request)
				if time.Since(start) < outage {
					return nil, away
				}
				return nil, nil
			}, slog.New(slog.DiscardHandler))
			if !errors.Is(err, c.want) || time.Since(start) > c.took {
				t.Errorf("with a wait of %v: %v after %v, want %v after %v", c.wait, err, time.Since(start), c.want, c.took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		_, err := outlasting(t.Context(), soloist.Options{Wait: time.Minute}, func(o soloist.Options) (*soloist.Lease, error) {
			waits = append(waits, o.Wait)
			return nil, away
		}, slog.New(stoppedHandler{}))
		if len(waits) != 1 || !errors.Is(err, away) {
			t.Errorf("a process that was stopped beyond its wait: %v after waits of %v; want no request after the first", err, waits)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := outlasting(ctx, soloist.Options{Wait: -1}, func(soloist.Options) (*soloist.Lease, error) { return nil, away }, slog.New(slog.DiscardHandler)); !errors.Is(err, away) {
		t.Errorf("after its end: %v", err)
	}
}

// A stoppedHandler is what a process logs with that is stopped for an hour when it does.
type stoppedHandler struct{}

func (stoppedHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (stoppedHandler) Handle(context.Context, slog.Record) error { time.Sleep(time.Hour); return nil }
func (h stoppedHandler) WithAttrs([]slog.Attr) slog.Handler      { return h }
func (h stoppedHandler) WithGroup(string) slog.Handler           { return h }

// An error that names flags says where each of them was set, once.
func TestWhereFlagsAreSet(t *testing.T) {
	a := &app{fromConfig: map[string]setting{"ttl": {where: "f:1: ttl"}, "grace": {where: "f:2: grace"}}}
	for text, want := range map[string]string{
		"--grace 5s is too long for --ttl 6s, since --grace must be less": " (set in f:2: grace, f:1: ttl)", "--wait is wrong": "", "--ttl": " (set in f:1: ttl)",
	} {
		if got := a.setIn(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// The path that a command gets with --pass-store leads to the same file, whatever characters it has.
func TestPassedPathIsTheSame(t *testing.T) {
	for _, path := range []string{"/d/a b", "/d/a#b", "/d/a?b", "/d/a%b", "/d/a%23b", "/d/ä"} {
		if got, err := sqlitePath(escapePath(path)); err != nil || got != path {
			t.Errorf("%s becomes %q, %v", path, got, err)
		}
	}
}

// What is required of the store is required of the one that a soloist in the command uses, too.
func TestRequirementsArePassedOn(t *testing.T) {
	a := &app{environ: []string{"SOLOIST_STORE=sqlite:/d/store.db", "SOLOIST_NAMESPACE=team", "SOLOIST_REQUIRE=durable", "XDG_RUNTIME_DIR=" + t.TempDir()}}
	a.root()
	a.requireFleet, a.passStore = true, true
	passed, err := a.passOn(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer passed.remove()
	env := passed.variables()
	if env[varRequire] != "fleet,durable" || env[varNamespace] != "team" {
		t.Errorf("%v", env)
	}
}

// A file that something else has removed is there again for the next command: where it was, or elsewhere if its directory is gone. Another file in its
// place is left alone.
func TestPassedFileIsWrittenAnew(t *testing.T) {
	dir, temporary := filepath.Join(t.TempDir(), "run"), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a := &app{environ: []string{"SOLOIST_STORE=sqlite:/d/store.db", "XDG_RUNTIME_DIR=" + dir}}
	a.root()
	a.passStore = true
	passed, err := a.passOn(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := passed.variables()[varStoreFile]
	there := func(what, in string) string {
		t.Helper()
		file := passed.variables()[varStoreFile]
		text, err := os.ReadFile(file)
		if err != nil || string(text) != "sqlite:/d/store.db\n" || filepath.Dir(file) != in {
			t.Errorf("%s: %s has %q, %v; it should be in %s", what, file, text, err, in)
		}
		return file
	}
	if file := there("nothing is wrong", dir); file != first {
		t.Errorf("%s is another file than %s", file, first)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if file := there("the file is gone", dir); file != first {
		t.Errorf("%s is another file than %s", file, first)
	}
	if err := errors.Join(os.WriteFile(first+"-other", []byte("sqlite:/other.db\n"), 0o600), os.Rename(first+"-other", first)); err != nil {
		t.Fatal(err)
	}
	there("another file is in its place", dir)
	if text, err := os.ReadFile(first); err != nil || string(text) != "sqlite:/other.db\n" {
		t.Errorf("the other file has %q now, %v", text, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	last := there("the directory is gone", temporary)
	passed.remove()
	if _, err := os.Stat(last); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is not removed: %v", err)
	}
}
