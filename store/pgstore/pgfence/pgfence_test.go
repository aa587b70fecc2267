package pgfence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/sqlfence"
	"github.com/soloist-dev/soloist/store/pgstore/pgfence"
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
	mine, err := pgfence.New(p, "fences")
	if err != nil {
		t.Fatal(err)
	}
	std, err := sqlfence.New(db, sqlfence.Config{Table: "public.fences_std"})
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
		if _, err := pgfence.New(nil, table); err == nil {
			t.Errorf("%q was taken", table)
		}
	}
}
