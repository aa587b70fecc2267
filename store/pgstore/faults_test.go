package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The server does what it was asked, and the answer gets lost: unknown each time, and asking again settles it.
func TestLostAnswers(t *testing.T) {
	p := newProxy(t, server(t).Addr)
	direct := fresh(t, server(t).URL)
	s := open(t, p.url(server(t).URL), "schema", direct.tables.schema, "pool_max_conns", "1")
	// warm has the statements prepared on the one connection, so that what is lost is the answer to the verb itself.
	warm := func() {
		t.Helper()
		lease := take(t, s, "warm", "a", time.Minute)
		if err := errors.Join(tryExtend(s, lease, time.Minute), tryRelease(s, lease)); err != nil {
			t.Fatal(err)
		}
		i, grant, err := s.Choose(background, []string{"warm"}, claim("x", "a", time.Minute))
		if i != 0 || err != nil {
			t.Fatal(i, err)
		}
		release(t, s, store.Release{Name: "warm", Holder: "a", Token: grant.Token})
	}
	lost := func(verb string, f func() error) {
		t.Helper()
		warm()
		before := p.silent(true)
		err := f()
		if after := p.silent(false); after == before {
			t.Fatalf("%s: no answer was dropped", verb)
		}
		if !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("%s whose answer was lost: %v", verb, err)
		}
		says(t, err)
	}
	lost("acquire", func() error { _, err := try(s, "name", "a", time.Minute); return err })
	eventually(t, "the claim was granted", func() bool { return recordOf(t, direct, "name").Holder == "a" })
	token := recordOf(t, direct, "name").Token
	heldBy(t, direct, "name", "b")
	lease := take(t, s, "name", "a", time.Hour)
	if r := recordOf(t, direct, "name"); lease.Token != token || r.Left > time.Minute {
		t.Errorf("asked again: token %d, %v left; want token %d and the first deadline", lease.Token, r.Left, token)
	}
	lost("extend", func() error { return tryExtend(s, lease, time.Hour) })
	if err := tryExtend(s, lease, 2*time.Hour); err != nil {
		t.Errorf("extending again: %v", err)
	}
	lost("release", func() error { return tryRelease(s, lease) })
	eventually(t, "the lease was released", func() bool { return recordOf(t, direct, "name").Free() })
	if err := tryRelease(s, lease); err != nil {
		t.Errorf("releasing again: %v", err)
	}
	lost("choose", func() error {
		_, _, err := s.Choose(background, []string{"slot 1", "slot 2"}, claim("x", "a", time.Minute))
		return err
	})
	if i, grant, err := s.Choose(background, []string{"slot 1", "slot 2"}, claim("x", "a", time.Minute)); i != 0 || err != nil {
		t.Errorf("choosing again: %d, %v, %v", i, grant, err)
	}
}

// Killed in the middle of batches and started again, the server has forgotten nothing that it acknowledged.
func TestKilledServer(t *testing.T) {
	srv := servers.Postgres(t, "max_connections=100")
	s := fresh(t, srv.URL)
	var mu sync.Mutex
	var live, freed, open []store.Release // acknowledged grants; acknowledged releases; what is not known
	for round := range 3 {
		ctx, cancel := context.WithTimeout(background, servers.Patience)
		var done atomic.Int64
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				for n := 0; ; n++ {
					claims := make([]store.Claim, 20)
					for i := range claims {
						claims[i] = claim(fmt.Sprintf("r%d/w%d/%d/%d", round, worker, n, i), "a", time.Hour)
					}
					out, err := s.Acquire(ctx, claims)
					if err != nil {
						if !errors.Is(err, store.ErrUnknown) {
							return // it was refused: nothing has happened
						}
						mu.Lock()
						for _, c := range claims {
							open = append(open, store.Release{Name: c.Name, Holder: "a"})
						}
						mu.Unlock()
						return
					}
					done.Add(1)
					var mine []store.Release
					for i, o := range out {
						mine = append(mine, store.Release{Name: claims[i].Name, Holder: "a", Token: o.Grant.Token, Retain: store.Forever})
					}
					mu.Lock()
					live = append(live, mine[10:]...)
					mu.Unlock()
					errs, err := s.Release(ctx, mine[:10])
					mu.Lock()
					if errors.Join(errors.Join(errs...), err) == nil {
						freed = append(freed, mine[:10]...)
					} else {
						open = append(open, mine[:10]...)
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		eventually(t, "batches are under way", func() bool { return done.Load() > 20 })
		srv.Kill()
		wg.Wait()
		cancel()
		srv.Start()
	}
	eventually(t, "the store answers again", func() bool { return s.Ping(background) == nil })
	records := map[string]store.Record{}
	for r, err := range s.List(background, "r") {
		if err != nil {
			t.Fatal(err)
		}
		records[r.Name] = r
	}
	for _, l := range live {
		if r := records[l.Name]; r.Holder != "a" || r.Token != l.Token {
			t.Fatalf("an acknowledged grant of %q, token %d, is %+v", l.Name, l.Token, r)
		}
	}
	for _, l := range freed {
		if r := records[l.Name]; !r.Free() || r.Holder != "" || r.Token != l.Token {
			t.Fatalf("an acknowledged release of %q, token %d, is %+v", l.Name, l.Token, r)
		}
	}
	for _, l := range open {
		if l.Token > 0 {
			if err := tryRelease(s, l); err != nil {
				t.Fatalf("releasing %q again: %v", l.Name, err)
			}
			continue
		}
		if r := take(t, s, l.Name, "a", time.Hour); records[l.Name].Token != 0 && records[l.Name].Token != r.Token {
			t.Fatalf("asking again for %q: token %d, then %d", l.Name, records[l.Name].Token, r.Token)
		}
	}
	t.Logf("%d grants and %d releases were acknowledged, %d outcomes were not known", len(live), len(freed), len(open))
}

func TestPausedServer(t *testing.T) {
	srv := servers.Postgres(t, quiet...)
	s := fresh(t, srv.URL)
	lease := take(t, s, "name", "a", time.Minute)
	srv.Pause()
	for verb, do := range map[string]func(context.Context) error{
		"extend": func(ctx context.Context) error {
			_, err := s.Extend(ctx, extensionsOf([]store.Release{lease}, time.Minute))
			return err
		},
		"acquire": func(ctx context.Context) error {
			_, err := s.Acquire(ctx, []store.Claim{claim("other", "a", time.Minute)})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
		err := do(ctx) // nothing else ends it
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	srv.Resume()
	if err := tryExtend(s, lease, time.Minute); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	release(t, s, lease)
}

// An answer that does not come in time is not known, whatever stage the statement was in.
func TestUnansweredIsUnknown(t *testing.T) {
	srv := servers.Postgres(t, quiet...)
	s := fresh(t, srv.URL, "pool_max_conns", "1")
	lease := take(t, s, "name", "a", time.Minute)
	defer srv.Resume()
	for within := 200 * time.Millisecond; ; within *= 10 { // a slow machine may not have sent it by then
		if err := tryExtend(s, lease, time.Minute); err != nil {
			t.Fatal(err)
		}
		srv.Pause()
		ctx, cancel := context.WithTimeout(background, within)
		_, err := s.Extend(ctx, extensionsOf([]store.Release{lease}, time.Minute))
		cancel()
		if errors.Is(err, store.ErrUnknown) {
			break
		}
		if within > servers.Patience {
			t.Fatalf("sent and not answered: %v", err)
		}
		srv.Resume()
	}
	// The pool has no connection left, so this is not even sent.
	ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	if _, err := s.Extend(ctx, extensionsOf([]store.Release{lease}, time.Minute)); errors.Is(err, store.ErrUnknown) || err == nil {
		t.Errorf("not sent: %v", err)
	}
}

// The server ends the connections of the pool and of the listener: calls go on, and a watch misses no release.
func TestTerminatedBackends(t *testing.T) {
	s := fresh(t, server(t).URL)
	other := reopen(t, s)
	name := with(server(t).URL, "application_name", t.Name())
	s = open(t, name, "schema", s.tables.schema)
	lease := take(t, other, "name", "a", time.Minute)
	w, err := s.Watch(background, []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	drain(w)
	for range 3 {
		if n := one[int](t, other.pool, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", t.Name()); n == 0 {
			t.Fatal("there was no connection to end")
		}
		release(t, other, lease) // perhaps while nobody listens
		select {
		case _, open := <-w:
			if !open { // the lock of the name's group was not free in time, so that its caller looks itself
				if w, err = s.Watch(background, []string{"name"}); err != nil {
					t.Fatal(err)
				}
			}
		case <-time.After(servers.Patience):
			t.Fatal("a release was missed")
		}
		lease = take(t, other, "name", "a", time.Minute)
		eventually(t, "calls go on", func() bool {
			_, err := try(s, "name", "b", time.Minute)
			return errors.Is(err, store.ErrHeld)
		})
		eventually(t, "it listens again", func() bool {
			return one[int](t, other.pool, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'SELECT pg_try_advisory_lock_shared%'", t.Name()) > 0
		})
		drain(w)
	}
}

// A commit that no standby has confirmed because somebody cancelled the wait is in force, and may be lost: unknown.
func TestCancelledSyncWaitIsUnknown(t *testing.T) {
	srv := servers.Postgres(t, "max_connections=50")
	s := fresh(t, srv.URL)
	bare, err := pgxpool.New(background, srv.URL) // not prepared to be told
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	unprepared, err := New(bare, s.tables.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer unprepared.Close()
	take(t, s, "warm", "a", time.Minute)
	handed := take(t, s, "handed", "a", time.Minute)
	heir := waits(reopen(t, s), "handed", "b")
	places(t, s, "handed", "b")
	run(t, s.pool, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	run(t, s.pool, "SELECT pg_reload_conf()")
	var wg sync.WaitGroup
	defer wg.Wait()
	db := admin(t, srv.URL)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	wg.Go(func() { // commits wait once the server's checkpointer has read the setting
		for ctx.Err() == nil {
			_, _ = db.Exec(ctx, "UPDATE "+s.tables.meta+" SET version = version")
		}
	})
	eventually(t, "commits wait", func() bool { return commits(s) > 0 })
	cancel()
	canceller := admin(t, srv.URL)
	cancelling := func(do func()) { // what follows is not cancelled: the server sends the signal some time after it was asked to
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					run(t, canceller, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
				}
			}
		}()
		do()
		close(stop)
		<-stopped
	}
	cancelling(func() { _, err = try(s, "name", "a", time.Minute) })
	if !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a claim whose wait was cancelled: %v", err)
	}
	if r := recordOf(t, s, "name"); r.Holder != "a" {
		t.Errorf("the warning came, but the commit is not in force: %+v", r)
	}
	var outs []store.Outcome
	cancelling(func() {
		outs, err = s.Acquire(background, []store.Claim{claim("name", "a", time.Minute), claim("warm", "a", time.Minute)}) // both are the holder's
	})
	if err != nil && !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a batch that is repeated while waits are cancelled: %v", err)
	}
	for i := range outs {
		if !errors.Is(outs[i].Err, store.ErrUnknown) {
			t.Errorf("a claim of a batch that is repeated while waits are cancelled: %+v", outs[i])
		}
	}
	cancelling(func() { err = tryRelease(s, handed) })
	if !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a release whose wait was cancelled: %v", err)
	}
	var handedOver queued
	cancelling(func() { handedOver = <-heir })
	if !errors.Is(handedOver.Err, store.ErrUnknown) {
		t.Errorf("what was handed over by a commit whose wait was cancelled: %+v", handedOver)
	}
	for _, c := range []struct {
		s    *Store
		want store.Answer
	}{{s, store.Yes}, {unprepared, store.Unknown}} {
		got, err := c.s.Capabilities(background)
		if err != nil || got.Fencing.Answer != c.want || got.Durable.Answer != store.Yes {
			t.Errorf("capabilities %+v, %v; want fencing %v", got, err, c.want)
		}
	}
	run(t, s.pool, "ALTER SYSTEM RESET synchronous_standby_names")
	run(t, s.pool, "SELECT pg_reload_conf()")
	eventually(t, "no commit waits any more", func() bool { // and no connection remembers that one did
		_, err := try(s, "name", "a", time.Minute)
		return err == nil
	})
}

// The warning that a commit is not waited for any more is known by the place in the source, in whatever language its text is, or by the text where there is no place.
func TestWarningOfACancelledWait(t *testing.T) {
	for _, c := range []struct {
		code, routine, text string
		want                bool
	}{
		{"01000", "SyncRepWaitForLSN", "storniere Warten auf synchrone Replikation wegen Benutzeraufforderung", true},
		{"01000", "", "canceling wait for synchronous replication due to user request", true},
		{"01000", "other", "something else", false},
		{"00000", "SyncRepWaitForLSN", "something else", false},
	} {
		n := &notices{}
		n.saw(&pgconn.Notice{Code: c.code, Routine: c.routine, Message: c.text})
		if n.syncCancelled() != c.want {
			t.Errorf("%+v: %t", c, n.syncCancelled())
		}
		if n.clear(); n.syncCancelled() {
			t.Error("it is remembered for the next statement")
		}
	}
}

// What an earlier request has done is not told as refused if it cannot be made sure of: the request that asks again has not undone it.
func TestWhatCannotBeMadeSureOfIsUnknown(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Minute)
	done := take(t, s, "done", "a", time.Minute)
	release(t, s, done)
	s.sql.confirm = "SELECT nothing FROM " + s.tables.records
	if _, err := try(s, "name", "a", time.Minute); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a claim again: %v", err)
	}
	if _, _, err := s.Choose(background, []string{"other", "name"}, claim("", "a", time.Minute)); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a choice again: %v", err)
	}
	if _, _, err := s.Queue(background, claim("name", "a", time.Minute)); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("waiting for what the holder has: %v", err)
	}
	if err := tryRelease(s, done); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a release again: %v", err)
	}
	outcomes, err := s.Acquire(background, []store.Claim{claim("name", "a", time.Minute), claim("new", "a", time.Minute), claim("name", "b", time.Minute)})
	if err != nil || !errors.Is(outcomes[0].Err, store.ErrUnknown) || outcomes[1].Err != nil || !errors.Is(outcomes[2].Err, store.ErrHeld) {
		t.Errorf("a claim again beside others: %v, %v", outcomes, err)
	}
	outcomes, err = s.Acquire(background, []store.Claim{
		claim("name", "a", time.Minute), claim("name", "b", time.Minute), claim("name", "a", time.Minute),
	})
	if err != nil || !errors.Is(outcomes[0].Err, store.ErrUnknown) || !errors.Is(outcomes[1].Err, store.ErrHeld) ||
		!errors.Is(outcomes[2].Err, store.ErrUnknown) {
		t.Errorf("a claim that is repeated in a batch: %v, %v", outcomes, err)
	}
	older := done
	older.Token--
	errs, err := s.Release(background, []store.Release{
		done, older, done, {Name: "name", Holder: "b", Token: lease.Token},
	})
	if err != nil || !errors.Is(errs[0], store.ErrUnknown) || !errors.Is(errs[2], store.ErrUnknown) {
		t.Errorf("a release that is repeated in a batch: %v, %v", errs, err)
	}
	for _, i := range []int{1, 3} {
		if !errors.Is(errs[i], store.ErrLost) || errors.Is(errs[i], store.ErrUnknown) {
			t.Errorf("what is lost beside releases that are repeated: %v", errs[i])
		}
	}
	release(t, s, lease) // what is new needs nothing else
}

// commits returns how many commits wait for a standby.
func commits(s *Store) (n int) {
	_ = s.pool.QueryRow(background, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&n)
	return n
}

// cockroach opens a store in the dialect of CockroachDB, through a proxy, on one connection.
func cockroach(t *testing.T) (direct, s *Store, p *proxy) {
	t.Helper()
	p = newProxy(t, server(t).Addr)
	direct = fresh(t, server(t).URL)
	to := with(p.url(server(t).URL), "schema", direct.tables.schema, "pool_max_conns", "1", "options", "-c default_transaction_isolation=serializable")
	s = open(t, "cockroach"+to[len("postgres"):])
	lease := take(t, s, "warm", "a", time.Minute) // the statements are prepared
	if err := errors.Join(tryExtend(s, lease, time.Minute), tryRelease(s, lease)); err != nil {
		t.Fatal(err)
	}
	return direct, s, p
}

// The server has committed and reports that it does not know. That is an unknown outcome, and a request that asks again is told what is so.
func TestAmbiguousCommitsAreUnknown(t *testing.T) {
	direct, s, p := cockroach(t)
	for what, s := range map[string]*Store{
		"CockroachDB": s,
		"PostgreSQL":  open(t, p.url(server(t).URL), "schema", direct.tables.schema, "pool_max_conns", "1"),
	} {
		lease := take(t, s, what, "a", time.Minute)
		if err := errors.Join(tryExtend(s, lease, time.Minute), tryRelease(s, lease)); err != nil {
			t.Fatal(err)
		}
		injected := func(verb string, f func() error) {
			t.Helper()
			p.answer("40003")
			if err := f(); !errors.Is(err, store.ErrUnknown) {
				t.Errorf("%s: %s: %v", what, verb, err)
			}
			if !p.answered() {
				t.Fatalf("%s: %s: nothing was injected", what, verb)
			}
			if err := f(); err != nil {
				t.Errorf("%s: %s again: %v", what, verb, err)
			}
		}
		injected("acquire", func() error {
			g, err := try(s, what, "b", time.Minute)
			lease = store.Release{Name: what, Holder: "b", Token: g.Token, Retain: store.Forever, Mark: 5}
			return err
		})
		if r := recordOf(t, direct, what); r.Holder != "b" || r.Token != lease.Token {
			t.Errorf("%s: the grant was of token %d, and the record is %+v", what, lease.Token, r)
		}
		injected("extend", func() error { return tryExtend(s, lease, time.Hour) })
		injected("release", func() error { return tryRelease(s, lease) })
		if r := recordOf(t, direct, what); !r.Free() || r.Mark != 5 {
			t.Errorf("%s: after the release: %+v", what, r)
		}
	}
}

// The server refuses a few times, with no effect: the statement is run until it is taken.
func TestInjectedSerializationFailures(t *testing.T) {
	direct, s, _ := cockroach(t)
	schema := direct.tables.schema
	for _, sql := range []string{
		"CREATE SEQUENCE " + schema + ".tries",
		"CREATE FUNCTION " + schema + ".refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('" + schema + `.tries') % 4 IN (1, 2) THEN
			RAISE EXCEPTION 'injected' USING ERRCODE = TG_ARGV[0]; END IF; RETURN NEW; END $$`,
	} {
		run(t, direct.pool, sql)
	}
	for _, code := range []string{"40001", "40P01"} {
		run(t, direct.pool, "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON "+direct.tables.records+" FOR EACH ROW EXECUTE FUNCTION "+
			schema+".refuse('"+code+"')")
		before := one[int](t, direct.pool, "SELECT last_value FROM "+schema+".tries")
		lease := take(t, s, "name", "a", time.Minute)
		if err := errors.Join(tryExtend(s, lease, time.Hour), tryRelease(s, lease)); err != nil {
			t.Errorf("%s: %v", code, err)
		}
		if after := one[int](t, direct.pool, "SELECT last_value FROM "+schema+".tries"); after-before < 6 {
			t.Errorf("%s: only %d tries", code, after-before)
		}
		run(t, direct.pool, "DROP TRIGGER refuse ON "+direct.tables.records)
	}
	// The context bounds it.
	run(t, direct.pool, "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON "+direct.tables.records+" FOR EACH ROW EXECUTE FUNCTION "+schema+".refuse('40001')")
	run(t, direct.pool, "ALTER SEQUENCE "+schema+".tries INCREMENT 4 RESTART 5")
	ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	if _, err := s.Acquire(ctx, []store.Claim{claim("never", "a", time.Minute)}); err == nil {
		t.Error("granted")
	}
}

// Which errors leave it open what has happened.
func TestCertainty(t *testing.T) {
	// 08P01 is how PgBouncer tells that it has lost the server.
	for code, want := range map[string]bool{"40001": false, "40003": true, "08006": true, "08P01": true, "42501": false, "": true, "0": false} {
		if got := uncertain(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("%s: uncertain is %t", code, got)
		}
	}
	for _, severity := range []string{"FATAL", "PANIC"} { // in the server's language, and in English
		for _, ended := range []*pgconn.PgError{
			{Code: "57P01", Severity: severity}, {Code: "57P01", Severity: "other", SeverityUnlocalized: severity},
		} {
			if !uncertain(ended) || !uncertain(fmt.Errorf("wrapped: %w", ended)) {
				t.Errorf("a session that was ended is certain: %+v", ended)
			}
		}
	}
	if uncertain(&pgconn.PgError{Code: "57P01", Severity: "ERROR", SeverityUnlocalized: "ERROR"}) ||
		!uncertain(store.AsUnknown(notSent{errCut})) {
		t.Error("a session that goes on is uncertain, or what is unknown is certain")
	}
	if uncertain(notSent{context.DeadlineExceeded}) || !uncertain(context.DeadlineExceeded) {
		t.Error("what has not been sent is certain, and what has been is not")
	}
}

// Which refusals are worth another try of the same statement: those after which it has had no effect, and may have
// one the next time.
func TestWhichStatementsAreRunAgain(t *testing.T) {
	for _, c := range []struct {
		err            error
		again, unnamed bool
	}{
		{&pgconn.PgError{Code: "40001"}, true, false},
		{&pgconn.PgError{Code: "40P01"}, true, false},
		{&pgconn.PgError{Code: "40003"}, false, false},
		{&pgconn.PgError{Code: "26000"}, true, true},
		{&pgconn.PgError{Code: "42P05"}, true, true},
		{&pgconn.PgError{Code: "42501"}, false, false},
		{&pgconn.PgError{Code: "0A000", Routine: "RevalidateCachedQuery", Message: "in another language"}, true, false},
		{&pgconn.PgError{Code: "0A000", Message: "cached plan must not change result type"}, true, false},
		{&pgconn.PgError{Code: "0A000", Routine: "get_relation_info", Message: "cannot access"}, false, false},
		{errCut, false, false},
	} {
		s := &Store{}
		if again := s.again(c.err); again != c.again || s.unnamed.Load() != c.unnamed {
			t.Errorf("%+v: again %t, without names %t; want %t and %t", c.err, again, s.unnamed.Load(), c.again, c.unnamed)
		}
	}
}
