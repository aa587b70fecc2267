package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
)

// begin begins a transaction of a caller's.
func begin(t testing.TB, db *sql.DB, o *sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// completedInTime has two leases, of which the second ends soon, and a transaction that completes both, stays open, and was in time for it.
func completedInTime(t *testing.T, s *Store, db *sql.DB, names ...string) ([]store.Outcome, *sql.Tx) {
	t.Helper()
	for ttl := time.Second; ; ttl *= 4 { // a slow machine needs longer
		servers.Wait(t, names[1]+" to be free", func() bool {
			return recordOf(t, acquire(t, s, store.Claim{Name: names[1], Holder: "-", TTL: time.Second, Mark: -1})[0].Err).Free()
		})
		out := acquire(t, s, claim(names[0], "a"), store.Claim{Name: names[1], Holder: "a", TTL: ttl})
		tx := begin(t, db, nil)
		var err error
		for i, name := range names {
			if err == nil {
				err = s.Complete(context.Background(), tx, store.Completion{Name: name, Holder: "a", Token: out[i].Grant.Token, Mark: 1})
			}
		}
		if err == nil {
			return out, tx
		}
		if !errors.Is(err, store.ErrLost) || ttl > servers.Patience {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// A transaction that keeps a lease's row locked does not hold up the leases of others.
func TestLockedRowsHoldUpNobody(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, func(c *mysql.Config) {
				if m.driver != nil {
					m.driver(c)
				}
				c.Params = map[string]string{"innodb_lock_wait_timeout": "3600"} // who is held up waits until the transaction ends
			})
			s := open(t, db, m.config)
			ctx := context.Background()
			const n = 1000
			claims := []store.Claim{claim("locked", "a"), claim("expired", "a")}
			for i := range n {
				claims = append(claims, claim("other/"+intLiteral(int64(i)), "a"))
			}
			begun := time.Now()
			others := acquire(t, s, claims[2:]...)
			usual := time.Since(begun) // for a batch of that size, on this machine
			completed, tx := completedInTime(t, s, db, "locked", "expired")
			out := append(completed, others...)
			servers.Wait(t, "one of the leases to expire", func() bool {
				o := acquire(t, s, store.Claim{Name: "expired", Holder: "-", TTL: time.Second, Mark: -1})[0]
				return recordOf(t, o.Err).Free()
			})
			var extensions []store.Extension
			var releases []store.Release
			for i, c := range claims {
				if c.Name != "expired" {
					extensions = append(extensions, store.Extension{Name: c.Name, Holder: "a", Token: out[i].Grant.Token, TTL: 2 * time.Hour})
					releases = append(releases, store.Release{Name: c.Name, Holder: "a", Token: out[i].Grant.Token})
				}
			}
			quickly := func(verb string, do func() ([]error, error)) []error {
				start := time.Now()
				errs, err := do()
				if err != nil {
					t.Fatalf("%s: %v", verb, err)
				}
				if took := time.Since(start); took > time.Minute+20*usual {
					t.Errorf("%s took %v, where taking a batch took %v", verb, took, usual)
				}
				if err := errors.Join(errs[1:]...); err != nil {
					t.Errorf("%s of the others: %v", verb, err)
				}
				return errs
			}
			if errs := quickly("Extend", func() ([]error, error) { return s.Extend(ctx, extensions) }); !errors.Is(errs[0], store.ErrUnknown) {
				t.Errorf("extending the locked lease answered %v, want an unknown outcome", errs[0])
			}
			if errs := quickly("Release", func() ([]error, error) { return s.Release(ctx, releases) }); !errors.Is(errs[0], store.ErrUnknown) {
				t.Errorf("releasing the locked lease answered %v, want an unknown outcome", errs[0])
			}
			for i := range claims {
				claims[i].Holder = "b"
			}
			within, cancel := context.WithTimeout(ctx, servers.Patience)
			defer cancel()
			if errs := quickly("Release of one", func() ([]error, error) { return s.Release(within, releases[:1]) }); !errors.Is(errs[0], store.ErrUnknown) {
				t.Errorf("releasing the locked lease alone answered %v, want an unknown outcome", errs[0])
			}
			one := quickly("Acquire of one", func() ([]error, error) {
				out, err := s.Acquire(within, claims[1:2])
				if err != nil {
					return nil, err
				}
				return []error{out[0].Err}, nil
			})
			if !errors.Is(one[0], store.ErrHeld) {
				t.Errorf("taking a locked name alone answered %v, want a refusal", one[0])
			}
			quickly("Acquire", func() ([]error, error) {
				out, err := s.Acquire(ctx, claims)
				if err != nil {
					return nil, err
				}
				errs := make([]error, len(out))
				for i, o := range out {
					errs[i] = o.Err
				}
				for i := range 2 {
					if !errors.Is(out[i].Err, store.ErrHeld) {
						t.Errorf("taking a locked name answered %v, want a refusal", out[i].Err)
					}
				}
				return errs[1:], nil // of which the first is expected
			})
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if o := acquire(t, s, claim("expired", "b"))[0]; o.Err != nil || o.Grant.Mark != 1 || o.Grant.ExpiredAge == 0 {
				t.Errorf("the expired lease is %+v, %v after the commit; want it granted, with its mark and abandoned", o.Grant, o.Err)
			}
			release(t, s, releases[0])
		})
	}
}

// Nor does it where the server rolls back a whole transaction that has waited for a lock without success.
func TestLockedRowWhereATimeoutRollsBack(t *testing.T) {
	db := connect(t, servers.MariaDB(t, "--innodb-rollback-on-timeout").URL, func(c *mysql.Config) {
		c.Params = map[string]string{"innodb_lock_wait_timeout": "3600"}
	})
	s := open(t, db, Config{})
	release(t, s, store.Release{Name: "x", Holder: "a", Token: take(t, s, "x", "a").Token})
	tx := begin(t, db, nil)
	exec(t, tx, "SELECT token FROM "+s.table(s.cfg.Table)+" WHERE name = 'x' FOR UPDATE")
	within, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	if out, err := s.Acquire(within, []store.Claim{claim("x", "b")}); err != nil || !errors.Is(out[0].Err, store.ErrHeld) {
		t.Errorf("taking a locked name answered %+v, %v, want a refusal", out, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	g := take(t, s, "x", "b")
	tx = begin(t, db, nil)
	exec(t, tx, "SELECT token FROM "+s.table(s.cfg.Table)+" WHERE name = 'x' FOR UPDATE")
	if errs, err := s.Release(within, []store.Release{{Name: "x", Holder: "b", Token: g.Token}}); err != nil || !errors.Is(errs[0], store.ErrUnknown) {
		t.Errorf("releasing the locked lease answered %v, %v, want an unknown outcome", errs, err)
	}
}

// A choice passes by the names whose rows others have locked, and is refused only when no other is left.
func TestChoicePassesByALockedName(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, func(c *mysql.Config) {
				if m.driver != nil {
					m.driver(c)
				}
				c.Params = map[string]string{"innodb_lock_wait_timeout": "3600"} // who is held up waits until the transaction ends
			})
			s := open(t, db, m.config)
			within, cancel := context.WithTimeout(t.Context(), servers.Patience)
			defer cancel()
			locked := []string{"locked/1", "locked/2", "locked/3"}
			for _, name := range append(slices.Clone(locked), "free") {
				release(t, s, store.Release{Name: name, Holder: "a", Token: take(t, s, name, "a").Token, Retain: time.Hour})
			}
			take(t, s, "held", "a")
			tx := begin(t, db, nil)
			for _, name := range locked {
				exec(t, tx, "SELECT token FROM "+s.table(s.cfg.Table)+" WHERE name = '"+name+"' FOR UPDATE")
			}
			choose := func(holder string, others ...string) (string, store.Grant, error) {
				names := append(slices.Clone(locked), others...)
				i, g, err := s.Choose(within, names, claim("", holder))
				return names[i], g, err
			}
			name, g, err := choose("b", "held", "free", "new")
			if err != nil || name != "free" || g.Token == 0 {
				t.Errorf("chosen was %s, %+v, %v; want the first name that is not locked", name, g, err)
			}
			if again, same, err := choose("b", "new", "free"); err != nil || again != "free" || same.Token != g.Token {
				t.Errorf("a holder of a name was granted %s, %+v, %v; want what it has", again, same, err)
			}
			if name, g, err := choose("c", "held", "free", "new"); err != nil || name != "new" || g.Token == 0 {
				t.Errorf("chosen was %s, %+v, %v; want the name without a row", name, g, err)
			}
			var held *store.HeldError
			if name, _, err := choose("d", "held", "free"); !errors.As(err, &held) || !strings.HasPrefix(name, "locked/") || held.Record.Left != lockedLeft {
				t.Errorf("with no other name left: %s, %v; want a refusal of a locked one for %v", name, err, lockedLeft)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if name, g, err := choose("d", "held", "free"); err != nil || name != locked[0] || g.Token == 0 {
				t.Errorf("chosen was %s, %+v, %v; want the first name, which is not locked any more", name, g, err)
			}
		})
	}
}

// A choice tries names again that others had locked when it tried them first: the locks may be gone.
func TestChoiceTriesLockedNamesAgain(t *testing.T) {
	s, w := wired(t, Config{}, nil)
	names := []string{"locked/1", "locked/2"}
	for _, name := range names {
		release(t, s, store.Release{Name: name, Holder: "a", Token: take(t, s, name, "a").Token, Retain: time.Hour})
	}
	tx := begin(t, s.db, nil)
	exec(t, tx, "SELECT token FROM "+s.table(s.cfg.Table)+" FOR UPDATE")
	second := w.keepBack(":-1") // in it the first name is only read
	answered := make(chan string, 1)
	go func() {
		i, g, err := s.Choose(t.Context(), names, claim("", "b"))
		answered <- fmt.Sprintf("%s, granted %t, %v", names[i], g.Token > 0, err)
	}()
	<-second.is
	third := w.keepBack(sqlCommit) // each name has been tried before it
	close(second.goes)
	<-third.is
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	close(third.goes)
	if got, want := <-answered, "locked/1, granted true, <nil>"; got != want {
		t.Errorf("chosen was %s, want %s", got, want)
	}
}

// What a holder has released, or had until its end, is not what it has: it is granted another name, or that one anew.
func TestChoiceOfAFormerHolder(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, m.driver)
			s := open(t, db, m.config)
			names := []string{"lingers", "ended"}
			lingers, ended := take(t, s, "lingers", "a"), take(t, s, "ended", "a")
			release(t, s, store.Release{Name: "lingers", Holder: "a", Token: lingers.Token, Linger: 2 * time.Hour})
			exec(t, db, "UPDATE "+s.table(s.cfg.Table)+" SET lock_until = locked_at WHERE name = 'ended'")
			i, g, err := s.Choose(t.Context(), names, claim("", "a"))
			if i != 1 || err != nil || g.Token <= ended.Token || g.ExpiredAge <= 0 {
				t.Fatalf("chosen was %d, %+v, %v; want what has ended, anew after the token %d", i, g, err, ended.Token)
			}
			i, again, err := s.Choose(t.Context(), names, claim("", "a"))
			if i != 1 || err != nil || again.Token != g.Token || again.ExpiredAge != 0 {
				t.Errorf("chosen again was %d, %+v, %v; want the same as %+v", i, again, err, g)
			}
			var held *store.HeldError
			i, _, err = s.Choose(t.Context(), names, claim("", "b"))
			if i != 1 || !errors.As(err, &held) || held.Record.Holder != "a" || held.Record.Name != "ended" {
				t.Errorf("another is told %d, %v; want what will be free first", i, err)
			}
		})
	}
}

// A transaction of the caller's commits work and mark together.
func TestComplete(t *testing.T) {
	for _, isolation := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelSerializable} {
		t.Run(isolation.String(), func(t *testing.T) {
			db := connect(t, mariadb(t).URL, nil)
			s := open(t, db, Config{})
			ctx := context.Background()
			work := s.cfg.Table + "_work"
			exec(t, db, "CREATE TABLE "+work+" (n INT)")
			defer exec(t, db, "DROP TABLE "+work)
			worked := func() (n int) {
				if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+work).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			do := func(c store.Completion, commit bool) error {
				tx := begin(t, db, &sql.TxOptions{Isolation: isolation})
				var n int
				if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+work).Scan(&n); err != nil { // a snapshot, where there is one
					t.Fatal(err)
				}
				exec(t, tx, "INSERT INTO "+work+" VALUES (1)")
				err := s.Complete(ctx, tx, c)
				if err == nil && commit {
					return tx.Commit()
				}
				_ = tx.Rollback()
				return err
			}
			g := take(t, s, "x", "a")
			c := store.Completion{Name: "x", Holder: "a", Token: g.Token, Mark: 5, State: []byte("done")}
			if err := do(c, false); err != nil || worked() != 0 || acquire(t, s, claim("x", "a"))[0].Grant.Mark != 0 {
				t.Fatalf("%v: a transaction that was rolled back has left something", err)
			}
			if err := do(c, true); err != nil || worked() != 1 {
				t.Fatal(err, worked())
			}
			if g := acquire(t, s, claim("x", "a"))[0].Grant; g.Mark != 5 || string(g.State) != "done" {
				t.Fatalf("the record is %+v after the commit", g)
			}
			var done *store.DoneError
			if err := do(c, true); !errors.As(err, &done) || done.Record.Mark != 5 || done.Record.Holder != "a" || worked() != 1 {
				t.Errorf("completing again answered %v", err)
			}
			r := done.Record
			if r.Token != g.Token || string(r.State) != "done" || r.Left < 50*time.Minute || r.Left > time.Hour || r.Age <= 0 {
				t.Errorf("completing again tells of %+v", r)
			}
			if err := do(store.Completion{Name: "x", Holder: "a", Token: g.Token, State: []byte("more")}, true); err != nil {
				t.Errorf("a completion without a mark: %v", err)
			}
			if g := acquire(t, s, claim("x", "a"))[0].Grant; g.Mark != 5 || string(g.State) != "more" {
				t.Errorf("the record is %+v", g)
			}
			if err := do(store.Completion{Name: "x", Holder: "a", Token: g.Token, Mark: 6}, true); err != nil {
				t.Errorf("a completion without a state: %v", err)
			}
			if g := acquire(t, s, claim("x", "a"))[0].Grant; g.Mark != 6 || string(g.State) != "more" {
				t.Errorf("the record is %+v", g)
			}
			if err := do(store.Completion{Name: "x", Holder: "a", Token: g.Token, State: []byte{}}, true); err != nil {
				t.Errorf("a completion that clears the state: %v", err)
			}
			if g := acquire(t, s, claim("x", "a"))[0].Grant; g.Mark != 6 || len(g.State) != 0 {
				t.Errorf("the record is %+v", g)
			}
			c.Mark = 7
			for what, wrong := range map[string]store.Completion{
				"another token":  {Name: "x", Holder: "a", Token: g.Token + 1, Mark: 7},
				"another holder": {Name: "x", Holder: "b", Token: g.Token, Mark: 7},
				"another name":   {Name: "y", Holder: "a", Token: g.Token, Mark: 7},
				"no mark":        {Name: "x", Holder: "b", Token: g.Token},
			} {
				if err := do(wrong, true); !errors.Is(err, store.ErrLost) {
					t.Errorf("%s: %v, want ErrLost", what, err)
				}
			}
			release(t, s, store.Release{Name: "x", Holder: "a", Token: g.Token})
			second := take(t, s, "x", "b")
			if err := do(c, true); !errors.Is(err, store.ErrLost) || worked() != 4 {
				t.Errorf("completing a lease that was taken over: %v, %d works", err, worked())
			}
			release(t, s, store.Release{Name: "x", Holder: "b", Token: second.Token, Linger: time.Hour})
			lingers := store.Completion{Name: "x", Holder: "b", Token: second.Token, Mark: 7}
			if err := do(lingers, true); !errors.Is(err, store.ErrLost) {
				t.Errorf("completing a lease that was released and lingers: %v", err)
			}
			over := acquire(t, s, store.Claim{Name: "over", Holder: "a", TTL: time.Millisecond})[0].Grant
			servers.Wait(t, "the lease to be over", func() bool {
				return recordOf(t, acquire(t, s, store.Claim{Name: "over", Holder: "-", TTL: time.Second, Mark: -1})[0].Err).Free()
			})
			if err := do(store.Completion{Name: "over", Holder: "a", Token: over.Token, Mark: 1}, true); !errors.Is(err, store.ErrLost) {
				t.Errorf("completing a lease that is over, and that nobody has taken over: %v", err)
			}
			if err := do(store.Completion{Name: "x", Holder: "b", Token: 0, Mark: 1}, true); !errors.As(err, new(*store.InvalidError)) {
				t.Errorf("a token of 0: %v", err)
			}
		})
	}
}

// A completion keeps the name until the transaction has ended, also one that writes nothing.
func TestCompletionKeepsTheName(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	lease, tx := take(t, s, "x", "a"), begin(t, db, nil)
	if err := s.Complete(t.Context(), tx, store.Completion{Name: "x", Holder: "a", Token: lease.Token}); err != nil {
		t.Fatal(err)
	}
	free := func() bool {
		var name string
		err := db.QueryRowContext(t.Context(), "SELECT name FROM "+s.table(s.cfg.Table)+" WHERE name = 'x' FOR UPDATE SKIP LOCKED").Scan(&name)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			t.Fatal(err)
		}
		return err == nil
	}
	if free() {
		t.Error("the row of the lease can be changed while the transaction is open")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if !free() {
		t.Error("the row of the lease cannot be changed when the transaction has ended")
	}
}

// The row that a claim has locked decides, and not what it has seen of it before: the name was taken, its time run, its tokens used up or the row spoiled since.
func TestRowThatHasChangedSinceTheLook(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, m.driver)
			s := open(t, db, m.config)
			for set, want := range map[string]bool{
				"mark = 4": true, "mark = 5": false, "mark = 6": false, "lock_until = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR": false,
				"token = 9223372036854775807": false, "released = 2": false,
			} {
				for _, names := range [][]string{{"ns/one"}, {"ns/one", "ns/two"}} {
					exec(t, db, "DELETE FROM "+s.table(s.cfg.Table))
					var rows [][]cell
					for _, name := range names {
						release(t, s, store.Release{Name: name, Holder: "a", Token: take(t, s, name, "a").Token})
						rows = append(rows, s.claimRow(store.Claim{Name: name, Holder: "b", TTL: time.Hour, Mark: 5}))
					}
					exec(t, db, "UPDATE "+s.table(s.cfg.Table)+" SET "+set+" WHERE name = 'ns/one'")
					f := wanting(rows)
					f["wanted"] = "(SELECT c.*, c.row_name AS known FROM {batch} AS c)" // as all looked free
					if len(names) == 1 {
						f["is_wanted"] = "r.name = {c.row_name}"
					}
					records, err := s.changed(t.Context(), f, len(names))
					if err != nil {
						t.Fatal(err)
					}
					for i, r := range records {
						if r == nil || r.taken != (want || i > 0) {
							t.Errorf("%d names, %s: number %d is %+v", len(names), set, i, r)
						}
					}
				}
			}
		})
	}
}

// A lease that looks as if it had ended is told as lost only after it has been seen that nobody has locked its row, who may be about to extend it: where that
// cannot be looked at, it is asked again.
func TestEndedLeaseThatCannotBeLookedAt(t *testing.T) {
	s, w := wired(t, Config{}, nil)
	db := connect(t, mariadb(t).URL, nil)
	e := store.Extension{Name: "name", Holder: "a", Token: take(t, s, "name", "a").Token, TTL: time.Hour}
	exec(t, db, "UPDATE "+s.cfg.Table+" SET lock_until = locked_at")
	extend := func() error {
		errs, err := s.Extend(context.Background(), []store.Extension{e})
		return errors.Join(append(errs, err)...)
	}
	if err := extend(); !errors.Is(err, store.ErrLost) { // and what the session prepares is prepared
		t.Fatalf("a lease that has ended: %v", err)
	}
	tx := begin(t, db, nil)
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow("SELECT 1 FROM " + s.cfg.Table + " WHERE name = 'name' FOR UPDATE").Scan(&n); err != nil {
		t.Fatal(err)
	}
	look, answered := w.keepBack("SKIP LOCKED"), make(chan error, 1)
	go func() { answered <- extend() }()
	<-look.is
	w.lose.Store(true)
	close(look.goes)
	if err := <-answered; !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrLost) || w.lost.Load() != 1 {
		t.Errorf("somebody has locked the row, and %d looks at it were lost: %v", w.lost.Load(), err)
	}
}

// A lease that looks as if it had ended, because a transaction that extends it was not committed yet, is looked at
// again when it has been: it is live, and is extended or released.
func TestEndedLeaseThatIsExtendedMeanwhile(t *testing.T) {
	s, w := wired(t, Config{}, nil)
	db := connect(t, mariadb(t).URL, nil)
	table := s.table(s.cfg.Table)
	for verb, change := range map[string]func(token int64) ([]error, error){
		"Extend": func(token int64) ([]error, error) {
			return s.Extend(t.Context(), []store.Extension{{Name: "name", Holder: "a", Token: token, TTL: time.Hour}})
		},
		"Release": func(token int64) ([]error, error) {
			return s.Release(t.Context(), []store.Release{{Name: "name", Holder: "a", Token: token}})
		},
	} {
		exec(t, db, "DELETE FROM "+table)
		token := take(t, s, "name", "a").Token
		exec(t, db, "UPDATE "+table+" SET lock_until = locked_at")
		// The session prepares what it does by the way.
		if errs, err := change(token); err != nil || !errors.Is(errs[0], store.ErrLost) {
			t.Fatalf("%s of a lease that has ended: %v, %v", verb, errs, err)
		}
		tx := begin(t, db, nil)
		exec(t, tx, "UPDATE "+table+" SET lock_until = UTC_TIMESTAMP(6) + INTERVAL 30 MINUTE")
		look, answered := w.keepBack("SKIP LOCKED"), make(chan error, 1)
		go func() {
			errs, err := change(token)
			answered <- errors.Join(append(errs, err)...)
		}()
		select {
		case <-look.is:
		case err := <-answered:
			t.Fatalf("%s: nobody has looked whether somebody has locked the row: %v", verb, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		close(look.goes)
		if err := <-answered; err != nil {
			t.Errorf("%s of a lease that another transaction has just extended: %v", verb, err)
		}
	}
}

// A process that stands still between two steps of a transaction does not keep what it has locked for as long as a session may be idle, which is hours.
func TestTransactionThatStandsStill(t *testing.T) {
	t.Parallel()
	servers.Long(t)
	stopped, w := wired(t, Config{Dialect: MySQL}, nil)
	other, err := New(connect(t, mariadb(t).URL, func(c *mysql.Config) { c.Params = map[string]string{"innodb_lock_wait_timeout": "1"} }), stopped.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	release(t, other, store.Release{Name: "known", Holder: "z", Token: take(t, other, "known", "z").Token, Retain: time.Hour})
	kept, answered := w.keepBack(sqlCommit), make(chan error, 1)
	go func() {
		out, err := stopped.Acquire(context.Background(), []store.Claim{claim("known", "a"), claim("new", "a")})
		for _, o := range out {
			err = errors.Join(err, o.Err)
		}
		answered <- err
	}()
	<-kept.is
	for _, name := range []string{"known", "new"} {
		servers.Wait(t, name, func() bool {
			out, err := other.Acquire(context.Background(), []store.Claim{claim(name, "b")})
			return err == nil && out[0].Err == nil
		})
	}
	close(kept.goes)
	if err := <-answered; err == nil {
		t.Error("who stood still is told that it has what others have")
	}
}
