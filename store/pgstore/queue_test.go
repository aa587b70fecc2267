package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
)

type queued struct {
	store.Outcome
	after time.Duration
}

// waits stands in a line until there is an answer.
func waits(s *Store, name, holder string) <-chan queued {
	answer := make(chan queued, 1)
	go func() {
		var q queued
		q.Grant, q.after, q.Err = s.Queue(background, claim(name, holder, time.Hour))
		answer <- q
	}()
	return answer
}

// inLine returns who stands in one.
func inLine(t testing.TB, s *Store, name string) []string {
	t.Helper()
	return one[[]string](t, s.pool, "SELECT coalesce(array_agg(holder ORDER BY since), '{}') FROM (SELECT holder, min(since) AS since FROM "+s.tables.line+
		" WHERE name = $1::text GROUP BY holder) AS l", name)
}

// places waits until the line is that of these holders.
func places(t testing.TB, s *Store, name string, holders ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q wait in the queue", holders), func() bool { return slices.Equal(inLine(t, s, name), holders) })
}

// heir waits for a grant.
func heir(t testing.TB, s *Store, answer <-chan queued, name, holder string) store.Release {
	t.Helper()
	for {
		select {
		case q := <-answer:
			if q.Err != nil && !errors.Is(q.Err, store.ErrHeld) {
				t.Fatalf("%s: %v", holder, q.Err)
			}
			if q.Err == nil {
				return store.Release{Name: name, Holder: holder, Token: q.Grant.Token}
			}
			answer = waits(s, name, holder) // it is to look again
		case <-time.After(servers.Patience):
			t.Fatalf("%s has waited for %v", holder, servers.Patience)
		}
	}
}

// Who waits finds the tables also where a function of the pool says for each connection in which schema they are.
func TestWaitingInASchemaThatThePoolSets(t *testing.T) {
	schema := newSchema()
	run(t, admin(t, server(t).URL), "CREATE SCHEMA "+schema)
	cfg, _, err := ParseURL(server(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SET search_path = "+schema)
		return err
	}
	s, err := Open(background, cfg, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	migrate(t, s)
	lease := take(t, s, "name", "a", time.Hour)
	b := waits(s, "name", "b")
	eventually(t, "the other one waits", func() bool {
		select {
		case q := <-b:
			t.Fatalf("who was to wait was told: %v", q.Err)
		default:
		}
		return slices.Equal(inLine(t, s, "name"), []string{"b"})
	})
	release(t, s, lease)
	heir(t, s, b, "name", "b")
}

// A holder that asks again keeps its turn. Its place lasts for what it asked for last, and is that request's.
func TestPlaceIsRenewed(t *testing.T) {
	s := fresh(t, server(t).URL)
	take(t, s, "name", "a", time.Hour)
	ask := func(ttl time.Duration) int64 {
		_, asked, _, err := s.stand(background, claim("name", "b", ttl), 1)
		if !errors.Is(err, store.ErrHeld) {
			t.Fatal(err)
		}
		return asked
	}
	of := func(value string) int64 {
		return one[int64](t, s.pool, "SELECT "+value+" FROM "+s.tables.line+" WHERE name = 'name' AND holder = 'b'")
	}
	const until = "(extract(epoch FROM max(until)) * 1000000)::bigint"
	first, ends := ask(time.Minute), of(until)
	last := ask(time.Hour)
	if of("min(since)") != first || of("max(since)") != first || of("max(asked)") != last {
		t.Errorf("came at %d, and at %d by the last request, and asked last at %d; want %d, the same and %d", of("min(since)"), of("max(since)"), of("max(asked)"), first, last)
	}
	if more := of(until) - ends; more < (58 * time.Minute).Microseconds() {
		t.Errorf("the place lasts for %d µs more", more)
	}
}

// A hand-over ends every request of its heir, who would be handed the name once more when it has released it.
func TestAHandOverEndsEachRequestOfTheHeir(t *testing.T) {
	s := fresh(t, server(t).URL)
	for _, others := range []int{0, 1} { // released in the same batch
		name := fmt.Sprint("name ", others)
		leases := []store.Release{take(t, s, name, "a", time.Hour)}
		for range others {
			leases = append(leases, take(t, s, "other", "a", time.Hour))
		}
		ctx, cancel := context.WithCancel(background)
		gaveUp := make(chan error, 1)
		go func() {
			_, _, err := s.Queue(ctx, claim(name, "b", time.Hour))
			gaveUp <- err
		}()
		places(t, s, name, "b")
		cancel()
		if err := <-gaveUp; !errors.Is(err, store.ErrHeld) && !errors.Is(err, store.ErrUnknown) { // the place is seen a moment before its answer comes
			t.Fatal(err)
		}
		b := waits(s, name, "b")
		eventually(t, "the holder has asked twice", func() bool {
			return one[int](t, s.pool, "SELECT count(*) FROM "+s.tables.line+" WHERE name = $1::text AND holder = 'b'", name) == 2
		})
		errs, err := s.Release(background, leases)
		allNil(t, errs, err)
		lease := heir(t, s, b, name, "b")
		if left := inLine(t, s, name); len(left) > 0 {
			t.Errorf("%d others: %q are in the line, and one of them has the name", others, left)
		}
		release(t, s, lease)
		take(t, s, name, "c", time.Minute)
	}
}

// TestLeavingDuringAHandOver: who has asked again while the name is being handed over to it, and leaves, is told that it may have the name.
func TestLeavingDuringAHandOver(t *testing.T) {
	s := fresh(t, server(t).URL)
	other := reopen(t, s)
	ask := func(requests int) {
		ctx, cancel := context.WithCancel(background)
		gaveUp := make(chan error, 1)
		go func() {
			_, _, err := s.Queue(ctx, claim("name", "b", time.Hour))
			gaveUp <- err
		}()
		eventually(t, "it has asked", func() bool {
			return one[int](t, s.pool, "SELECT count(*) FROM "+s.tables.line+" WHERE name = 'name' AND holder = 'b'") == requests
		})
		cancel()
		if err := <-gaveUp; !errors.Is(err, store.ErrHeld) && !errors.Is(err, store.ErrUnknown) { // the place is seen a moment before its answer comes
			t.Fatal(err)
		}
	}
	lease := take(t, s, "name", "a", time.Hour)
	ask(1)
	tx, err := other.pool.Begin(background)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(background)
	statement, args := other.releaseSQL([]store.Release{lease}, false)
	run(t, tx, statement, args...)
	ask(2)
	type answer struct {
		left bool
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		left, err := s.Leave(background, "name", "b")
		answers <- answer{left, err}
	}()
	eventually(t, "the place waits for the hand-over", func() bool {
		return one[int](t, s.pool, "SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))", int(tx.Conn().PgConn().PID())) == 1
	})
	if err := tx.Commit(background); err != nil {
		t.Fatal(err)
	}
	got := <-answers
	if holder := recordOf(t, s, "name").Holder; holder != "b" || got.left || got.err != nil {
		t.Errorf("left %t, %v, and the name is %q's; want that b has it, and that nothing says that it has not", got.left, got.err, holder)
	}
	if left := inLine(t, s, "name"); len(left) > 0 {
		t.Errorf("%q are in the line", left)
	}
}

// A process that is gone is passed by, though its place is there.
func TestTheDeadArePassedBy(t *testing.T) {
	s := fresh(t, server(t).URL)
	dead, alive := reopen(t, s), reopen(t, s)
	lease := take(t, s, "name", "a", time.Minute)
	waits(dead, "name", "b")
	places(t, s, "name", "b")
	c := waits(alive, "name", "c")
	places(t, s, "name", "b", "c")
	dead.hub.mu.Lock()
	gone := dead.hub.listen.inbox.Load()
	dead.hub.mu.Unlock()
	dead.Close()
	eventually(t, "the server has noticed", func() bool {
		return one[int](t, s.pool, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = $1::bigint", gone) == 0
	})
	release(t, s, lease)
	release(t, s, heir(t, alive, c, "name", "c"))
	if left := inLine(t, s, "name"); !slices.Equal(left, []string{"b"}) {
		t.Errorf("in line: %q", left)
	}
	run(t, s.pool, "UPDATE "+s.tables.line+" SET until = now() - interval '1 second'")
	if _, err := s.Sweep(background, 10); err != nil {
		t.Fatal(err)
	}
	if left := inLine(t, s, "name"); len(left) > 0 {
		t.Errorf("in line after a sweep: %q", left)
	}
}

// Names that are released together are handed over as one alone is: the dead are passed by, and who comes after the heir keeps its place.
func TestABatchIsHandedOverToTheLiving(t *testing.T) {
	s := fresh(t, server(t).URL)
	dead, alive := reopen(t, s), reopen(t, s)
	names := []string{"one", "two"}
	leases := []store.Release{take(t, s, "one", "a", time.Hour), take(t, s, "two", "a", time.Hour)}
	heirs := make([]<-chan queued, len(names))
	for i, name := range names {
		waits(dead, name, "b")
		places(t, s, name, "b")
		heirs[i] = waits(alive, name, "c")
		places(t, s, name, "b", "c")
		waits(alive, name, "d")
		places(t, s, name, "b", "c", "d")
	}
	dead.hub.mu.Lock()
	gone := dead.hub.listen.inbox.Load()
	dead.hub.mu.Unlock()
	dead.Close()
	eventually(t, "the server has noticed", func() bool {
		return one[int](t, s.pool, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = $1::bigint", gone) == 0
	})
	older := func(name string) {
		run(t, s.pool, "UPDATE "+s.tables.records+" SET locked_at = locked_at - interval '1 hour' WHERE name = $1", name)
	}
	older("one") // the lease before, whose age is not that of the next one
	older("two")
	errs, err := s.Release(background, leases)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if r := recordOf(t, s, name); r.Holder != "c" || r.Age >= time.Hour {
			t.Fatalf("%q is handed over to %q, %v ago; want c, just now", name, r.Holder, r.Age)
		}
		lease := heir(t, alive, heirs[i], name, "c")
		if left := inLine(t, s, name); !slices.Equal(left, []string{"b", "d"}) {
			t.Errorf("in line for %q: %q; want b and d", name, left)
		}
		older(name)
		release(t, s, lease)
		if r := recordOf(t, s, name); r.Holder != "d" || r.Age >= time.Hour {
			t.Errorf("%q is handed over to %q, %v ago; want d, just now", name, r.Holder, r.Age)
		}
	}
}

// A name that is to linger is handed over to nobody before that is over, in a batch of releases as alone; who waits for it keeps its place.
func TestLingeringNamesAreNotHandedOver(t *testing.T) {
	s := fresh(t, server(t).URL)
	waiter := reopen(t, s)
	var leases []store.Release
	for _, name := range []string{"one", "two", "three"} {
		lease := take(t, s, name, "a", time.Hour)
		lease.Linger = time.Hour
		leases = append(leases, lease)
		waits(waiter, name, "b")
		places(t, s, name, "b")
	}
	release(t, s, leases[0])
	errs, err := s.Release(background, leases[1:])
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases {
		if r := recordOf(t, s, lease.Name); r.Holder != "" || r.Token != lease.Token || r.Left <= 0 {
			t.Errorf("%q lingers, and its record is %+v", lease.Name, r)
		}
		if left := inLine(t, s, lease.Name); !slices.Contains(left, "b") {
			t.Errorf("in line for %q: %q; want b", lease.Name, left)
		}
	}
}

// Who has the name without having been handed it over has no place in its line any more when that is found out: a release would hand over to nobody.
func TestPlaceOfTheHolderEnds(t *testing.T) {
	s := fresh(t, server(t).URL)
	take(t, s, "name", "a", time.Hour)
	const inbox = 1
	if _, _, _, err := s.stand(background, claim("name", "b", time.Hour), inbox); !errors.Is(err, store.ErrHeld) {
		t.Fatal(err)
	}
	run(t, s.pool, "UPDATE "+s.tables.records+" SET lock_until = locked_at")
	b := take(t, s, "name", "b", time.Hour)
	if g, _, _, err := s.stand(background, claim("name", "b", time.Hour), inbox); err != nil || g.Token != b.Token {
		t.Errorf("%+v, %v; want the lease that the holder has, with token %d", g, err, b.Token)
	}
	if left := inLine(t, s, "name"); len(left) > 0 {
		t.Errorf("in line for a name that is its own: %q", left)
	}
}

// Who waits, and finds the name free or forgotten, has no place in the line any more: its own release would hand the
// name over to it again, when nobody waits there.
func TestPlaceEndsWithAGrant(t *testing.T) {
	s := fresh(t, server(t).URL)
	if _, err := s.Watch(t.Context(), []string{"free", "forgotten"}); err != nil { // so that releases look at the line
		t.Fatal(err)
	}
	s.hub.mu.Lock()
	inbox := s.hub.listen.inbox.Load()
	s.hub.mu.Unlock()
	for name, change := range map[string]string{"free": "UPDATE %s SET lock_until = locked_at WHERE name = $1",
		"forgotten": "DELETE FROM %s WHERE name = $1"} {
		before := take(t, s, name, "a", time.Hour)
		for _, holder := range []string{"b", "c"} {
			if _, _, _, err := s.stand(background, claim(name, holder, time.Hour), inbox); !errors.Is(err, store.ErrHeld) {
				t.Fatal(err)
			}
		}
		run(t, s.pool, fmt.Sprintf(change, s.tables.records), name)
		grant, _, _, err := s.stand(background, claim(name, "b", time.Hour), inbox)
		if err != nil || grant.Token <= before.Token || (grant.ExpiredAge > 0) != (name == "free") {
			t.Fatalf("%s: %+v, %v", name, grant, err)
		}
		if left := inLine(t, s, name); !slices.Equal(left, []string{"c"}) {
			t.Errorf("%s: %q are in the line, and b has the name; want c", name, left)
		}
		release(t, s, store.Release{Name: name, Holder: "b", Token: grant.Token})
		if r := recordOf(t, s, name); r.Holder != "c" {
			t.Errorf("%s: handed over to %q; want c", name, r.Holder)
		}
	}
}

// Whose place is over is passed by although its process lives, in a batch of releases as alone: nobody there waits any more.
func TestWhosePlaceIsOverIsPassedBy(t *testing.T) {
	s := fresh(t, server(t).URL)
	alive := reopen(t, s)
	other := take(t, s, "other", "a", time.Hour)
	listens := waits(alive, "other", "c")
	places(t, s, "other", "c")
	alive.hub.mu.Lock()
	inbox := alive.hub.listen.inbox.Load()
	alive.hub.mu.Unlock()
	leases := []store.Release{take(t, s, "one", "a", time.Hour), take(t, s, "two", "a", time.Hour), take(t, s, "three", "a", time.Hour)}
	if _, err := alive.Watch(t.Context(), []string{"one", "two", "three"}); err != nil { // so that their releases look at the line
		t.Fatal(err)
	}
	for _, l := range leases {
		if _, _, _, err := alive.stand(background, claim(l.Name, "b", time.Hour), inbox); !errors.Is(err, store.ErrHeld) {
			t.Fatal(err)
		}
	}
	run(t, s.pool, "UPDATE "+s.tables.line+" SET until = now() - interval '1 second' WHERE holder = 'b'")
	release(t, s, leases[0])
	errs, err := s.Release(background, leases[1:])
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		release(t, s, take(t, s, l.Name, "d", time.Minute))
	}
	release(t, s, other)
	release(t, s, heir(t, alive, listens, "other", "c"))
}

// A process whose connection is lost while it waits asks again on the next one, at the place that it had.
func TestWaitingGoesOnAfterALostConnection(t *testing.T) {
	s := fresh(t, server(t).URL)
	waiter := reopen(t, s)
	lease := take(t, s, "name", "a", time.Minute)
	b := waits(waiter, "name", "b")
	places(t, s, "name", "b")
	inbox := func() int64 {
		return one[int64](t, s.pool, "SELECT inbox FROM "+s.tables.line+" ORDER BY asked DESC LIMIT 1")
	}
	first := inbox()
	run(t, s.pool, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = $1::bigint", first)
	if q := <-b; !errors.Is(q.Err, store.ErrHeld) {
		t.Fatalf("%+v; want to be told to look again", q)
	}
	b = waits(waiter, "name", "b")
	eventually(t, "it waits in the queue with another inbox", func() bool { return inbox() != first })
	release(t, s, lease)
	release(t, s, heir(t, waiter, b, "name", "b"))
}

// News of an earlier request may have been sent again by somebody who has read them: they are believed if the record confirms them.
func TestNewsOfAnEarlierRequest(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Minute)
	b := waits(s, "name", "b")
	places(t, s, "name", "b")
	s.hub.lines.heard(words{1, 77, 2, int64(heirOf("name", "b"))<<8 | 1})
	if q := <-b; !errors.Is(q.Err, store.ErrHeld) {
		t.Fatalf("told of a token that nobody was granted: %+v; want to be told to look again", q)
	}
	release(t, s, lease) // hands over to the place, whose holder asks again too late to have been granted it for that
	token := recordOf(t, s, "name").Token
	run(t, s.pool, "INSERT INTO "+s.tables.line+" (name, holder, asked, since, ttl, inbox, told, until) SELECT 'name', 'b', 2, 1, 1, 1, now(), now() + interval '1 hour'")
	grant, err := s.inherit(background, claim("name", "b", time.Hour), 2, news{asked: 1, token: token})
	if err != nil || grant.Token != token {
		t.Errorf("told of its grant: %+v, %v; want token %d", grant, err, token)
	}
	if left := inLine(t, s, "name"); len(left) > 0 {
		t.Errorf("in line behind its own lease: %q", left)
	}
}

// A lease that was granted to an earlier request of a holder is counted from its instant, and not from as long after the request that is told of it.
func TestNewsOfAnEarlierRequestTellWhenTheLeaseBegan(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Hour)
	b := waits(s, "name", "b")
	places(t, s, "name", "b")
	asked := one[int64](t, s.pool, "SELECT max(asked) FROM "+s.tables.line)
	run(t, s.pool, "UPDATE "+s.tables.records+" SET holder = 'b', locked_by = 'b', token = token + 1")
	earlier, granted := asked-(5*time.Second).Microseconds(), asked-time.Second.Microseconds()
	s.hub.lines.heard(words{earlier, lease.Token + 1, granted, int64(heirOf("name", "b"))<<8 | 1})
	if q := <-b; q.Err != nil || q.Grant.Token != lease.Token+1 || q.after != -time.Second {
		t.Errorf("%+v; want token %d, of a lease that began a second before the request", q, lease.Token+1)
	}
}

// A lease that its holder has already began with the request at the latest, also where the server's clock was set back since.
func TestLeaseThatIsHeldAlreadyBeganBeforeTheRequest(t *testing.T) {
	s := fresh(t, server(t).URL)
	for _, back := range []time.Duration{0, 30 * time.Minute} {
		name := fmt.Sprint("set back by ", back)
		lease := take(t, s, name, "a", time.Hour)
		lease.Token += back.Microseconds()
		run(t, s.pool, "UPDATE "+s.tables.records+" SET locked_at = locked_at + $1::interval, lock_until = lock_until + $1::interval, "+
			"token = $2 WHERE name = $3", back, lease.Token, name)
		grant, after, err := s.Queue(background, claim(name, "a", time.Hour))
		if err != nil || grant.Token != lease.Token || after > 0 {
			t.Errorf("%s: %+v, after %v, %v; want token %d, of a lease that did not begin later", name, grant, after, err, lease.Token)
		}
	}
}

// narrow opens another handle with one connection, beside the one that listens, which can be taken away from it.
func narrow(t testing.TB, s *Store) *Store {
	t.Helper()
	cfg := s.pool.Config()
	cfg.MaxConns, cfg.MinConns = 1, 0
	other, err := Open(background, cfg, s.tables.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return other
}

// handedWithAMark hands a name with a mark over to a waiter who cannot look at the record before resume is called.
func handedWithAMark(t testing.TB, s *Store, ttl time.Duration) (heir <-chan queued, resume func()) {
	t.Helper()
	other := narrow(t, s)
	lease := take(t, s, "name", "a", time.Hour)
	answer := make(chan queued, 1)
	go func() {
		var q queued
		q.Grant, q.after, q.Err = other.Queue(background, claim("name", "b", ttl))
		answer <- q
	}()
	places(t, s, "name", "b")
	only, err := other.pool.Acquire(background)
	if err != nil {
		t.Fatal(err)
	}
	lease.Mark = 7
	release(t, s, lease)
	return answer, only.Release
}

// A call of Queue is one claim: when the lease that it was handed has ended before it could be told of it, it takes no other one.
func TestAWaiterIsGrantedOneLease(t *testing.T) {
	s := fresh(t, server(t).URL)
	heir, resume := handedWithAMark(t, s, store.MinTTL)
	handed := recordOf(t, s, "name")
	eventually(t, "the lease is over", func() bool { return recordOf(t, s, "name").Free() })
	resume()
	if q := <-heir; !errors.Is(q.Err, store.ErrHeld) {
		t.Errorf("%+v; want to be told to look again", q)
	}
	if r := recordOf(t, s, "name"); handed.Holder != "b" || r.Token != handed.Token {
		t.Errorf("handed over: %+v; afterwards: %+v; want no other lease", handed, r)
	}
}

// What is handed over with a mark begins at its instant, however late its heir reads the record.
func TestAHandOverWithAMarkIsToldWhenItBegan(t *testing.T) {
	s := fresh(t, server(t).URL)
	heir, resume := handedWithAMark(t, s, time.Hour)
	resume()
	if q := <-heir; q.Err != nil || q.Grant.Mark != 7 || q.after <= 0 {
		t.Errorf("%+v; want mark 7, and a lease that began after the request", q)
	}
}

// A name has been handed over, whatever becomes of looking at its record.
func TestAHandOverThatCannotBeReadIsUnknown(t *testing.T) {
	s := fresh(t, server(t).URL)
	heir, resume := handedWithAMark(t, s, time.Hour)
	run(t, s.pool, "ALTER TABLE "+s.tables.records+" RENAME COLUMN state TO other")
	resume()
	if q := <-heir; !errors.Is(q.Err, store.ErrUnknown) {
		t.Errorf("%+v; want ErrUnknown", q)
	}
}

// What does not fit in a notification is asked for.
func TestAStateOfAnyLengthIsHandedOver(t *testing.T) {
	s := fresh(t, server(t).URL)
	other := reopen(t, s)
	for _, size := range []int{0, 1, 3000, 3001, store.MaxState} {
		name := fmt.Sprint("of ", size)
		holder := strings.Repeat("é", store.MaxName/2)
		lease := take(t, s, name, "a", time.Minute)
		b := waits(other, name, holder)
		places(t, s, name, holder)
		lease.Mark, lease.State = 3, bytes.Repeat([]byte{0, 255, ' '}, size)[:size]
		release(t, s, lease)
		got := heir(t, other, b, name, holder)
		grant, after, err := other.Queue(background, claim(name, holder, time.Minute))
		if err != nil || grant.Token != got.Token || grant.Mark != 3 || !bytes.Equal(grant.State, lease.State) || after > 0 {
			t.Errorf("%d: %v, %v, after %v", size, grant, err, after)
		}
		if left := inLine(t, s, name); len(left) > 0 {
			t.Errorf("%d: in line: %q", size, left)
		}
	}
}

// A hand-over is the one statement of the release, beside the one with which the heir came, for any number of waiters. Standing in line and
// leaving it writes what a transaction writes that has changed nothing.
func TestAHandOverIsTwoStatements(t *testing.T) {
	db := admin(t, counting(t).URL)
	run(t, db, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
	s := fresh(t, counting(t).URL)
	other := reopen(t, s)
	s.hub.idle, other.hub.idle = time.Hour, time.Hour // or what listens looks after itself now and then
	lease := take(t, s, "name", "a", time.Hour)
	const n = 20
	answers := make([]<-chan queued, n)
	for i := range n {
		answers[i] = waits(other, "name", fmt.Sprint("b", i))
		eventually(t, "it waits in the queue", func() bool { return len(inLine(t, s, "name")) == i+1 })
	}
	asked, which := 0, ""
	for within := time.Second; ; within *= 4 { // a slow machine needs longer
		var err error
		asked, which = statementsOf(t, db, func() {
			ctx, cancel := context.WithTimeout(background, within)
			defer cancel()
			_, _, err = other.Queue(ctx, claim("name", "visitor", time.Minute))
		})
		left, leaving := other.Leave(background, "name", "visitor")
		if errors.Is(err, store.ErrHeld) && left && leaving == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) || within > servers.Patience {
			t.Fatalf("waiting in the queue: %v; leaving: %v, %v", err, left, leaving)
		}
	}
	if asked > 1 {
		t.Errorf("%d statements for waiting in the queue: %s", asked, which)
	}
	asked, which = statementsOf(t, db, func() {
		for i := range n {
			release(t, s, lease)
			lease = heir(t, other, answers[i], "name", fmt.Sprint("b", i))
		}
	})
	if asked > n {
		t.Errorf("%d statements for %d hand-overs: %s", asked, n, which)
	}
	const rounds = 50
	wal := walOf(t, s.pool)
	for range rounds {
		ctx, cancel := context.WithCancel(background)
		answer := make(chan error, 1)
		go func() {
			_, _, err := other.Queue(ctx, claim("name", "last", time.Minute))
			answer <- err
		}()
		places(t, s, "name", "last")
		cancel()
		if err := <-answer; !errors.Is(err, store.ErrHeld) && !errors.Is(err, store.ErrUnknown) { // the place is seen a moment before its answer comes
			t.Error(err)
		}
		if left, err := other.Leave(background, "name", "last"); err != nil || !left {
			t.Errorf("leaving: %v, %v", left, err)
		}
	}
	wrote := (walOf(t, s.pool) - wal) / rounds
	t.Logf("%d bytes of WAL for waiting in the queue and leaving it", wrote)
	if wrote > 200 {
		t.Errorf("waiting in the queue and leaving it wrote %d bytes", wrote)
	}
}

// Who comes and goes at the same time as others release is never forgotten, and nobody has the name together with another.
func TestACrowdInLine(t *testing.T) {
	s := fresh(t, server(t).URL)
	var mu sync.Mutex
	had := 0
	var crowd sync.WaitGroup
	for i := range 12 {
		handle := s
		if i%3 > 0 {
			handle = reopen(t, s)
		}
		crowd.Go(func() {
			for round := range 15 {
				holder := fmt.Sprintf("%d/%d", i, round)
				if i%4 == 0 && round%5 == 0 { // gives up
					ctx, cancel := context.WithTimeout(background, time.Millisecond)
					_, _, _ = handle.Queue(ctx, claim("name", holder, time.Minute))
					cancel()
					if left, err := handle.Leave(background, "name", holder); err != nil {
						t.Error(err)
					} else if left {
						continue
					}
					if grant, _, err := handle.Queue(background, claim("name", holder, time.Minute)); err == nil {
						release(t, s, store.Release{Name: "name", Holder: holder, Token: grant.Token})
						continue
					}
				}
				lease := heir(t, handle, waits(handle, "name", holder), "name", holder)
				if !mu.TryLock() {
					t.Errorf("%s has it together with another", holder)
					return
				}
				had++
				mu.Unlock()
				release(t, handle, lease)
			}
		})
	}
	crowd.Wait()
	t.Logf("%d leases", had)
}

// A holder that asks again while its last call has not returned is told what is handed over, whenever that call returns.
func TestAnotherCallOfAWaiter(t *testing.T) {
	var l lines
	heir := heirOf("name", "a")
	first := l.join(heir)
	second := l.join(heir)
	l.leave(heir, first)
	l.heard(words{5, 7, 6, int64(heir)<<8 | 1})
	select {
	case n := <-second:
		if n.token != 7 || n.asked != 5 {
			t.Errorf("%+v", n)
		}
	default:
		t.Error("nobody is told")
	}
	l.leave(heir, second)
	if len(l.waiting) > 0 {
		t.Errorf("%v", l.waiting)
	}
}

// Who has left a line, and cannot find out whether the name was handed over before that, is told that it is not
// known.
func TestLeavingThatCannotBeMadeSureOfIsUnknown(t *testing.T) {
	s := fresh(t, server(t).URL)
	take(t, s, "name", "a", time.Hour)
	for _, holder := range []string{"b", "c"} {
		if _, _, _, err := s.stand(background, claim("name", holder, time.Hour), 1); !errors.Is(err, store.ErrHeld) {
			t.Fatal(err)
		}
	}
	look := s.sql.heir
	s.sql.heir = "SELECT nothing FROM " + s.tables.records + " WHERE name = $1 AND holder = $2"
	if left, err := s.Leave(background, "name", "b"); left || !errors.Is(err, store.ErrUnknown) {
		t.Errorf("left %t, %v; want ErrUnknown", left, err)
	}
	if left := inLine(t, s, "name"); !slices.Equal(left, []string{"c"}) {
		t.Errorf("%q are in the line, want c, who has not left", left)
	}
	s.sql.heir = look
	for _, want := range []bool{true, false} {
		if left, err := s.Leave(background, "name", "c"); left != want || err != nil {
			t.Errorf("left %t, %v; want %t", left, err, want)
		}
	}
}

// Who is leaving a line at this moment is passed by, in a batch of releases as alone, and nobody waits for that: a
// name that is handed over to one who has been told that it has left would be nobody's until the lease ends.
func TestWhoIsLeavingIsPassedBy(t *testing.T) {
	s := fresh(t, server(t).URL)
	alive := reopen(t, s)
	for _, others := range []int{0, 1} { // released in the same batch
		name := fmt.Sprint("name ", others)
		leases := []store.Release{take(t, s, name, "a", time.Hour)}
		for range others {
			leases = append(leases, take(t, s, "other", "a", time.Hour))
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, _, err := alive.Queue(ctx, claim(name, "b", time.Hour))
			gaveUp <- err
		}()
		places(t, s, name, "b")
		c := waits(alive, name, "c")
		places(t, s, name, "b", "c")
		tx := begin(t, s, pgx.TxOptions{})
		run(t, tx, s.sql.leave, name, "b")
		released := make(chan error, 1)
		go func() {
			errs, err := s.Release(background, leases)
			released <- errors.Join(append(errs, err)...)
		}()
		eventually(t, "the release is over, or waits", func() bool {
			if len(released) > 0 {
				return true
			}
			if !blocks(t, s, tx) {
				return false
			}
			t.Errorf("%d others: the release waits for who is leaving", others)
			return true
		})
		if err := tx.Commit(background); err != nil {
			t.Fatal(err)
		}
		if err := <-released; err != nil {
			t.Errorf("%d others: %v", others, err)
		}
		if r := recordOf(t, s, name); r.Holder != "c" {
			t.Fatalf("%d others: handed over to %q; want c, who has not left", others, r.Holder)
		}
		release(t, s, heir(t, alive, c, name, "c"))
		cancel()
		if err := <-gaveUp; err == nil {
			t.Errorf("%d others: who was leaving is granted the name", others)
		}
	}
}

// An heir's token is greater than that of the lease before, also where that is ahead of the server's clock. A name
// whose token cannot grow is released all the same: it is handed over to nobody.
func TestTokensOfAHandOver(t *testing.T) {
	s := fresh(t, server(t).URL)
	for _, others := range []int{0, 1} { // released in the same batch
		leased := func(name string, above int64) store.Release {
			outs, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "a", TTL: time.Hour, Above: above}})
			if err != nil || outs[0].Err != nil {
				t.Fatalf("%+v, %v", outs, err)
			}
			return store.Release{Name: name, Holder: "a", Token: outs[0].Grant.Token, Retain: store.Forever}
		}
		ended := func(lease store.Release) {
			t.Helper()
			leases := []store.Release{lease}
			for range others {
				leases = append(leases, take(t, s, "other", "a", time.Hour))
			}
			errs, err := s.Release(background, leases)
			allNil(t, errs, err)
		}
		ahead := fmt.Sprint("ahead ", others)
		lease := leased(ahead, time.Now().Add(time.Hour).UnixMicro())
		b := waits(s, ahead, "b")
		places(t, s, ahead, "b")
		ended(lease)
		if r := recordOf(t, s, ahead); r.Holder != "b" || r.Token <= lease.Token {
			t.Errorf("%d others: %+v after a lease with token %d", others, r, lease.Token)
		}
		if q := <-b; q.Err != nil || q.Grant.Token <= lease.Token {
			t.Errorf("%d others: the heir is granted %+v after token %d", others, q, lease.Token)
		}
		last := fmt.Sprint("last ", others)
		lease = leased(last, math.MaxInt64-1)
		b = waits(s, last, "b")
		places(t, s, last, "b")
		ended(lease)
		if r := recordOf(t, s, last); !r.Free() || r.Token != lease.Token {
			t.Errorf("%d others: %+v; want it free, with the last token", others, r)
		}
		if q := <-b; !errors.Is(q.Err, store.ErrHeld) {
			t.Errorf("%d others: who waits is told %+v; want to look again", others, q)
		}
		if q := <-waits(s, last, "b"); !errors.Is(q.Err, store.ErrTokens) {
			t.Errorf("%d others: who looks again is told %+v; want ErrTokens", others, q)
		}
	}
}

// Who waits for a name that is free, and whose row somebody's transaction has locked, is told soon to look again.
// Nobody would hand it over, so there is no place in the line.
func TestWaitingForALockedName(t *testing.T) {
	s := fresh(t, server(t).URL)
	release(t, s, take(t, s, "name", "a", time.Minute))
	tx := begin(t, s, pgx.TxOptions{})
	run(t, tx, "SELECT FROM "+s.tables.records+" FOR UPDATE")
	answer := waits(s, "name", "b")
	eventually(t, "there is an answer, or it waits for the transaction", func() bool {
		if len(answer) > 0 {
			return true
		}
		if !blocks(t, s, tx) {
			return false
		}
		t.Error("it waits for the transaction")
		return tx.Rollback(background) == nil
	})
	var held *store.HeldError
	if q := <-answer; !errors.As(q.Err, &held) || held.Record.Left != lockPatience || held.Record.Name != "name" {
		t.Errorf("%+v; want a refusal for %v", q, lockPatience)
	}
	if left := inLine(t, s, "name"); len(left) > 0 {
		t.Errorf("in line: %q", left)
	}
	_ = tx.Rollback(background)
	if q := <-waits(s, "name", "b"); q.Err != nil || q.Grant.Token == 0 {
		t.Errorf("when it is not locked any more: %+v", q)
	}
}
