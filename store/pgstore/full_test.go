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
	base := small(t)
	s := fresh(t, base)
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
	fillQueue(t, base)
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

// While the queue of notifications is full, Java's unlock and a release of its lock by force succeed, although somebody waits: they notify nobody.
func TestShedLocksUnlockWhileTheQueueOfNotificationsIsFull(t *testing.T) {
	base := small(t)
	s, java := sharedAt(t, base)
	for _, name := range []string{"report", "forced"} {
		java.lock(name, time.Hour)
	}
	if _, err := s.Watch(t.Context(), []string{"lock/report", "lock/forced"}); err != nil {
		t.Fatal(err)
	}
	fillQueue(t, base)
	if !java.unlock("report", 0) {
		t.Error("Java's unlock changes nothing")
	}
	r := heldBy(t, s, "lock/forced", "a")
	release(t, s, store.Release{Name: "lock/forced", Holder: r.Holder, Token: r.Token})
	for _, name := range []string{"lock/report", "lock/forced"} {
		take(t, s, name, "a", time.Minute)
	}
}

// small returns the URL of a server with the smallest queue of notifications. It is of the newest version, for older ones have one of 8 GB.
func small(t *testing.T) string {
	servers.Long(t)
	return servers.PostgresOf(t, servers.PostgresVersions[len(servers.PostgresVersions)-1], append([]string{"max_notify_queue_pages=64"}, quiet...)...).URL
}

// fillQueue fills the queue of notifications of a server, and keeps it full until the test ends.
func fillQueue(t *testing.T, base string) {
	t.Helper()
	asleep, talks := admin(t, base), admin(t, base)
	for _, text := range []string{"LISTEN other", "BEGIN", "SELECT 1"} {
		run(t, asleep, text)
	}
	for full := (*pgconn.PgError)(nil); full == nil; {
		if _, err := talks.Exec(background, "SELECT pg_notify('other', $1)", strings.Repeat("x", 7000)); err != nil && !errors.As(err, &full) {
			t.Fatal(err)
		}
	}
}
