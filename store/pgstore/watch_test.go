package pgstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A release notifies only those who listen for the name's group, and Go and SQL agree on what that is.
func TestReleasesNotifyOnlyListeners(t *testing.T) {
	s := fresh(t, server(t).URL)
	c := admin(t, server(t).URL)
	oid := one[int64](t, c, "SELECT $1::text::regclass::oid::bigint", s.tables.records)
	run(t, c, fmt.Sprintf("LISTEN soloist_%d", oid)) // without the lock that says so
	key := secret(one[[]byte](t, c, "SELECT secret FROM "+s.tables.meta))
	notified := func(within time.Duration) (of int64) { // what stands for the name
		ctx, cancel := context.WithTimeout(background, within)
		defer cancel()
		if n, err := c.WaitForNotification(ctx); err == nil {
			w, ok := key.open(n.Payload)
			if !ok {
				t.Errorf("notified %q", n.Payload)
			}
			of = w[0]
		}
		return of
	}
	var names []string
	taken := map[int]bool{}
	for _, name := range []string{"a", "lock/日本語", "name 3", "other"} { // each in a group of its own, which the secret decides
		for taken[key.group(name)] {
			name += "'"
		}
		taken[key.group(name)] = true
		names = append(names, name)
	}
	other := names[3]
	for _, name := range names[:3] {
		release(t, s, take(t, s, name, "x", time.Minute))
		if got := notified(100 * time.Millisecond); got != 0 {
			t.Errorf("%q: notified of %d where nobody listens", name, got)
		}
		w, err := s.Watch(background, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		drain(w)
		release(t, s, take(t, s, name, "x", time.Minute))
		if got := notified(servers.Patience); got != standsFor(name) {
			t.Errorf("%q: notified of %d", name, got)
		}
		<-w
		allNil(t, nil, func() error { // in a batch too
			errs, err := s.Release(background, []store.Release{take(t, s, name, "x", time.Minute), take(t, s, other, "x", time.Minute)})
			return errors.Join(errors.Join(errs...), err)
		}())
		if got := notified(servers.Patience); got != standsFor(name) {
			t.Errorf("%q in a batch: notified of %d", name, got)
		}
		<-w
	}
}

// A caller that begins to listen waits for a release that has seen nobody and has not been committed, so that it is not missed.
func TestListeningWaitsForReleasesUnderWay(t *testing.T) {
	s := fresh(t, server(t).URL)
	other := reopen(t, s)
	lease := take(t, s, "name", "x", time.Minute)
	tx, err := other.pool.Begin(background)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(background)
	statement, args := other.releaseSQL([]store.Release{lease}, false)
	run(t, tx, statement, args...)
	watching := make(chan (<-chan struct{}), 1)
	go func() {
		w, err := s.Watch(background, []string{"name"})
		if err != nil {
			t.Error(err)
		}
		watching <- w
	}()
	select {
	case <-watching:
		t.Error("the watch is there while a release is under way that will tell nobody")
	case <-time.After(100 * time.Millisecond):
	}
	if err := tx.Commit(background); err != nil {
		t.Fatal(err)
	}
	<-watching
	take(t, s, "name", "y", time.Minute) // looking once more finds it free
}

// A handle listens on one connection, whatever the number of watches, and gives it back a while after the last.
func TestOneConnectionListens(t *testing.T) {
	base := with(server(t).URL, "application_name", t.Name())
	owner := fresh(t, server(t).URL)
	s := open(t, base, "schema", owner.tables.schema)
	s.hub.idle = 200 * time.Millisecond
	db := admin(t, server(t).URL)
	connections := func() int {
		return one[int](t, db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", t.Name())
	}
	ctx, cancel := context.WithCancel(background)
	for i := range 50 {
		if _, err := s.Watch(ctx, []string{fmt.Sprint("name ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	cancel()
	eventually(t, "the connection is given back", func() bool { return connections() == 0 })
	ctx, cancel = context.WithCancel(background)
	defer cancel()
	w, err := s.Watch(ctx, []string{"again"})
	if err != nil {
		t.Fatal(err)
	}
	drain(w)
	release(t, owner, take(t, owner, "again", "x", time.Minute))
	<-w
}

// A watch that begins when the listener has found that nothing is watched, and has not ended yet, gets another listener.
func TestWatchWhileTheListenerEnds(t *testing.T) {
	s := fresh(t, server(t).URL)
	s.hub.idle = time.Hour
	ctx, cancel := context.WithCancel(background)
	if _, err := s.Watch(ctx, []string{"name"}); err != nil {
		t.Fatal(err)
	}
	cancel()
	eventually(t, "the watch ends", func() bool { return len(s.hub.watched()) == 0 })
	before := s.hub.listen
	before.mu.Lock()
	clear(before.wants)
	before.mu.Unlock()
	if !before.rests() {
		t.Fatal("the listener does not rest")
	}
	w, err := s.Watch(background, []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	if s.hub.listen == before {
		t.Error("the watch relies on a listener that ends")
	}
	drain(w)
	release(t, s, take(t, s, "name", "x", time.Minute))
	if _, ok := <-w; !ok {
		t.Error("the watch is lost")
	}
}

// TestWatchOfAListenerThatHasEnded: a watch that comes when its listener has just found that it cannot listen is told so, and not that the store is closed.
func TestWatchOfAListenerThatHasEnded(t *testing.T) {
	s := fresh(t, server(t).URL)
	for _, want := range []error{errCannotListen, store.ErrClosed} {
		l := newListener(&s.hub)
		l.finish(want)
		ended, cancel := context.WithCancel(background)
		cancel()
		if err := l.listenFor(ended, []string{"name"}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// A watch begun while the server is down says so; the client then asks by itself.
func TestWatchWithoutAServer(t *testing.T) {
	srv := servers.Postgres(t, quiet...)
	s := fresh(t, srv.URL)
	srv.Kill()
	ctx, cancel := context.WithTimeout(background, 5*time.Second)
	defer cancel()
	_, err := s.Watch(ctx, []string{"name"})
	says(t, err)
	srv.Start()
	eventually(t, "it watches again", func() bool { _, err := s.Watch(background, []string{"name"}); return err == nil })
}

// Where somebody has given the store another secret, the listener takes it up: it would understand no notification any more.
func TestListenerTakesUpAnotherSecret(t *testing.T) {
	s := fresh(t, server(t).URL)
	s.hub.idle = 20 * time.Millisecond
	other := reopen(t, s)
	w, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s.pool, "UPDATE "+s.tables.meta+" SET secret = sha256(secret)")
	patience := 10 * time.Millisecond
	eventually(t, "it wakes by what the new secret has sealed", func() bool {
		patience *= 2 // a busy machine may take long
		select {
		case <-w: // everybody is woken when the listener connects again
		default:
		}
		release(t, other, take(t, other, "name", "a", time.Minute))
		select {
		case <-w:
			return true
		case <-time.After(patience):
			return false
		}
	})
}

// A pool that passes notifications to a handler of the caller's does not keep them from the watches.
func TestWatchOfAPoolWithAHandlerOfNotifications(t *testing.T) {
	owner := fresh(t, server(t).URL)
	cfg := owner.pool.Config()
	cfg.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	s, err := Open(background, cfg, owner.tables.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	drain(w)
	release(t, owner, take(t, owner, "name", "a", time.Minute))
	select {
	case <-w:
	case <-time.After(servers.Patience):
		t.Errorf("nobody is woken within %v", servers.Patience)
	}
}

// watchedInSilence watches a name over connections on which nothing comes any more, and releases it then.
func watchedInSilence(t *testing.T, set func(*hub), options ...string) (owner *Store, w <-chan struct{}) {
	t.Helper()
	owner = fresh(t, server(t).URL)
	p := newProxy(t, server(t).Addr)
	s := open(t, p.url(server(t).URL), append([]string{"schema", owner.tables.schema}, options...)...)
	set(&s.hub)
	lease := take(t, owner, "name", "a", time.Hour)
	w, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	drain(w)
	p.deafen()
	release(t, owner, lease)
	return owner, w
}

// Who polls does not wait without end on a connection on which nothing comes any more, such as one to a server that is gone without a word: it looks again
// on another one, and finds the name free.
func TestPollingGoesOnAfterASilentConnection(t *testing.T) {
	_, w := watchedInSilence(t, func(h *hub) { h.patience = 500 * time.Millisecond }, "listen", "off")
	select {
	case <-w:
	case <-time.After(servers.Patience):
		t.Errorf("nobody is woken within %v", servers.Patience)
	}
}

// Who polls looks soon after a watch began, and watches that begin one after the other do not put that off.
func TestWatchesPutNoLookOff(t *testing.T) {
	for _, every := range []time.Duration{pollFirst / 4, pollFirst, pollLast / 2, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var h hub
			h.init(&Store{ctx: t.Context()})
			over := make(chan struct{})
			go func() {
				for range 1000 { // watches
					select {
					case <-time.After(every):
					case <-over:
						return
					}
					h.hurry <- struct{}{}
				}
			}()
			began := time.Now()
			interval := h.due(pollLast)
			close(over)
			if took, want := time.Since(began), min(every+pollFirst, pollLast); took != want {
				t.Errorf("with a watch every %v the first look is after %v; want %v", every, took, want)
			}
			if want := map[bool]time.Duration{true: pollFirst, false: pollLast}[every < pollLast]; interval != want {
				t.Errorf("with a watch every %v it has waited as for %v; want %v", every, interval, want)
			}
		})
	}
}

// A watch is notified for as long as it lasts: its listener keeps the lock of the name's group, takes it again on another connection, and takes that of a table
// that was made anew, or has another secret. Without it a release notifies nobody.
func TestListenerKeepsItsLocks(t *testing.T) {
	s := fresh(t, server(t).URL)
	s.hub.idle = 20 * time.Millisecond
	w, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	db := admin(t, server(t).URL)
	holders := func() int {
		return one[int](t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted AND objsubid = 1
			AND (classid::bigint << 32 | objid::bigint) = $1`, groupKey(t, s, "name"))
	}
	listeners := func() []int {
		pids := one[[]int](t, db, "SELECT coalesce(array_agg(pid), '{}') FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint << 32 | objid::bigint = $1", s.hub.listen.inbox.Load())
		if len(pids) == 0 {
			t.Fatal("the listener has no connection")
		}
		return pids
	}
	again := func(what string, before []int) { // waits until the listener has connected again, which wakes everybody, and the connection before has gone with its locks
		t.Helper()
		select {
		case <-w:
		case <-time.After(servers.Patience):
			t.Fatalf("%s: it does not connect again", what)
		}
		eventually(t, "the connection before is gone", func() bool {
			return one[int](t, db, "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1)", before) == 0
		})
	}
	drain(w)
	l := s.hub.listen
	wanted := func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.wants["name"]
	}
	first := wanted()
	eventually(t, "it looks what is watched", func() bool { return wanted().IsZero() || wanted().After(first.Add(2*s.hub.idle)) })
	if n := holders(); n != 1 {
		t.Errorf("after a while %d sessions hold the lock of the name's group", n)
	}
	before := listeners()
	disconnect(t, db, s)
	again("a connection that was lost", before)
	if n := holders(); n != 1 {
		t.Errorf("on another connection %d sessions hold the lock of the name's group", n)
	}
	before = listeners()
	anew := s.tables.schema + ".anew"
	run(t, db, "CREATE TABLE "+anew+" (LIKE "+s.tables.records+" INCLUDING ALL)")
	run(t, db, "DROP TABLE "+s.tables.records)
	run(t, db, "ALTER TABLE "+anew+" RENAME TO soloist")
	again("a table that was made anew", before)
	if n := holders(); n != 1 {
		t.Errorf("for the table that was made anew %d sessions hold the lock of the name's group", n)
	}
	before = listeners()
	run(t, db, "UPDATE "+s.tables.meta+" SET secret = sha256(secret)") // notifications are sealed with the new one
	again("a secret that was replaced", before)
	if n := holders(); n != 1 {
		t.Errorf("with the secret that was replaced %d sessions hold the lock of the name's group", n)
	}
}

// A group of names whose lock was given back, because nobody watched them any more, is one to be taken again: without its lock a release notifies nobody.
func TestGroupIsTakenAgain(t *testing.T) {
	s := fresh(t, server(t).URL)
	s.hub.idle = 20 * time.Millisecond
	watch := func(ctx context.Context, name string) <-chan struct{} {
		t.Helper()
		w, err := s.Watch(ctx, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	other, key := "other", groupKey(t, s, "name")
	for groupKey(t, s, other) == key {
		other += "+"
	}
	watch(t.Context(), other) // keeps the listener
	first := s.hub.listen
	over, end := context.WithCancel(t.Context())
	watch(over, "name")
	end()
	db := admin(t, server(t).URL)
	eventually(t, "the lock is given back", func() bool {
		return one[int](t, db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint << 32 | objid::bigint = $1", key) == 0
	})
	lease := take(t, s, "name", "a", time.Hour)
	w := watch(t.Context(), "name")
	drain(w)
	if s.hub.listen != first {
		t.Error("another listener has begun")
	}
	release(t, s, lease)
	select {
	case <-w:
	case <-time.After(servers.Patience):
		t.Errorf("nobody is woken within %v", servers.Patience)
	}
}

// groupKey is the key of the advisory lock of a name's group.
func groupKey(t testing.TB, s *Store, name string) int64 {
	t.Helper()
	oid := one[int64](t, s.pool, "SELECT $1::text::regclass::oid::bigint", s.tables.records)
	return groupBase + oid*256 + int64(secret(one[[]byte](t, s.pool, "SELECT secret FROM "+s.tables.meta)).group(name))
}

// A group of names that somebody has taken is tried again: without its lock the names are polled.
func TestTakenGroupIsTriedAgain(t *testing.T) {
	s := fresh(t, server(t).URL)
	s.hub.idle = 20 * time.Millisecond
	intruder := admin(t, server(t).URL)
	run(t, intruder, "SELECT pg_advisory_lock($1::bigint)", groupKey(t, s, "name"))
	taken := func() bool {
		if _, err := s.Watch(t.Context(), []string{"name"}); err != nil {
			t.Fatal(err)
		}
		s.hub.mu.Lock()
		l := s.hub.listen
		s.hub.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.held([]string{"name"})
	}
	if !taken() {
		t.Fatal("the lock that somebody has taken is held")
	}
	run(t, intruder, "SELECT pg_advisory_unlock($1::bigint)", groupKey(t, s, "name"))
	eventually(t, "the lock is taken when it is free", func() bool { return !taken() })
}

// A watch of a name that begins when the name has been released, and nobody has looked since, does not hide that from one that began before.
func TestAnotherWatchHidesNoRelease(t *testing.T) {
	owner := fresh(t, server(t).URL)
	s := open(t, server(t).URL, "schema", owner.tables.schema, "listen", "off")
	s.hub.polling = true // nobody looks
	lease := take(t, owner, "name", "a", time.Hour)
	w, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	release(t, owner, lease)
	if _, err := s.Watch(t.Context(), []string{"name"}); err != nil {
		t.Fatal(err)
	}
	wakes(t, s, w)
}

// Who polls learns of a release also where the record has been forgotten before anybody looked.
func TestPollingNoticesAForgottenName(t *testing.T) {
	owner := fresh(t, server(t).URL)
	s := open(t, server(t).URL, "schema", owner.tables.schema, "listen", "off")
	s.hub.polling = true // nobody looks
	lease := take(t, owner, "name", "a", time.Hour)
	w, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	lease.Retain = 0
	release(t, owner, lease)
	eventually(t, "the name is forgotten", func() bool {
		n, err := owner.Sweep(background, 1)
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	wakes(t, s, w)
}

// wakes looks once, as who polls does, and fails unless that wakes a watch of "name".
func wakes(t *testing.T, s *Store, w <-chan struct{}) {
	t.Helper()
	seen, err := s.hub.look(background, []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	s.hub.compare(seen)
	select {
	case <-w:
	default:
		t.Error("nobody is woken")
	}
}

// disconnect ends the session that listens for a handle.
func disconnect(t testing.TB, db *pgx.Conn, s *Store) {
	t.Helper()
	run(t, db, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint << 32 | objid::bigint = $1", s.hub.listen.inbox.Load())
}

// told waits until a watch is woken, and reports whether it has been closed.
func told(t testing.TB, w <-chan struct{}, what string) (closed bool) {
	t.Helper()
	select {
	case _, open := <-w:
		return !open
	case <-time.After(servers.Patience):
		t.Fatalf("%s: nobody is told within %v", what, servers.Patience)
		return false
	}
}

// A watch whose group of names the listener cannot take again, after it has lost its connection, is closed: releases do not notify it, and nobody polls for it.
func TestWatchOfAGroupThatIsNotTakenAgain(t *testing.T) {
	s := fresh(t, server(t).URL)
	other := reopen(t, s)
	lease := take(t, other, "name", "a", time.Hour)
	w, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	drain(w)
	db, committing := admin(t, server(t).URL), admin(t, server(t).URL)
	key := groupKey(t, s, "name")
	run(t, committing, "BEGIN")
	locked := make(chan error, 1)
	go func() { // a release of another name of the group that finds nobody listening, and whose commit takes long
		_, err := committing.Exec(background, "SELECT pg_advisory_xact_lock($1::bigint)", key)
		locked <- err
	}()
	eventually(t, "it waits for the listener", func() bool {
		return one[int](t, db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid::bigint << 32 | objid::bigint = $1", key) == 1
	})
	disconnect(t, db, s)
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	closed := told(t, w, "the listener has connected again")
	if !closed {
		closed = told(t, w, "the group is not held")
	}
	if !closed {
		t.Fatal("it is woken twice, and not closed")
	}
	if w, err = s.Watch(t.Context(), []string{"name"}); err != nil {
		t.Fatal(err)
	}
	run(t, committing, "COMMIT")
	release(t, other, lease)
	if told(t, w, "a release") {
		t.Error("the watch that came after it is closed, too")
	}
}

// standby makes a schema whose server says that it is a standby once a test has said so.
const standby = `CREATE SCHEMA standby;
CREATE SEQUENCE standby.is;
CREATE FUNCTION standby.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT is_called FROM standby.is'`

// A watch is closed when its listener, which has lost its connection, gets one on which it cannot listen: nobody notifies the watch, and nobody polls for it.
func TestWatchOfAListenerThatCannotListenAnyMore(t *testing.T) {
	db := admin(t, server(t).URL)
	if _, err := db.Exec(background, standby); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run(t, db, "DROP SCHEMA standby CASCADE") })
	other := fresh(t, server(t).URL)
	s := open(t, server(t).URL, "schema", other.tables.schema, "search_path", "standby,pg_catalog")
	lease := take(t, other, "name", "a", time.Hour)
	w, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	drain(w)
	run(t, db, "SELECT nextval('standby.is')")
	disconnect(t, db, s)
	if !told(t, w, "the listener cannot listen") {
		t.Fatal("it is woken, and not closed")
	}
	if w, err = s.Watch(t.Context(), []string{"name"}); err != nil {
		t.Fatal(err)
	}
	release(t, other, lease)
	if told(t, w, "a release") {
		t.Error("the watch that came after it is closed, too")
	}
}

// The end of a lease wakes those who watch its name, each of them, and once: what somebody sends again who has read
// it wakes nobody, however many other names have been watched since.
func TestEndsThatAreSentAgainWakeNobody(t *testing.T) {
	var h hub
	h.init(&Store{})
	watch := func(ctx context.Context, name string) <-chan struct{} {
		t.Helper()
		w, err := h.add(ctx, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	ends := func(name string, token, at, last int64, watches ...<-chan struct{}) (woken int) {
		h.ended(words{standsFor(name), token, at, last})
		for _, w := range watches {
			select {
			case _, open := <-w:
				if !open {
					t.Errorf("a watch of %q is closed", name)
				}
				woken++
			default:
			}
		}
		return woken
	}
	first, second, other := watch(t.Context(), "name"), watch(t.Context(), "name"), watch(t.Context(), "other")
	over, end := context.WithCancel(t.Context())
	third := watch(over, "name")
	end()
	<-third // it is closed, and the others are not
	for i, c := range []struct {
		name            string
		token, at, last int64
		want            int
	}{
		{"name", 7, 0, 0, 2}, {"name", 7, 0, 0, 0}, {"name", 6, 0, 0, 0}, {"name", 6, 9, 0, 0},
		{"name", 8, 0, 1, 0}, // of a hand-over
		{"name", 8, 3, 0, 2}, {"name", 8, 3, 0, 0}, {"name", 8, 2, 0, 0}, {"name", 8, 4, 0, 2}, {"nobody's", 9, 0, 0, 0},
		{"other", 5, 0, 0, 1}, {"name", 9, 0, 0, 2},
	} {
		if woken := ends(c.name, c.token, c.at, c.last, first, second, other); woken != c.want {
			t.Errorf("%d: token %d at %d of %q: %d are woken, want %d", i, c.token, c.at, c.name, woken, c.want)
		}
	}
	for n := range 2 * overMost {
		name := fmt.Sprint("name ", n)
		passing, end := context.WithCancel(t.Context())
		w := watch(passing, name)
		if ends(name, 3, 0, 0, w) != 1 {
			t.Fatalf("the end of %q wakes nobody", name)
		}
		end()
		<-w
	}
	if len(h.over) > overMost+1 {
		t.Errorf("%d ends are remembered, want %d at most", len(h.over), overMost)
	}
	if ends("name", 9, 0, 0, first, second)+ends("other", 5, 0, 0, other) > 0 {
		t.Error("an end that was sent again wakes somebody when many others have been remembered since")
	}
	if ends("name", 10, 0, 0, first, second) != 2 {
		t.Error("the next end does not wake both")
	}
}

// A listener whose connection is there, and on which nothing comes any more, such as one to a server that has gone
// without a word, finds that out and listens on another one. Those who watch are woken, for what was missed is not
// known.
func TestListeningGoesOnAfterASilentConnection(t *testing.T) {
	t.Parallel() // it takes as long as the listener waits for an answer
	owner, w := watchedInSilence(t, func(h *hub) { h.idle = 20 * time.Millisecond })
	if told(t, w, "a release that nothing was heard of") {
		t.Error("the watch is closed, although the listener could take its lock again")
	}
	drain(w)
	release(t, owner, take(t, owner, "name", "b", time.Hour))
	told(t, w, "the next release")
}

// A server that ends idle sessions does not end the one that listens: those who wait would lose their places with it.
func TestListenerIsNotEndedForItsIdleness(t *testing.T) {
	db := admin(t, server(t).URL)
	if one[int](t, db, "SELECT current_setting('server_version_num')::int") < 140000 {
		t.Skip("this server ends no idle sessions")
	}
	owner := fresh(t, server(t).URL)
	const idle = "-cidle_session_timeout=200ms"
	s := open(t, server(t).URL, "schema", owner.tables.schema, "options", idle)
	s.hub.idle = time.Hour // or it says something now and then
	// A session that stands still between two statements before it has said that it may be idle is ended.
	eventually(t, "somebody listens", func() bool {
		_, err := s.Watch(t.Context(), []string{"name"})
		return err == nil
	})
	inbox := s.hub.listen.inbox.Load()
	pid := int(admin(t, with(server(t).URL, "options", idle)).PgConn().PID())
	eventually(t, "another session that came later is ended", func() bool {
		return one[int](t, db, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
	})
	if n := one[int](t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
		AND classid::bigint << 32 | objid::bigint = $1`, inbox); n != 1 {
		t.Errorf("%d sessions hold the lock of the listener's inbox; want the one that it began with", n)
	}
}
