package pgstore

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// found checks the finding about a subject: its level, and what it says is there and is to be done.
func found(t *testing.T, s *Store, subject string, level store.Level, says ...string) {
	t.Helper()
	f := finding(t, s, subject)
	text := f.Found + "; " + f.Fix
	for _, word := range says {
		if !strings.Contains(text, word) {
			t.Errorf("%s: %+v; it should say %q", subject, f, word)
		}
	}
	if f.Level != level || level != store.LevelOK && f.Fix == "" {
		t.Errorf("%s: %+v; want %s", subject, f, level)
	}
}

// A remote connection says that it leads to another machine.
type remote struct{ net.Conn }

func (remote) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5432} }

func TestExamineSeesThatNothingIsEncrypted(t *testing.T) {
	s := fresh(t, server(t).URL)
	found(t, s, "encryption", store.LevelOK, "this machine")
	cfg := s.pool.Config()
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		return remote{c}, err
	}
	far, err := Open(background, cfg, s.tables.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	found(t, far, "encryption", store.LevelWarning, "password", "192.0.2.1", "sslmode=verify-full")
	if !local(&net.UnixAddr{Name: "/run/postgresql/.s.PGSQL.5432"}) || local(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}) {
		t.Error("what is local")
	}
}

func TestExamineSeesShortTimeouts(t *testing.T) {
	s := fresh(t, server(t).URL)
	found(t, s, "timeouts", store.LevelOK)
	for name, value := range map[string]string{"statement_timeout": "1s", "lock_timeout": "50ms", "idle_in_transaction_session_timeout": "100ms"} {
		found(t, open(t, server(t).URL, "schema", s.tables.schema, name, value), "timeouts", store.LevelError, name+" "+value, "at least")
		found(t, open(t, server(t).URL, "schema", s.tables.schema, name, "1min"), "timeouts", store.LevelOK, name+" 1min")
	}
}

func TestExamineSeesForeignTriggers(t *testing.T) {
	s := fresh(t, server(t).URL)
	found(t, s, "triggers", store.LevelOK)
	run(t, s.pool, "CREATE FUNCTION "+s.tables.schema+".nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$")
	for _, c := range []struct {
		make, undo string
		level      store.Level
		says       string
	}{
		{"CREATE TRIGGER audit AFTER UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s.nothing()", "DROP TRIGGER audit ON %s", store.LevelWarning, `trigger "audit"`},
		{"CREATE TRIGGER undo BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s.nothing()", "DROP TRIGGER undo ON %s", store.LevelError, `trigger "undo"`},
		{"CREATE RULE keep AS ON DELETE TO %s DO INSTEAD NOTHING", "DROP RULE keep ON %s", store.LevelError, `rule "keep"`},
		{"ALTER TABLE %s ENABLE ROW LEVEL SECURITY", "ALTER TABLE %s DISABLE ROW LEVEL SECURITY", store.LevelError, "row-level security"},
	} {
		for _, table := range []string{s.tables.records, s.tables.floor, s.tables.meta, s.tables.line} {
			sql := strings.Replace(c.make, "%s", table, 1)
			run(t, s.pool, strings.Replace(sql, "%s", s.tables.schema, 1))
			found(t, s, "triggers", c.level, c.says)
			run(t, s.pool, fmt.Sprintf(c.undo, table))
		}
	}
	for _, sql := range []string{"CREATE TRIGGER undo BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s.nothing()", "CREATE TRIGGER audit AFTER UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s.nothing()"} {
		run(t, s.pool, fmt.Sprintf(sql, s.tables.records, s.tables.schema))
	}
	found(t, s, "triggers", store.LevelError, `trigger "undo"`, `trigger "audit"`) // the worse of both
	for _, name := range []string{"undo", "audit"} {
		run(t, s.pool, "DROP TRIGGER "+name+" ON "+s.tables.records)
	}
	found(t, s, "triggers", store.LevelOK)
	replica := open(t, server(t).URL, "schema", s.tables.schema, "options", "-c session_replication_role=replica")
	found(t, replica, "replication role", store.LevelError, "origin")
	shared, _ := shared(t)
	found(t, shared, "triggers", store.LevelOK)
}

func TestExamineSeesAClockThatWasSetBack(t *testing.T) {
	s := fresh(t, server(t).URL)
	found(t, s, "clock set back", store.LevelOK)
	lease := take(t, s, "name", "a", time.Minute)
	found(t, s, "clock set back", store.LevelOK)
	run(t, s.pool, "UPDATE "+s.tables.records+" SET locked_at = locked_at + interval '1 hour'")
	found(t, s, "clock set back", store.LevelError, "59m5", "NTP")
	run(t, s.pool, "DELETE FROM "+s.tables.records)
	found(t, s, "clock set back", store.LevelOK)
	run(t, s.pool, "INSERT INTO "+s.tables.floor+" VALUES ($1)", lease.Token+time.Hour.Microseconds())
	found(t, s, "clock set back", store.LevelError)
	run(t, s.pool, "DELETE FROM "+s.tables.floor)
	found(t, s, "floor", store.LevelError, "empty")
}

// One address leads to two servers in turns.
func TestExamineSeesTwoServers(t *testing.T) {
	s := fresh(t, server(t).URL)
	found(t, s, "one server", store.LevelOK)
	other := servers.Postgres(t, quiet...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", []string{server(t).Addr, other.Addr}[n%2])
			if err != nil {
				c.Close()
				continue
			}
			go func() { io.Copy(to, c); to.Close() }()
			go func() { io.Copy(c, to); c.Close() }()
		}
	}()
	u, err := url.Parse(server(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.Addr().String()
	found(t, open(t, u.String(), "schema", s.tables.schema), "one server", store.LevelError, "2 servers", "one primary")
}
