package pgstore

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
	}
	servers.Main(m)
}

var background = context.Background()

// quiet are the settings of a server that writes to its log only for those who change something.
var quiet = []string{"deadlock_timeout=100ms", "autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1d", "max_wal_size=10GB",
	"max_connections=300"}

var server = servers.Shared(func(t servers.Test) *servers.PostgresServer { return servers.Postgres(t, quiet...) })

var schemas atomic.Int64

// newSchema returns the name of a schema that no test has had, in this run or one before on a server that stays.
func newSchema() string {
	return fmt.Sprintf("test_%x_%d", started, schemas.Add(1))
}

var started = time.Now().UnixNano()

// with returns the URL of a server with options.
func with(base string, options ...string) string {
	u, err := url.Parse(base)
	if err != nil {
		panic(err)
	}
	query := u.Query()
	for i := 0; i < len(options); i += 2 {
		query.Set(options[i], options[i+1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// as returns the URL for another role with the same password.
func as(base, role string) string {
	u, err := url.Parse(base)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(role, servers.PostgresPassword)
	return u.String()
}

// open opens a store. It is closed with the test.
func open(t testing.TB, base string, options ...string) *Store {
	t.Helper()
	s, err := OpenURL(background, with(base, options...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fresh opens a store on its own tables.
func fresh(t testing.TB, base string, options ...string) *Store {
	t.Helper()
	s := open(t, base, append([]string{"schema", newSchema()}, options...)...)
	migrate(t, s)
	return s
}

func migrate(t testing.TB, s *Store) []string {
	t.Helper()
	did, err := s.Migrate(background)
	if err != nil {
		t.Fatalf("migrating: %v", err)
	}
	return did
}

// admin is a connection of the superuser.
func admin(t testing.TB, base string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(background, base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(background) })
	return c
}

func run(t testing.TB, c interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, sql string, args ...any) {
	t.Helper()
	rows, err := c.Query(background, sql, args...)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](t testing.TB, c interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(background, sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// walOf is how far the server's log has been written.
func walOf(t testing.TB, pool *pgxpool.Pool) int64 {
	t.Helper()
	return one[int64](t, pool, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
}

func claim(name, holder string, ttl time.Duration) store.Claim {
	return store.Claim{Name: name, Holder: holder, TTL: ttl}
}

// try asks for a name and returns the one outcome, or the error of the call.
func try(s store.Store, name, holder string, ttl time.Duration) (store.Grant, error) {
	out, err := s.Acquire(background, []store.Claim{claim(name, holder, ttl)})
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
	errs, err := s.Release(background, []store.Release{r})
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

func tryExtend(s store.Store, r store.Release, ttl time.Duration) error {
	errs, err := s.Extend(background, []store.Extension{{Name: r.Name, Holder: r.Holder, Token: r.Token, TTL: ttl}})
	if err == nil {
		err = errs[0]
	}
	return err
}

// says checks that err is there, has every one of the texts in it, and no password.
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
	for _, secret := range []string{servers.PostgresPassword, canary} {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
			t.Errorf("error %q tells a password", err)
		}
	}
}

// canary is a password that must not be seen anywhere.
const canary = "c4n4ry/+%&"

// eventually waits until cond is so.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	servers.Wait(t, what, cond)
}
