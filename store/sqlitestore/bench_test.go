package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"

	"modernc.org/sqlite"
)

// floor is what any store on a SQLite file pays: two bare one-row upserts, each a commit, on a file with the same settings.
func floor(b *testing.B) func() {
	db, err := connect(sqlite.NewConnector, dsn(filepath.Join(b.TempDir(), "floor.db"), "mode=rwc"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	c, err := newConn(db)
	if err == nil {
		err = c.setWAL()
	}
	if err == nil {
		_, err = c.sql.ExecContext(background, "CREATE TABLE records (name TEXT PRIMARY KEY, holder TEXT, token INTEGER) WITHOUT ROWID")
	}
	var upsert *sql.Stmt
	if err == nil {
		upsert, err = c.sql.PrepareContext(background, "INSERT INTO records (name, holder, token) VALUES (?1, ?2, ?3) "+
			"ON CONFLICT (name) DO UPDATE SET holder = ?2, token = ?3")
	}
	if err != nil {
		b.Fatal(err)
	}
	token := 0
	return func() {
		for range 2 {
			token++
			if _, err := upsert.Exec("name", "holder", token); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkPair takes and releases a name, in turns with the floor so that both meet the same disk. Medians are compared,
// because a disk that others use too stalls now one and now the other.
func BenchmarkPair(b *testing.B) {
	s := openAt(b, filepath.Join(b.TempDir(), "leases.db"))
	bare := floor(b)
	pair := func(i int) { release(b, s, take(b, s, "name", fmt.Sprintf("holder-%d", i), time.Minute)) }
	timed := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	var ours, theirs []time.Duration
	for b.Loop() {
		i := len(ours)
		if i%2 == 0 {
			ours = append(ours, timed(func() { pair(i) }))
			theirs = append(theirs, timed(bare))
		} else {
			theirs = append(theirs, timed(bare))
			ours = append(ours, timed(func() { pair(i) }))
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	our, their := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(float64(our), "p50-ns/op")
	b.ReportMetric(float64(ours[len(ours)*99/100]), "p99-ns/op")
	b.ReportMetric(float64(their), "floor-ns/op")
	b.ReportMetric(float64(our)/float64(their), "x-floor")
	b.ReportMetric(2, "trips/op")
}

// BenchmarkRefused tries for a name that is held; not a byte is written.
func BenchmarkRefused(b *testing.B) {
	s := openAt(b, filepath.Join(b.TempDir(), "leases.db"))
	take(b, s, "name", "a", time.Hour)
	claim := []store.Claim{{Name: "name", Holder: "b", TTL: time.Hour}}
	before := written(b, s.path)
	b.ReportAllocs()
	for b.Loop() {
		out, err := s.Acquire(context.Background(), claim)
		if err != nil || out[0].Err == nil {
			b.Fatal(out, err)
		}
	}
	b.ReportMetric(float64(written(b, s.path)-before)/float64(b.N), "written/op")
	b.ReportMetric(1, "trips/op")
}

func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := openAt(b, filepath.Join(b.TempDir(), "leases.db"))
			claims, releases := make([]store.Claim, n), make([]store.Release, n)
			for b.Loop() {
				for i := range claims {
					claims[i] = store.Claim{Name: fmt.Sprintf("name-%05d", i), Holder: "holder", TTL: time.Minute}
				}
				out, err := s.Acquire(context.Background(), claims)
				if err != nil {
					b.Fatal(err)
				}
				for i, o := range out {
					releases[i] = store.Release{Name: claims[i].Name, Holder: "holder", Token: o.Grant.Token}
				}
				if _, err := s.Release(context.Background(), releases); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(2, "trips/op")
		})
	}
}
