//go:build unix

package interop

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/mysqlstore"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A field is where both sides contend: two peers in Java and any number of clients of ours.
type field struct {
	a, b   *Peer  // a is one of this host, b says that it is of another where it can
	hostA  string // what the holder of a's locks contains
	url    string // of the server
	table  string // in SQL
	names  string // of the columns of the table, as Options.Columns
	mode   string // in Redis: the options of our store
	zone   string // of the sessions of the peers, where it is not the server's
	unsafe bool   // a peer gives locks back without looking whose they are
}

// open opens a store of ours on the field, in its mode for the peers.
func (f *field) open(t testing.TB) store.Store {
	t.Helper()
	var s store.Store
	switch scheme, _, _ := strings.Cut(f.url, ":"); scheme {
	case "postgres":
		query := "shedlock=true&table=" + f.table
		if f.names != "" {
			query += "&shedlock_columns=" + f.names
		}
		opened, err := pgstore.OpenURL(context.Background(), withQuery(f.url, query))
		must(t, err)
		s = opened
	case "mysql":
		config := mysqlstore.Config{ShedLock: true, Table: f.table, ShedLockZone: f.zone}
		if names := strings.Split(f.names, ","); len(names) == 4 {
			config.ShedLockColumns = mysqlstore.ShedLockColumns{Name: names[0], LockUntil: names[1], LockedAt: names[2], LockedBy: names[3]}
		}
		opened, err := mysqlstore.New(database(t, f.url), config)
		must(t, err)
		s = opened
	case "redis":
		opened, err := redisstore.OpenURL(context.Background(), withQuery(f.url, f.mode))
		must(t, err)
		s = opened
	default:
		t.Fatalf("there is no store for %s", scheme)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// client makes a client of ours with its own store.
func (f *field) client(t testing.TB, opts soloist.Options) *soloist.Client {
	t.Helper()
	c, err := soloist.New(f.open(t), soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.With(opts)
}

// javaLock takes a lock for a peer that must get it. The peer may try for a moment: ShedLock counts in whole milliseconds, and so
// takes a name that was given back within this one for taken.
func javaLock(t testing.TB, p *Peer, name string, atMost, atLeast time.Duration) *Lock {
	t.Helper()
	l, err := p.Wait(name, atMost, atLeast, servers.Patience)
	if err != nil {
		t.Fatalf("a peer locking %q: %v", name, err)
	}
	return l
}

// javaRefused checks that a peer does not get a lock.
func javaRefused(t testing.TB, p *Peer, name string) {
	t.Helper()
	if _, err := p.Lock(name, long, 0); !errors.Is(err, ErrRefused) {
		t.Fatalf("a peer locking %q, which is held: %v; want ErrRefused", name, err)
	}
}

// ourLock takes a lock for a client of ours that must get it.
func ourLock(t testing.TB, c *soloist.Client, name string) *soloist.Lease {
	t.Helper()
	l, err := c.TryLock(context.Background(), name)
	if err != nil {
		t.Fatalf("locking %q: %v", name, err)
	}
	return l
}

// ourRefused checks that a client of ours does not get a lock, and returns the refusal.
func ourRefused(t testing.TB, c *soloist.Client, name string) *soloist.HeldError {
	t.Helper()
	_, err := c.TryLock(context.Background(), name)
	var held *soloist.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("locking %q, which is held: %v; want a HeldError", name, err)
	}
	return held
}

// name is that of the rule under test, for the lock that it is about.
func name(t testing.TB) string { return path.Base(t.Name()) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bounded is a context for waits that must end.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), servers.Patience)
	t.Cleanup(cancel)
	return ctx
}

// after checks that something happened a duration after begun at the earliest, but for what is lost by rounding to milliseconds.
func after(t testing.TB, begun time.Time, d time.Duration, what string) {
	t.Helper()
	if took := time.Since(begun); took < d-5*time.Millisecond {
		t.Errorf("%s after %v; want %v at least", what, took, d)
	}
}

// A number is an integer in a file that nothing but a lock protects.
type number struct{ file string }

func newNumber(t testing.TB) number {
	n := number{filepath.Join(t.TempDir(), "number")}
	must(t, os.WriteFile(n.file, []byte("0"), 0o644))
	return n
}

func (n number) get() (int, error) {
	text, err := os.ReadFile(n.file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

func (n number) increment() error {
	was, err := n.get()
	if err != nil {
		return err
	}
	time.Sleep(100 * time.Microsecond) // a second holder would be in here meanwhile
	return os.WriteFile(n.file, []byte(strconv.Itoa(was+1)), 0o644)
}

func (n number) is(t testing.TB, want int) {
	t.Helper()
	if got, err := n.get(); err != nil || got != want {
		t.Errorf("counted to %d, %v; want %d", got, err, want)
	}
}

// withQuery adds to the query of a URL.
func withQuery(at, query string) string {
	if strings.Contains(at, "?") {
		return at + "&" + query
	}
	return at + "?" + query
}
