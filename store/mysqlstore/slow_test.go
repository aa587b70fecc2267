package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A release that is decided while its lease is live, and committed when that would have ended, has kept the name for its holder.
func TestReleaseThatCommitsSlowly(t *testing.T) {
	ctx := context.Background()
	db := connect(t, mariadb(t).URL, nil)
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			own := connect(t, mariadb(t).URL, m.driver)
			s := open(t, own, m.config)
			servers.Wait(t, "a release to be decided while its lease is live", func() bool {
				return releasedSlowly(ctx, t, db, s)
			})
			g := take(t, s, "x", "last")
			if g.ExpiredAge != 0 || g.Mark != 7 {
				t.Errorf("the next grant is %+v; want one that knows of the release", g)
			}
		})
	}
}

// releasedSlowly releases a lease while nothing can be committed until it would have ended. It reports false if the release came too late.
func releasedSlowly(ctx context.Context, t *testing.T, db *sql.DB, s *Store) bool {
	t.Helper()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	o := acquire(t, s, store.Claim{Name: "x", Holder: "a", TTL: time.Second})[0]
	if o.Err != nil {
		return false // that of the last try is not over
	}
	exec(t, conn, "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT")
	ended := false
	end := func() {
		if !ended {
			ended = true
			exec(t, conn, "BACKUP STAGE END")
		}
	}
	defer end()
	released := make(chan error, 1)
	go func() {
		errs, err := s.Release(ctx, []store.Release{{Name: "x", Holder: "a", Token: o.Grant.Token, Mark: 7, Retain: store.Forever}})
		released <- errors.Join(append(errs, err)...)
	}()
	lost, waits := false, 0
	servers.Wait(t, "the release to wait for its commit", func() bool {
		select {
		case err := <-released:
			if !errors.Is(err, store.ErrLost) {
				t.Fatalf("before it could be committed the release answered %v", err)
			}
			lost = true
		default:
		}
		const waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for backup lock'"
		if err := db.QueryRowContext(ctx, waiting).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return lost || waits > 0
	})
	if lost {
		return false
	}
	servers.Wait(t, "the lease to look as if it had ended", func() bool {
		return recordOf(t, acquire(t, s, store.Claim{Name: "x", Holder: "-", TTL: time.Second, Mark: -1})[0].Err).Free()
	})
	if o := acquire(t, s, claim("x", "b"))[0]; !errors.Is(o.Err, store.ErrHeld) {
		t.Errorf("before the release is committed another is told %+v, %v", o.Grant, o.Err)
	}
	again := store.Release{Name: "x", Holder: "a", Token: o.Grant.Token, Mark: 7, Retain: store.Forever}
	if errs, err := s.Release(ctx, []store.Release{again}); err != nil || !errors.Is(errs[0], store.ErrUnknown) {
		t.Errorf("before the release is committed the same release is told %v, %v, want an unknown outcome", errs, err)
	}
	extension := store.Extension{Name: "x", Holder: "a", Token: o.Grant.Token, TTL: time.Hour}
	if errs, err := s.Extend(ctx, []store.Extension{extension}); err != nil || !errors.Is(errs[0], store.ErrUnknown) {
		t.Errorf("before the release is committed an extension is told %v, %v, want an unknown outcome", errs, err)
	}
	end()
	if err := <-released; err != nil {
		t.Errorf("the release answers %v", err)
	}
	release(t, s, again)
	return true
}
