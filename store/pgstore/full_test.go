package pgstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5/pgconn"
)

// A session that listens in a transaction without an end, of any role that may connect, lets others fill the server's queue of notifications. What a release records is not
// lost by that: it notifies nobody, and the names are free.
func TestFullQueueOfNotifications(t *testing.T) {
	servers.Long(t)
	base := servers.PostgresOf(t, servers.PostgresVersions[len(servers.PostgresVersions)-1], append([]string{"max_notify_queue_pages=64"}, quiet...)...).URL
	s := fresh(t, base)
	asleep, talks := admin(t, base), admin(t, base)
	for _, text := range []string{"LISTEN other", "BEGIN", "SELECT 1"} {
		run(t, asleep, text)
	}
	names := []string{"alone", "in a batch", "in a batch, too"}
	var leases []store.Release
	for _, name := range names {
		lease := take(t, s, name, "a", time.Hour)
		lease.Mark, lease.Retain = 7, store.Forever
		leases = append(leases, lease)
	}
	ctx, cancel := context.WithCancel(background)
	gone := make(chan struct{})
	go func() {
		_, _, _ = s.Queue(ctx, claim(names[0], "b", time.Hour))
		close(gone)
	}()
	places(t, s, names[0], "b")
	if _, err := s.Watch(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	for full := (*pgconn.PgError)(nil); full == nil; {
		if _, err := talks.Exec(background, "SELECT pg_notify('other', $1)", strings.Repeat("x", 7000)); err != nil && !errors.As(err, &full) {
			t.Fatal(err)
		}
	}
	release(t, s, leases[0])
	errs, err := s.Release(background, leases[1:])
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Error(err)
	}
	for _, name := range names {
		if r := recordOf(t, s, name); !r.Free() || r.Mark != 7 {
			t.Errorf("%+v; want it free, and the mark", r)
		}
	}
	cancel()
	<-gone
	if left, err := s.Leave(background, names[0], "b"); err != nil || !left {
		t.Errorf("b leaves the line: %t, %v", left, err)
	}
	for _, name := range names {
		take(t, s, name, "c", time.Minute)
	}
}
