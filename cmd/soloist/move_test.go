//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestMoveFromRedisToPostgres: a fleet moves between two servers, and the records come along.
func TestMoveFromRedisToPostgres(t *testing.T) {
	t.Parallel()
	made := "moved_" + strings.ToLower(rand.Text()) // the test may be run again on the same servers
	must(t, opened(t, "pgx", postgresServer(t).URL), "CREATE DATABASE "+made)
	to := with(t, postgresServer(t).URL, func(u *url.URL) { u.Path = "/" + made })
	from := with(t, redisServer(t).URL, func(u *url.URL) { u.Path = "/3" })
	options, err := redis.ParseURL(from)
	if err != nil {
		t.Fatal(err)
	}
	db := redis.NewClient(options)
	defer db.Close()
	if err := db.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if code, text := ended(t, to, "migrate", "up"); code != 0 {
		t.Fatal(text)
	}
	const names = 1200
	elements(t, from, names)
	both := func(phase string) string { return "move:" + phase + " " + from + " " + to }
	run := func(phase string, code int, args ...string) string {
		t.Helper()
		got, text := ended(t, both(phase), args...)
		for end := time.Now().Add(servers.Patience); got == exitUnavailable && code != got && time.Now().Before(end); {
			got, text = ended(t, both(phase), args...) // a busy machine
		}
		if got != code {
			t.Fatalf("%v in the phase %s: exit code %d, want %d:\n%s", args, phase, got, code, text)
		}
		return text
	}
	if code, text := ended(t, to, "move", "plan", "env:SOLOIST_STORE", from); code != 78 || !strings.Contains(text, "the fleet cannot move: fencing, durable, transactions") {
		t.Errorf("a move to a store that promises less: %d\n%s", code, text)
	}
	run("old-only", 0, "move", "plan")
	run("old-only", 0, "once", "j", "000001", "--", "touch", "ran")
	run("old-decides", 0, "once", "j", "more", "--", "true")
	if text := run("old-decides", 0, "move", "copy"); !strings.Contains(text, "0 to copy, 0 held") {
		t.Error(text)
	}
	run("new-decides", 0, "once", "j", "000002", "--", "sh", "-c", "exit 3")
	run("new-decides", 0, "move", "copy")
	run("new-only", 0, "move", "finish")
	if code, text := ended(t, to, "once", "j", "001199", "--", "sh", "-c", "exit 3"); code != 0 {
		t.Errorf("an element was processed again: %d\n%s", code, text)
	}
	_, text := ended(t, to, "elements", "list", "j", "--status", "processed", "-o", "jsonl")
	if n := strings.Count(text, "\n"); n != names+1 {
		t.Errorf("%d elements have come along, want %d", n, names+1)
	}
}

// elements marks elements of job j as processed.
func elements(t *testing.T, url string, n int) {
	t.Helper()
	s, err := source{text: url, from: "test"}.open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for begin := 0; begin < n; begin += 400 {
		var claims []store.Claim
		for i := range 400 {
			claims = append(claims, store.Claim{Name: fmt.Sprintf("element/j/%06d", begin+i), Holder: "h", TTL: time.Hour})
		}
		outcomes, err := s.Acquire(t.Context(), claims)
		if err != nil {
			t.Fatal(err)
		}
		var releases []store.Release
		for i, out := range outcomes {
			if out.Err != nil {
				t.Fatal(out.Err)
			}
			releases = append(releases, store.Release{Name: claims[i].Name, Holder: "h", Token: out.Grant.Token, Mark: 1, Retain: store.Forever})
		}
		if _, err := s.Release(t.Context(), releases); err != nil {
			t.Fatal(err)
		}
	}
}

// A comparison is not told as a success while a replica is in another phase: it may write what was compared.
func TestMoveVerifyMindsReplicas(t *testing.T) {
	before, after := memstore.New(), memstore.New()
	var messages bytes.Buffer
	m := &mover{app: &app{out: &messages, output: "table"}, oldStore: before, newStore: after}
	var err error
	if m.Manager, err = fleetmove.Manage(before, after, "test"); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.verify(t.Context()); err != nil {
		t.Errorf("without a replica: %v", err)
	}
	replica, err := fleetmove.Join(before.Share(), after.Share(), move.OldOnly, "behind")
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	if outs, err := replica.Acquire(t.Context(), []store.Claim{{Name: "x", Holder: "x", TTL: time.Minute, Mark: -1}}); err != nil || !errors.Is(outs[0].Err, store.ErrDone) { // it is known from then on
		t.Fatal(outs, err)
	}
	if err := m.verify(t.Context()); exitCode(err) != exitHeld || !strings.Contains(err.Error(), "1 replicas are in another phase") {
		t.Errorf("with one in the phase before: %v\n%s", err, messages.String())
	}
}

// A particularStore refuses some names, and counts how many it is asked for at once.
type particularStore struct {
	store.Store
	most int
}

func (s *particularStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	s.most = max(s.most, len(claims))
	outs, err := s.Store.Acquire(ctx, claims)
	for i, c := range claims {
		if strings.HasPrefix(c.Name, "bad") {
			outs[i] = store.Outcome{Err: &store.InvalidError{What: "name", Value: c.Name, Rule: "give another"}}
		}
	}
	return outs, err
}

// Names that the new store refuses are counted once, also in many batches, and a batch does not grow.
func TestNamesThatDoNotFit(t *testing.T) {
	const good = 2*peekBatch + 1
	before, after := memstore.New(), &particularStore{Store: memstore.New()}
	names := []string{"bad 1", "bad 2", "bad 3"}
	for i := range good {
		names = append(names, fmt.Sprintf("good %d", i))
	}
	for _, name := range names {
		if outs, err := before.Acquire(t.Context(), []store.Claim{{Name: name, Holder: "h", TTL: time.Minute}}); err != nil || outs[0].Err != nil {
			t.Fatal(outs, err)
		}
	}
	found, err := (&mover{oldStore: before, newStore: after}).misfits(t.Context())
	if err != nil || found.Level != store.LevelError || !strings.HasPrefix(found.Found, "3 cannot be in the new store, such as ") || strings.Count(found.Found, `"bad `) != 3 {
		t.Errorf("%+v, %v", found, err)
	}
	if after.most != peekBatch {
		t.Errorf("%d names were read at once", after.most)
	}
}

// copy waits for names that are held, as it does for replicas: a lease that its holder does not renew any more ends, and its record is copied then.
func TestMoveCopyWaitsForNamesThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		m := &mover{app: &app{out: io.Discard, errs: io.Discard, output: "table"}, oldStore: before, newStore: after}
		var err error
		if m.Manager, err = fleetmove.Manage(before, after, "test"); err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.Plan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if outs, err := before.Acquire(t.Context(), []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}}); err != nil || outs[0].Err != nil {
			t.Fatal(outs, err)
		}
		if err := m.copy(t.Context(), false, false, 30*time.Second, move.Options{Abandoned: true}); exitCode(err) != exitHeld {
			t.Errorf("a wait that ends before the lease: %v, want exit code %d", err, exitHeld)
		}
		if err := m.copy(t.Context(), false, false, time.Minute, move.Options{Abandoned: true}); err != nil {
			t.Errorf("a wait that is longer: %v", err)
		}
		if status, err := m.Status(t.Context()); err != nil || status.Stage.To != move.NewDecides {
			t.Errorf("the move is at the stage %v: %v", status.Stage, err)
		}
	})
}

// A fixedStore refuses to write states while it is fixed.
type fixedStore struct {
	store.Store
	fixed bool
}

func (s *fixedStore) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if s.fixed && slices.ContainsFunc(extensions, func(e store.Extension) bool { return e.State != nil }) {
		return nil, errors.New("read only")
	}
	return s.Store.Extend(ctx, extensions)
}

// An end of a move that one store does not know of is told as interrupted, with the step to repeat, until it has been.
func TestNextStepOfAnInterruptedEnd(t *testing.T) {
	for again, back := range map[string]bool{"soloist move finish": false, "soloist move copy --back": true} {
		t.Run(again, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := memstore.New(), &fixedStore{Store: memstore.New()}
				var messages bytes.Buffer
				m := &mover{app: &app{out: &messages, errs: io.Discard, output: "table"}, oldStore: before, newStore: after}
				var err error
				if m.Manager, err = fleetmove.Manage(before, after, "test"); err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				if err := m.Plan(t.Context()); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if !back {
						if err := m.copy(t.Context(), false, false, 0, move.Options{}); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, after.fixed = range []bool{true, false} {
					if _, _, err := m.Advance(t.Context(), back, move.Options{}); (err != nil) != after.fixed {
						t.Fatal(err)
					}
					for _, m.output = range []string{"table", "json"} {
						messages.Reset()
						status, err := m.Status(t.Context())
						if err == nil {
							err = m.show(status)
						}
						if told := strings.Contains(messages.String(), again+", which was interrupted"); err != nil || told != after.fixed {
							t.Errorf("%v\n%s", err, messages.String())
						}
					}
				}
			})
		})
	}
}
