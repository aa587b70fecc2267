package pgstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

// jvmSkew is how far the times in a lock of ShedLock may be from the server's clock. More shows the clock of a JVM.
const jvmSkew = time.Second

// A jvmClock describes which clock the locks of ShedLock use, as far as their rows show.
type jvmClock struct{ locks, off, coarse, most int64 }

// jvms looks whether ShedLock uses the server's clock, as it does with usingDbTime() alone.
func (e *examination) jvms(ctx context.Context) {
	found, err := look(ctx, e.Store, e.tables.load("shedlock_clocks"), []any{jvmSkew.Microseconds()}, func(rows pgx.Rows) (c jvmClock, err error) {
		return c, rows.Scan(&c.locks, &c.off, &c.coarse, &c.most)
	})
	const fix = "build each JVM's JdbcTemplateLockProvider with usingDbTime(): with times of its own clock and zone, ShedLock and soloist do not exclude each other"
	clocks, err := read(e.Store, found, err)
	switch {
	case err != nil:
		e.add(store.LevelUnknown, "clock of ShedLock", "", "%v", err)
	case clocks.off > 0:
		e.add(store.LevelError, "clock of ShedLock", fix, "%d of %d locks that ShedLock has taken last have times that are up to %v from the server's clock: those of a JVM's clock or time zone",
			clocks.off, clocks.locks, span(clocks.most).Round(time.Second))
	case 2*clocks.coarse > clocks.locks:
		e.add(store.LevelWarning, "clock of ShedLock", fix, "%d of %d locks that ShedLock has taken last have times without microseconds: those of a JVM's clock, which is right now",
			clocks.coarse, clocks.locks)
	case clocks.locks == 0:
		e.ok("clock of ShedLock", "it has taken no lock yet: look again when it has; each JVM needs usingDbTime()")
	default:
		e.ok("clock of ShedLock", "the %d locks that it has taken last have times of the server's clock", clocks.locks)
	}
}

// otherColumns describes which columns a table lacks that is to be shared with ShedLock. It returns "" if it has all, or if there is no table.
func (e *examination) otherColumns(ctx context.Context) string {
	if !e.tables.cfg.ShedLock {
		return ""
	}
	found, err := look(ctx, e.Store, `SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped`,
		[]any{e.tables.records}, func(rows pgx.Rows) (name string, err error) { return name, rows.Scan(&name) })
	if err != nil || len(found) == 0 {
		return ""
	}
	var lacks []string
	for _, column := range slices.Sorted(maps.Keys(e.tables.columnsOfShedLock())) {
		if !slices.Contains(found, column) {
			lacks = append(lacks, column)
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	slices.Sort(found)
	return fmt.Sprintf("%s has the columns %s, and not %s", e.tables.records, strings.Join(found, ", "), strings.Join(lacks, ", "))
}
