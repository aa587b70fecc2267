package mysqlstore

import (
	"context"
	"errors"
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

// A session that has forgotten its prepared statements prepares them again. Prepared statements survive changes of the tables.
func TestSessionsThatForget(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	s.db.SetMaxOpenConns(1) // so there is one session
	hold(t, s, "first")
	for _, key := range []string{"acquire", sqlExtend, sqlRelease} {
		r, known := s.routines.Load(key)
		if !known {
			t.Fatalf("no routine for %s", key)
		}
		exec(t, s.db, "DEALLOCATE PREPARE "+r.(*routine).name) // an error if it was not prepared
	}
	hold(t, s, "second")
	exec(t, s.db, "ALTER TABLE "+s.table(s.cfg.Table)+" ADD COLUMN more INT NULL, FORCE", "FLUSH TABLES")
	hold(t, s, "third")
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
