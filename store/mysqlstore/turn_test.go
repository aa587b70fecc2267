package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// turnOf reports whether the turn for a name is somebody's.
func turnOf(t *testing.T, s *Store, name string) bool {
	t.Helper()
	var user sql.NullInt64
	if err := s.db.QueryRowContext(t.Context(), "SELECT IS_USED_LOCK("+s.turnName(s.row(name))+")").Scan(&user); err != nil {
		t.Fatal(err)
	}
	return user.Valid
}

// another returns one more handle on the records of a store.
func another(t *testing.T, s *Store) *Store {
	t.Helper()
	other, err := New(s.db, s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return other
}

func granted(t *testing.T, s *Store, name, holder string) store.Grant {
	t.Helper()
	outcomes, err := s.Acquire(t.Context(), []store.Claim{{Name: name, Holder: holder, TTL: time.Hour}})
	if err = errors.Join(err, outcomes[0].Err); err != nil {
		t.Fatal(err)
	}
	return outcomes[0].Grant
}

func released(t *testing.T, s *Store, name, holder string, token int64) {
	t.Helper()
	errs, err := s.Release(t.Context(), []store.Release{{Name: name, Holder: holder, Token: token}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// watched watches a name until the function that it returns is called.
func watched(t *testing.T, s *Store, name string) (wake <-chan struct{}, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	wake, err := s.Watch(ctx, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return wake, cancel
}

// woken waits until a watch is woken.
func woken(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	servers.Wait(t, "a watch that is woken", func() bool {
		select {
		case <-wake:
			return true
		default:
			return false
		}
	})
}

// TestTurns: of two who wait one has its turn, keeps it while it has the lease, and ends it with the release. Then it is the other's.
func TestTurns(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	first := granted(t, s, "a", "first")
	one, two := another(t, s), another(t, s)
	wake, end := watched(t, one, "a")
	servers.Wait(t, "a turn", func() bool { return turnOf(t, s, "a") })
	other, endOther := watched(t, two, "a")
	defer endOther()
	released(t, s, "a", "first", first.Token)
	woken(t, wake)
	second := granted(t, one, "a", "second")
	end()
	for len(other) > 0 { // what it was woken by before
		<-other
	}
	servers.Wait(t, "a second that waits in the server", func() bool { return waitsForATurn(t, s) })
	if !turnOf(t, s, "a") {
		t.Error("the turn ended before the lease")
	}
	released(t, one, "a", "second", second.Token)
	woken(t, other)
	granted(t, two, "a", "third")
	servers.Wait(t, "the turn of the other", func() bool { return mine(two, "a") && !mine(one, "a") })
}

// mine reports whether a handle has its turn.
func mine(s *Store, name string) bool {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	t := s.turns.of[s.row(name)]
	return t != nil && t.ours
}

// waitsForATurn reports whether a session sleeps in the server until its turn comes.
func waitsForATurn(t *testing.T, s *Store) bool {
	t.Helper()
	n := 0
	if err := s.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// TestTurnEndsWithTheWait: who has given up waiting, and has no lease, keeps no turn.
func TestTurnEndsWithTheWait(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	granted(t, s, "a", "first")
	one := another(t, s)
	_, end := watched(t, one, "a")
	servers.Wait(t, "a turn", func() bool { return turnOf(t, s, "a") })
	end()
	servers.Wait(t, "the end of the turn", func() bool { return !turnOf(t, s, "a") })
	_, end = watched(t, one, "a")
	defer end()
	servers.Wait(t, "another turn", func() bool { return turnOf(t, s, "a") })
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the end of the turn of a closed handle", func() bool { return !turnOf(t, s, "a") })
}

// TestTurnThatIsNotPassedOn: while a process keeps its turn and does nothing, the others learn of a release all the same.
func TestTurnThatIsNotPassedOn(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	first := granted(t, s, "a", "first")
	stuck, err := s.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	if _, err := stuck.ExecContext(t.Context(), "SELECT GET_LOCK("+s.turnName(s.row("a"))+", 0)"); err != nil {
		t.Fatal(err)
	}
	wake, end := watched(t, another(t, s), "a")
	defer end()
	released(t, s, "a", "first", first.Token)
	woken(t, wake)
}

// TestWithoutTurns: with too few connections, and where the server keeps no such locks, all who wait look at the name.
func TestWithoutTurns(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	for name, prepare := range map[string]func(*Store){
		"connections": func(*Store) { db.SetMaxOpenConns(1) },
		"locks": func(s *Store) {
			db.SetMaxOpenConns(0)
			s.turns.fail("", nil, errNoTurns)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := granted(t, s, name, "first")
			one := another(t, s)
			prepare(one)
			wake, end := watched(t, one, name)
			defer end()
			if one.turns.mu.Lock(); len(one.turns.of) != 0 {
				t.Error("it waits for a turn")
			}
			one.turns.mu.Unlock()
			released(t, s, name, "first", first.Token)
			woken(t, wake)
		})
	}
}

// TestTurnsLeaveConnections: who waits for many names takes no more connections for turns than can be spared, and is
// woken all the same.
func TestTurnsLeaveConnections(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	for most, turns := range map[int]int{0: mostTurns, 6: 3, 2: 1} {
		one := another(t, s)
		db.SetMaxOpenConns(most)
		wakes := map[string]<-chan struct{}{}
		tokens := map[string]int64{}
		for i := range mostTurns + 2 {
			name := fmt.Sprintf("%d/%d", most, i)
			tokens[name] = granted(t, s, name, "first").Token
			wake, end := watched(t, one, name)
			defer end()
			wakes[name] = wake
		}
		one.turns.mu.Lock()
		if n := len(one.turns.of); n != turns {
			t.Errorf("of %d connections turns take %d, want %d", most, n, turns)
		}
		one.turns.mu.Unlock()
		for name, wake := range wakes {
			released(t, s, name, "first", tokens[name])
			woken(t, wake)
		}
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A turn that has failed after it was given up forgets itself alone: another one may have begun for the same row.
func TestFailedTurnForgetsItselfAlone(t *testing.T) {
	old, next := &turn{}, &turn{watches: 1}
	ts := &turns{of: map[string]*turn{"row": next}}
	ts.fail("row", old, context.Canceled)
	if ts.of["row"] != next || ts.off {
		t.Errorf("after the failure of an older turn: %v, off %t", ts.of, ts.off)
	}
	ts.fail("row", next, context.Canceled)
	if len(ts.of) != 0 || ts.off {
		t.Errorf("after its own failure: %v, off %t", ts.of, ts.off)
	}
}

// Who waits for another's turn looks at the name four times a second, and who has the turn whenever it is asked for.
func TestLooksOutOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := &turns{of: map[string]*turn{"ours": {ours: true, looked: time.Now()}, "another's": {looked: time.Now()}}}
		looks := map[string]int{}
		for range 100 {
			time.Sleep(turnLook / 25)
			for _, row := range ts.due([]string{"ours", "another's", "without turns"}) {
				looks[row]++
			}
		}
		if looks["ours"] != 100 || looks["without turns"] != 100 || looks["another's"] != 4 {
			t.Errorf("in 100 looks within four times %v: %v", turnLook, looks)
		}
	})
}

// A turn begins without what is left of the one before: the release that ended it, and how long its lease was to last.
func TestTurnBeginsAnew(t *testing.T) {
	one := &turn{watches: 1, news: make(chan struct{}, 1)}
	ts := &turns{of: map[string]*turn{"row": one}}
	for n := range 2 {
		ts.begin(one)
		if _, over := ts.left(one); over {
			t.Fatalf("turn %d is over before anything has happened in it", n+1)
		}
		ts.leased("row", time.Hour)
		ts.released("row")
		if _, over := ts.left(one); !over {
			t.Errorf("turn %d goes on after the release", n+1)
		}
	}
	ts.begin(one)
	one.watches = 0
	if left, over := ts.left(one); !over {
		t.Errorf("a turn in which nobody waits is kept for %v, for the lease of the one before", left)
	}
}

// turnsOn returns how many turns are counted on a pool.
func turnsOn(db *sql.DB) int {
	taking.Lock()
	defer taking.Unlock()
	return taking.of[db]
}

// TestTurnsOfTwoHandlesOnOnePool: they leave half of the connections to the program, and to each other. A turn that
// ends gives its place to either of them.
func TestTurnsOfTwoHandlesOnOnePool(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	one, two := open(t, db, Config{}), open(t, db, Config{})
	db.SetMaxOpenConns(4)
	rows := func(s *Store) int {
		s.turns.mu.Lock()
		defer s.turns.mu.Unlock()
		return len(s.turns.of)
	}
	watch := func(s *Store, name string) (end func()) {
		t.Helper()
		granted(t, s, name, "holder")
		_, end = watched(t, s, name)
		if n := rows(one) + rows(two); n > 2 || n != turnsOn(db) {
			t.Fatalf("%d turns, %d of them counted, of a pool of 4 connections; want half of them at most", n, turnsOn(db))
		}
		return end
	}
	ended := watch(one, "a")
	watch(two, "a")
	watch(one, "b")
	watch(two, "b")
	if rows(one) != 1 || rows(two) != 1 {
		t.Fatalf("%d and %d turns; want one of each handle, as the first who waited", rows(one), rows(two))
	}
	ended()
	servers.Wait(t, "a place that is given back", func() bool { return turnsOn(db) == 1 })
	watch(two, "c")
	if rows(two) != 2 {
		t.Error("the place of a turn that has ended is not taken again")
	}
	for _, s := range []*Store{one, two} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := turnsOn(db); n != 0 {
		t.Errorf("%d turns are counted of handles that are closed", n)
	}
}
