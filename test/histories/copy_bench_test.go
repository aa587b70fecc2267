//go:build unix

package histories

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/store/sqlitestore"
	"github.com/soloist-dev/soloist/test/servers"
)

// BenchmarkCopy reports how many records a second a move copies in each of its two copies: 100,000 names, each with a mark and a state.
func BenchmarkCopy(b *testing.B) {
	stores := map[string]func(*testing.B) store.Store{"SQLite": sqliteAlone, "Redis": redisAlone, "PostgreSQL": postgresAlone}
	for _, way := range [][2]string{{"SQLite", "Redis"}, {"Redis", "PostgreSQL"}, {"PostgreSQL", "Redis"}, {"PostgreSQL", "PostgreSQL"}} {
		b.Run(way[0]+" to "+way[1], func(b *testing.B) {
			for range b.N {
				from, to := stores[way[0]](b), stores[way[1]](b)
				fill(b.Context(), b, from)
				for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
					begun := time.Now()
					report, err := move.Copy(b.Context(), from, to, phase, move.Options{Next: phase + 1})
					if err != nil || !report.Complete() || report.Names != copiedRecords {
						b.Fatal(report, err)
					}
					b.ReportMetric(copiedRecords/time.Since(begun).Seconds(), phase.String()+"-records/s")
					b.ReportMetric(float64(report.Copied), phase.String()+"-copied")
				}
			}
		})
	}
}

const copiedRecords = 100_000

func sqliteAlone(b *testing.B) store.Store {
	b.Helper()
	return opened(b, func() (*sqlitestore.Store, error) {
		return sqlitestore.Open(filepath.Join(servers.Directory(b), "copied.db"))
	})
}

func redisAlone(b *testing.B) store.Store {
	b.Helper()
	return opened(b, func() (*redisstore.Store, error) { return redisstore.OpenURL(b.Context(), servers.Redis(b).URL) })
}

func postgresAlone(b *testing.B) store.Store {
	b.Helper()
	return opened(b, func() (*pgstore.Store, error) {
		s, err := pgstore.OpenURL(b.Context(), servers.Postgres(b).URL)
		if err == nil {
			_, err = s.Migrate(b.Context())
		}
		return s, err
	})
}

func opened[S store.Store](b *testing.B, open func() (S, error)) store.Store {
	b.Helper()
	s, err := open()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// fill makes records.
func fill(ctx context.Context, b *testing.B, s store.Store) {
	b.Helper()
	const batch = 1000
	for n := 0; n < copiedRecords; n += batch {
		claims := make([]store.Claim, batch)
		for i := range claims {
			claims[i] = store.Claim{Name: fmt.Sprintf("element/orders/%07d", n+i), Holder: "h", TTL: time.Minute}
		}
		outcomes, err := s.Acquire(ctx, claims)
		if err != nil {
			b.Fatal(err)
		}
		releases := make([]store.Release, batch)
		for i, out := range outcomes {
			releases[i] = store.Release{Name: claims[i].Name, Holder: "h", Token: out.Grant.Token, Mark: 1, State: []byte(`{"processed":true}`), Retain: store.Forever}
		}
		errs, err := s.Release(ctx, releases)
		if err = errors.Join(append(errs, err)...); err != nil {
			b.Fatal(err)
		}
	}
}
