package pgfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/pgfence"
	"github.com/soloist-dev/soloist/fence/sqlfence"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var background = context.Background()

func TestMain(m *testing.M) { servers.Main(m) }

var server = servers.Shared(func(t servers.Test) *servers.PostgresServer { return servers.Postgres(t, "max_connections=200") })

func pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(background, server(t).URL+"?pool_max_conns=16")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// guards are both ways to a table of PostgreSQL, with an insert into a table of what was written.
func guards(t *testing.T) map[string]struct {
	guard fence.Guard
	write func(ctx context.Context, token int64) error
} {
	t.Helper()
	p := pool(t)
	db, err := sql.Open("pgx", server(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	mine, err := pgfence.New(p, pgfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	std, err := sqlfence.New(db, sqlfence.Config{Dialect: sqlfence.PostgreSQL, Table: "public.fences_std"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{mine.Schema(), std.Schema(), "TRUNCATE fences, fences_std",
		"CREATE TABLE IF NOT EXISTS landed (at bigint GENERATED ALWAYS AS IDENTITY, token bigint)", "TRUNCATE landed"} {
		if _, err := p.Exec(background, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	const insert = "INSERT INTO landed (token) VALUES ($1)"
	return map[string]struct {
		guard fence.Guard
		write func(ctx context.Context, token int64) error
	}{
		"pgfence": {mine, func(ctx context.Context, token int64) error {
			_, err := pgfence.Tx(ctx).Exec(ctx, insert, token)
			return err
		}},
		"sqlfence": {std, func(ctx context.Context, token int64) error {
			_, err := sqlfence.Tx(ctx).ExecContext(ctx, insert, token)
			return err
		}},
	}
}

func nothing(context.Context) error { return nil }

func TestGuardRefusesLowerTokens(t *testing.T) {
	for name, g := range guards(t) {
		for _, step := range []struct {
			resource string
			token    int64
			stale    bool
		}{
			{"a", 5, false}, {"a", 5, false}, {"a", 4, true}, {"a", 7, false}, {"a", 5, true}, {"b", 1, false}, {"a", 7, false},
			{"a ", 1, false}, {"A", 1, false},
		} {
			if err := g.guard.Do(background, step.resource, step.token, nothing); errors.Is(err, fence.ErrStale) != step.stale {
				t.Errorf("%s: %+v: %v", name, step, err)
			}
		}
		if err := g.guard.Claim(background, "a", 9); err != nil {
			t.Fatal(err)
		}
		var stale *fence.StaleError
		if err := g.guard.Do(background, "a", 8, nothing); !errors.As(err, &stale) || stale.Seen != 9 || stale.Token != 8 {
			t.Errorf("%s: after a claim: %v", name, err)
		}
		var bad *fence.TokenError
		if err := g.guard.Claim(background, "a", 0); !errors.As(err, &bad) {
			t.Errorf("%s: token 0: %v", name, err)
		}
	}
}

// A resource is the same one for connections with another client_encoding, as a role or a database can have it.
func TestResourceInOtherEncodings(t *testing.T) {
	other := server(t).URL + "?options=-c%20client_encoding%3DLATIN1"
	p, err := pgxpool.New(background, other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	db, err := sql.Open("pgx", other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	mine, err := pgfence.New(p, pgfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	std, err := sqlfence.New(db, sqlfence.Config{Dialect: sqlfence.PostgreSQL, Table: "public.fences_std"})
	if err != nil {
		t.Fatal(err)
	}
	latin := map[string]fence.Guard{"pgfence": mine, "sqlfence": std}
	const resource = "Bücher/Zürich"
	for name, g := range guards(t) {
		if err := g.guard.Claim(background, resource, 7); err != nil {
			t.Fatal(err)
		}
		var stale *fence.StaleError
		if err := latin[name].Claim(background, resource, 5); !errors.As(err, &stale) || stale.Seen != 7 {
			t.Errorf("%s: a lower token from a connection with LATIN1: %v", name, err)
		}
		if err := latin[name].Claim(background, resource, 9); err != nil {
			t.Errorf("%s: a greater token from a connection with LATIN1: %v", name, err)
		}
		if err := g.guard.Claim(background, resource, 8); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: a token lower than the one of the other connection: %v", name, err)
		}
	}
}

// What a write that fails has written is gone, and its token counts as seen.
func TestFailedWrite(t *testing.T) {
	p := pool(t)
	broken := errors.New("broken")
	for name, g := range guards(t) {
		err := g.guard.Do(background, "a", 5, func(ctx context.Context) error {
			if err := g.write(ctx, 5); err != nil {
				t.Error(err)
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		if err := g.guard.Claim(background, "a", 4); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: after a failed write: %v", name, err)
		}
		var n int
		if err := p.QueryRow(background, "SELECT count(*) FROM landed").Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d rows landed of a write that failed, %v", name, n, err)
		}
	}
}

// A token counts as seen when its write panics, or ends its goroutine, and when it cannot be committed.
func TestFenceRemembersTokensOfWritesThatPanic(t *testing.T) {
	for name, g := range guards(t) {
		var work sync.WaitGroup
		for token, end := range map[int64]func(){5: func() { panic("broken") }, 7: runtime.Goexit} {
			resource := fmt.Sprint("of token ", token)
			work.Go(func() {
				defer func() { _ = recover() }()
				_ = g.guard.Do(background, resource, token, func(ctx context.Context) error {
					if err := g.write(ctx, token); err != nil {
						t.Error(err)
					}
					end()
					return nil
				})
				t.Errorf("%s: Do has returned", name)
			})
			work.Wait()
			if err := g.guard.Claim(background, resource, token-1); !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: a lower token after a write that ended in the midst: %v", name, err)
			}
		}
		err := g.guard.Do(background, "b", 5, func(ctx context.Context) error {
			if tx := pgfence.Tx(ctx); tx != nil {
				_, err := tx.Exec(ctx, "SELECT 1/0")
				return ignore(err)
			}
			_, err := sqlfence.Tx(ctx).ExecContext(ctx, "SELECT 1/0")
			return ignore(err)
		})
		if err == nil {
			t.Errorf("%s: a transaction that failed was committed", name)
		}
		if err := g.guard.Claim(background, "b", 4); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: a lower token after a write that could not be committed: %v", name, err)
		}
	}
	var landed int
	if err := pool(t).QueryRow(background, "SELECT count(*) FROM landed").Scan(&landed); err != nil || landed != 0 {
		t.Errorf("%d rows landed of writes that ended in the midst, %v", landed, err)
	}
}

// ignore is what a write does that overlooks an error.
func ignore(error) error { return nil }

// Two holders, one after the other, each add 1 to what they read. The second has begun its transaction, and read, before the first has
// written: the counter is 2, or one of them gets an error.
func TestFenceInAnOlderSnapshot(t *testing.T) {
	p := pool(t)
	g, err := pgfence.New(p, pgfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{g.Schema(), "TRUNCATE fences", "CREATE TABLE IF NOT EXISTS counters (id text PRIMARY KEY, n bigint)", "TRUNCATE counters"} {
		if _, err := p.Exec(background, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, level := range []pgx.TxIsoLevel{pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for _, known := range []bool{false, true} { // whether the guard has seen the resource before
			resource := fmt.Sprint(level, known)
			if _, err := p.Exec(background, "INSERT INTO counters VALUES ($1, 0)", resource); err != nil {
				t.Fatal(err)
			}
			if known {
				if err := g.Claim(background, resource, 1); err != nil {
					t.Fatal(err)
				}
			}
			second, err := p.BeginTx(background, pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			var begun int
			if err := second.QueryRow(background, "SELECT n FROM counters WHERE id = $1", resource).Scan(&begun); err != nil {
				t.Fatal(err)
			}
			add := func(tx pgx.Tx, token int64) error {
				if err := g.Check(background, tx, resource, token); err != nil {
					return err
				}
				var n int
				if err := tx.QueryRow(background, "SELECT n FROM counters WHERE id = $1", resource).Scan(&n); err != nil {
					return err
				}
				_, err := tx.Exec(background, "UPDATE counters SET n = $2 WHERE id = $1", resource, n+1)
				return err
			}
			if err := pgx.BeginTxFunc(background, p, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error { return add(tx, 2) }); err != nil {
				t.Fatal(err)
			}
			failed := add(second, 3)
			if failed == nil {
				failed = second.Commit(background)
			}
			_ = second.Rollback(background)
			var n int
			if err := p.QueryRow(background, "SELECT n FROM counters WHERE id = $1", resource).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n != 2 && failed == nil {
				t.Errorf("%s: two holders have added 1 each, and the counter is %d", resource, n)
			}
			t.Logf("%s: %d, %v", resource, n, failed)
		}
	}
}

// By effect: whatever the interleaving, no write of a lower token lands after one of a higher.
func TestWritesLandInTheOrderOfTheirTokens(t *testing.T) {
	p := pool(t)
	for name, g := range guards(t) {
		if _, err := p.Exec(background, "TRUNCATE landed RESTART IDENTITY"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for token := int64(1); token <= 12; token++ {
			wg.Go(func() {
				for range 20 {
					err := g.guard.Do(background, "x", token, func(ctx context.Context) error { return g.write(ctx, token) })
					if err != nil && !errors.Is(err, fence.ErrStale) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		rows, _ := p.Query(background, "SELECT token FROM landed ORDER BY at")
		tokens, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(tokens) < 20 {
			t.Fatalf("%s: %d landed, %v", name, len(tokens), err)
		}
		for i := 1; i < len(tokens); i++ {
			if tokens[i] < tokens[i-1] {
				t.Fatalf("%s: %d landed after %d", name, tokens[i], tokens[i-1])
			}
		}
	}
}

func TestSuccessorWaitsForTheWriteUnderWay(t *testing.T) {
	for name, g := range guards(t) {
		in, out := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- g.guard.Do(background, "x", 1, func(context.Context) error { close(in); <-out; return nil })
		}()
		<-in
		ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
		if err := g.guard.Claim(ctx, "x", 2); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: while a write is under way: %v", name, err)
		}
		cancel()
		close(out)
		if err := <-ended; err != nil {
			t.Error(name, err)
		}
		if err := g.guard.Claim(background, "x", 2); err != nil {
			t.Error(name, err)
		}
	}
}

func TestNewChecksTheTable(t *testing.T) {
	for _, table := range []string{"a;b", "A", "a.b.c", strings.Repeat("x", 64)} {
		if _, err := pgfence.New(new(pgxpool.Pool), pgfence.Config{Table: table}); err == nil {
			t.Errorf("%q was taken", table)
		}
	}
}
