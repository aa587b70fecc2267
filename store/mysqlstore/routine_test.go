package mysqlstore

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
)

// hold acquires a name, is refused it as another, extends it with a state and releases it.
func hold(t *testing.T, s *Store, name string) {
	t.Helper()
	g := take(t, s, name, "a")
	if out := acquire(t, s, claim(name, "b")); !errors.Is(out[0].Err, store.ErrHeld) {
		t.Errorf("a held name: %v", out[0].Err)
	}
	errs, err := s.Extend(context.Background(), []store.Extension{{Name: name, Holder: "a", Token: g.Token, TTL: time.Hour, State: []byte{0, '\'', 255}}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Error(err)
	}
	release(t, s, store.Release{Name: name, Holder: "a", Token: g.Token, Mark: 5, Retain: time.Hour})
	if again := take(t, s, name, "a"); again.Token <= g.Token || again.Mark != 5 || string(again.State) != "\x00'\xff" {
		t.Errorf("after %+v: %+v", g, again)
	}
}

// holdMany acquires, extends and releases several names at once, then one name more, and so on: what is prepared serves any number of rows.
func holdMany(t *testing.T, s *Store, prefix string) {
	t.Helper()
	for n := 3; n <= 5; n++ {
		claims, extensions, releases := make([]store.Claim, n), make([]store.Extension, n), make([]store.Release, n)
		for i := range n {
			claims[i] = claim(prefix+strconv.Itoa(i), "a"+strconv.Itoa(i))
		}
		for i, o := range acquire(t, s, claims...) {
			if o.Err != nil {
				t.Fatalf("%s: %v", claims[i].Name, o.Err)
			}
			name, holder, state := claims[i].Name, claims[i].Holder, []byte{0, '\'', 255, byte(i)}
			extensions[i] = store.Extension{Name: name, Holder: holder, Token: o.Grant.Token, TTL: time.Duration(n+i) * time.Hour, Mark: int64(n*10 + i), State: state}
			releases[i] = store.Release{Name: name, Holder: holder, Token: o.Grant.Token, Mark: int64(n*10 + i), Retain: time.Hour}
			if want := int64(n*10 - 10 + i); n > 3 && i < n-1 && (o.Grant.Mark != want || string(o.Grant.State) != string(state)) {
				t.Errorf("%s has the mark %d and the state %q, want %d and %q", name, o.Grant.Mark, o.Grant.State, want, state)
			}
		}
		errs, err := s.Extend(t.Context(), extensions)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Error(err)
		}
		errs, err = s.Release(t.Context(), releases)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Error(err)
		}
	}
}

// A session that has forgotten its prepared statements prepares them again. Prepared statements survive changes of the tables.
func TestSessionsThatForget(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	s.db.SetMaxOpenConns(1) // so there is one session
	hold(t, s, "first")
	holdMany(t, s, "many")
	prepared := 0
	for _, r := range s.routines.Range {
		prepared++
		exec(t, s.db, "DEALLOCATE PREPARE "+r.(*routine).name) // an error if it was not prepared
	}
	if prepared != 6 {
		t.Errorf("%d statements are prepared, want those that acquire, extend and release, each for one name and for many", prepared)
	}
	hold(t, s, "second")
	holdMany(t, s, "more")
	exec(t, s.db, "ALTER TABLE "+s.table(s.cfg.Table)+" ADD COLUMN more INT NULL, FORCE", "FLUSH TABLES")
	hold(t, s, "third")
	holdMany(t, s, "most")
	other := open(t, s.db, Config{}) // other tables in the same session
	take(t, s, "both", "a")
	take(t, other, "both", "b")
	if s.unprepared.Load() || other.unprepared.Load() {
		t.Error("the statements are not prepared any more")
	}
}

// A server that prepares nothing is sent the statements as text.
func TestServerThatDoesNotPrepare(t *testing.T) {
	server := servers.MariaDB(t, "--max-prepared-stmt-count=0")
	s := open(t, connect(t, server.URL, nil), Config{})
	hold(t, s, "first")
	if !s.unprepared.Load() {
		t.Error("something was prepared")
	}
	hold(t, s, "second")
}

// In a session in the mode of Oracle, where such a statement begins in another way, the text is sent.
func TestSessionThatDoesNotPrepare(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, func(c *mysql.Config) { c.Params = map[string]string{"sql_mode": "'ORACLE'"} }), Config{})
	hold(t, s, "name")
	if !s.unprepared.Load() {
		t.Error("something was prepared")
	}
}
