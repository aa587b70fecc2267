package pgstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
)

// counting is a server that counts statements.
var counting = servers.Shared(func(t servers.Test) *servers.PostgresServer {
	return servers.Postgres(t, append(quiet, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=all")...)
})

// statementsOf returns how many statements f had the server run, transactions' own included, and what they began with.
func statementsOf(t *testing.T, db *pgx.Conn, f func()) (n int, which string) {
	t.Helper()
	run(t, db, "SELECT pg_stat_statements_reset()")
	f()
	rows, err := db.Query(background, "SELECT left(query, 60), calls FROM pg_stat_statements WHERE query !~ 'pg_stat_statements'")
	if err != nil {
		t.Fatal(err)
	}
	var query string
	var calls int
	if _, err := pgx.ForEachRow(rows, []any{&query, &calls}, func() error {
		n += calls
		which += fmt.Sprintf("\n%d × %s", calls, strings.Join(strings.Fields(query), " "))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n, which
}

func batchOf(n int, holder string) []store.Claim {
	claims := make([]store.Claim, n)
	for i := range claims {
		claims[i] = claim(fmt.Sprintf("batch/%05d", i), holder, time.Minute)
	}
	return claims
}

// granted returns what releases the claims, all of which must have been granted.
func granted(t testing.TB, s store.Store, claims []store.Claim) []store.Release {
	t.Helper()
	out, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	releases := make([]store.Release, len(claims))
	for i, o := range out {
		if o.Err != nil {
			t.Fatalf("%q: %v", claims[i].Name, o.Err)
		}
		releases[i] = store.Release{Name: claims[i].Name, Holder: claims[i].Holder, Token: o.Grant.Token, Retain: store.Forever}
	}
	return releases
}

func extensionsOf(releases []store.Release, ttl time.Duration) []store.Extension {
	extensions := make([]store.Extension, len(releases))
	for i, r := range releases {
		extensions[i] = store.Extension{Name: r.Name, Holder: r.Holder, Token: r.Token, TTL: ttl}
	}
	return extensions
}

func allNil(t testing.TB, errs []error, err error) {
	t.Helper()
	if err := errors.Join(errors.Join(errs...), err); err != nil {
		t.Fatalf("%.1000v", err)
	}
}

func TestEachVerbIsOneStatement(t *testing.T) {
	db := admin(t, counting(t).URL)
	run(t, db, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
	s := fresh(t, counting(t).URL)
	var one store.Release
	var many, all []store.Release
	for _, step := range []struct {
		what string
		most int
		do   func()
	}{
		{"the first call of a handle", 2, func() { take(t, s, "first", "a", time.Minute) }}, // it looks at the version of the tables
		{"acquire", 1, func() { one = take(t, s, "name", "a", time.Minute) }},
		{"refused", 1, func() {
			if _, err := try(s, "name", "b", time.Minute); !errors.Is(err, store.ErrHeld) {
				t.Error(err)
			}
		}},
		{"asked again", 2, func() { take(t, s, "name", "a", time.Minute) }}, // see confirm
		{"extend", 1, func() {
			if err := tryExtend(s, one, time.Minute); err != nil {
				t.Error(err)
			}
		}},
		{"release", 1, func() { release(t, s, one) }},
		{"acquire again", 1, func() { take(t, s, "name", "a", time.Minute) }},
		{"64 claims of one name", 1, func() {
			claims := make([]store.Claim, 64)
			for i := range claims {
				claims[i] = claim("popular", fmt.Sprint(i), time.Minute)
			}
			if out, err := s.Acquire(background, claims); err != nil || out[0].Err != nil || !errors.Is(out[63].Err, store.ErrHeld) {
				t.Error(out, err)
			}
		}},
		{"1,000 claims", 1, func() { many = granted(t, s, batchOf(1000, "a")) }},
		{"1,000 refusals", 1, func() { s.Acquire(background, batchOf(1000, "b")) }},
		{"1,000 extensions", 1, func() {
			errs, err := s.Extend(background, extensionsOf(many, time.Minute))
			allNil(t, errs, err)
		}},
		{"1,000 releases", 1, func() {
			errs, err := s.Release(background, many)
			allNil(t, errs, err)
		}},
		{"10,000 claims", 10, func() {
			claims := batchOf(10_000, "c")
			for at := 0; at < len(claims); at += 1000 {
				all = append(all, granted(t, s, claims[at:at+1000])...)
			}
		}},
		{"10,000 extensions", 20, func() {
			for at := 0; at < len(all); at += 1000 { // as the client does
				errs, err := s.Extend(background, extensionsOf(all[at:at+1000], time.Minute))
				allNil(t, errs, err)
			}
		}},
		{"choose", 1, func() {
			if _, _, err := s.Choose(background, []string{"slot 1", "slot 2"}, claim("x", "a", time.Minute)); err != nil {
				t.Error(err)
			}
		}},
	} {
		if n, which := statementsOf(t, db, step.do); n > step.most {
			t.Errorf("%s: %d statements, want %d:%s", step.what, n, step.most, which)
		}
	}
}

// A refusal leaves the log as it is: no row is locked, no transaction gets a number, nothing is synced.
func TestRefusalsWriteNothing(t *testing.T) {
	srv := servers.Postgres(t, quiet...)
	s := fresh(t, srv.URL)
	granted(t, s, batchOf(100, "a"))
	before := walOf(t, s.pool)
	for range 20 {
		out, err := s.Acquire(background, batchOf(100, "b"))
		if err != nil || !errors.Is(out[99].Err, store.ErrHeld) {
			t.Fatal(out, err)
		}
		if i, _, err := s.Choose(background, []string{"batch/00001", "batch/00002"}, claim("x", "b", time.Minute)); i != 0 || !errors.Is(err, store.ErrHeld) {
			t.Fatal(i, err)
		}
	}
	if after := walOf(t, s.pool); after != before {
		t.Errorf("2,000 refusals wrote %d bytes of WAL", after-before)
	}
}
