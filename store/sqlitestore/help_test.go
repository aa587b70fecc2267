package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
	}
	os.Exit(m.Run())
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "leases.db") }

func claim(name, holder string, ttl time.Duration) []store.Claim {
	return []store.Claim{{Name: name, Holder: holder, TTL: ttl}}
}

// try asks for a name and returns the one outcome, or the error of the call.
func try(s store.Store, name, holder string, ttl time.Duration) (store.Grant, error) {
	out, err := s.Acquire(context.Background(), claim(name, holder, ttl))
	if err != nil {
		return store.Grant{}, err
	}
	return out[0].Grant, out[0].Err
}

// take takes a name that must be free, and returns what releases it.
func take(t testing.TB, s store.Store, name, holder string, ttl time.Duration) store.Release {
	t.Helper()
	g, err := try(s, name, holder, ttl)
	if err != nil {
		t.Fatalf("taking %q: %v", name, err)
	}
	return store.Release{Name: name, Holder: holder, Token: g.Token, Retain: store.Forever}
}

func tryRelease(s store.Store, r store.Release) error {
	errs, err := s.Release(context.Background(), []store.Release{r})
	if err == nil {
		err = errs[0]
	}
	return err
}

func release(t testing.TB, s store.Store, r store.Release) {
	t.Helper()
	if err := tryRelease(s, r); err != nil {
		t.Fatalf("releasing %q: %v", r.Name, err)
	}
}

// says checks that err is there and has every one of the texts in it, and does not speak SQLite's own way of being busy.
func says(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; it should say %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q\ndoes not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "database is locked") {
		t.Errorf("error %q is SQLite's", err)
	}
}

// raw opens the file as another program would.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "_pragma=busy_timeout(5000)"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.Exec(query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// sound checks the file with SQLite's own check.
func sound(t testing.TB, path string) {
	t.Helper()
	var answer string
	if err := raw(t, path).QueryRow("PRAGMA integrity_check").Scan(&answer); err != nil || answer != "ok" {
		t.Fatalf("integrity_check answers %q, %v", answer, err)
	}
}

// eventually waits until cond is so.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	servers.Wait(t, what, cond)
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
