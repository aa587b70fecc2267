//go:build unix

package histories

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// BenchmarkCopy reports how many records a second a move copies in each of its two copies: 100,000 names, each with a mark and a state.
func BenchmarkCopy(b *testing.B) {
	for _, way := range []string{"Redis to PostgreSQL", "PostgreSQL to Redis"} {
		b.Run(way, func(b *testing.B) {
			for range b.N {
				copied(b, way == "Redis to PostgreSQL")
			}
		})
	}
}

const copiedRecords = 100_000

func copied(b *testing.B, fromRedis bool) {
	b.Helper()
	ctx := b.Context()
	before, err := redisstore.OpenURL(ctx, servers.Redis(b).URL)
	if err != nil {
		b.Fatal(err)
	}
	defer before.Close()
	pg, err := pgstore.OpenURL(ctx, servers.Postgres(b).URL)
	if err == nil {
		_, err = pg.Migrate(ctx)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer pg.Close()
	from, to := store.Store(before), store.Store(pg)
	if !fromRedis {
		from, to = to, from
	}
	fill(ctx, b, from)
	for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
		begun := time.Now()
		report, err := move.Copy(ctx, from, to, phase, move.Options{})
		if err != nil || report.Copied != copiedRecords {
			b.Fatal(report, err)
		}
		b.ReportMetric(copiedRecords/time.Since(begun).Seconds(), phase.String()+"-records/s")
	}
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
