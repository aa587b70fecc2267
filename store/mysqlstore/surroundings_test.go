package mysqlstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
)

func examined(t *testing.T, s *Store, subject string) store.Finding {
	t.Helper()
	findings, err := s.Examine(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return finding(t, findings, subject)
}

func TestEncryptionIsExamined(t *testing.T) {
	for _, c := range []struct {
		cipher, host string
		good         bool
	}{
		{"", "localhost", true}, {"", "127.0.0.1", true}, {"", "::1", true}, {"", "10.1.2.3", false}, {"", "app.example", false},
		{"TLS_AES_128_GCM_SHA256", "10.1.2.3", true},
	} {
		if found, good := encrypted(c.cipher, c.host); good != c.good {
			t.Errorf("%+v: %s", c, found)
		}
	}
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	if f := examined(t, s, "encryption"); f.Level != store.LevelOK || !strings.Contains(f.Found, "within this machine") {
		t.Errorf("on this machine: %+v", f)
	}
}

// A proxy that spreads connections over two servers gives each name to two holders.
func TestServersBehindOneAddressAreExamined(t *testing.T) {
	all := []string{mariadb(t).Addr, servers.MariaDB(t).Addr}
	if all[0] == "" {
		t.Skip("the server is somebody else's")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	var n atomic.Int64
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", all[n.Add(1)%2])
			if err != nil {
				client.Close()
				continue
			}
			go func() { defer server.Close(); _, _ = io.Copy(server, client) }()
			go func() { defer client.Close(); _, _ = io.Copy(client, server) }()
		}
	}()
	spread := connect(t, mariadb(t).URL, func(c *mysql.Config) { c.Addr = listener.Addr().String() })
	s, err := New(spread, Config{Table: newTable(t)})
	if err != nil {
		t.Fatal(err)
	}
	if f := examined(t, s, "servers"); f.Level != store.LevelError || !strings.Contains(f.Found, "several") {
		t.Errorf("two servers: %+v", f)
	}
	one := open(t, connect(t, mariadb(t).URL, nil), Config{})
	if f := examined(t, one, "servers"); f.Level != store.LevelOK {
		t.Errorf("one server: %+v", f)
	}
}

// Servers that call themselves the same, as containers of one image do, are told apart by when they were started, which is known to seconds.
func TestServersOfOneName(t *testing.T) {
	at := time.Now()
	for apart, want := range map[time.Duration]int{0: 1, 2 * time.Second: 1, -2 * time.Second: 1, time.Minute: 2, -time.Minute: 2} {
		seen := map[string]time.Time{}
		for _, started := range []time.Time{at, at.Add(apart), at, at.Add(apart)} {
			meet(seen, "db", started)
		}
		if len(seen) != want {
			t.Errorf("started %v apart: %v, want %d servers", apart, seen, want)
		}
	}
}

func TestTablesOfOthersAreExamined(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	take(t, s, "x", "a")
	for _, subject := range []string{"triggers", "clock and records", "idle timeout", "lock timeout"} {
		if f := examined(t, s, subject); f.Level != store.LevelOK {
			t.Errorf("a good server: %+v", f)
		}
	}
	exec(t, db, "CREATE TRIGGER "+s.cfg.Table+"_t BEFORE UPDATE ON "+s.cfg.Table+" FOR EACH ROW SET NEW.token = OLD.token")
	if f := examined(t, s, "triggers"); f.Level != store.LevelError || !strings.Contains(f.Found, s.cfg.Table+"_t") {
		t.Errorf("a trigger: %+v", f)
	}
	exec(t, db, "DROP TRIGGER "+s.cfg.Table+"_t", "UPDATE "+s.cfg.Table+" SET locked_at = locked_at + INTERVAL 1 HOUR")
	if f := examined(t, s, "clock and records"); f.Level != store.LevelError || !strings.Contains(f.Found, "set back") {
		t.Errorf("a clock that was set back: %+v", f)
	}
	impatient := connect(t, mariadb(t).URL, func(c *mysql.Config) {
		c.Params = map[string]string{"wait_timeout": "5", "innodb_lock_wait_timeout": "0"}
	})
	hasty, err := New(impatient, s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"idle timeout", "lock timeout"} {
		if f := examined(t, hasty, subject); f.Level != store.LevelWarning {
			t.Errorf("a short timeout: %+v", f)
		}
	}
}

// Nothing is taken or forgotten in tables of another version, or of an engine without transactions.
func TestUnfitTables(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	for change, says := range map[string]string{
		"ALTER TABLE {t} ENGINE = MyISAM":      "MyISAM, which has no transactions",
		"ALTER TABLE {t}_meta ENGINE = Aria":   "Aria, which has no transactions",
		"UPDATE {t}_meta SET version = 2":      "use a newer one",
		"UPDATE {t}_meta SET version = 0":      "migrate up",
		"DELETE FROM {t}_meta":                 "migrate up",
		"ALTER TABLE {t}_meta DROP COLUMN one": "migrate up",
	} {
		s := open(t, db, Config{})
		release(t, s, store.Release{Name: "over", Holder: "a", Token: take(t, s, "over", "a").Token})
		exec(t, db, strings.ReplaceAll(change, "{t}", s.cfg.Table))
		s = another(t, s)
		n, swept := s.Sweep(context.Background(), 10)
		_, acquired := s.Acquire(context.Background(), []store.Claim{claim("x", "a")})
		for verb, err := range map[string]error{"Acquire": acquired, "Sweep": swept} {
			if !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), says) || n != 0 {
				t.Errorf("%s: %s: %v, %d forgotten", change, verb, err, n)
			}
		}
	}
}

// A page that a crash has torn is mended from the doublewrite buffer, where that has pages.
func TestTornPages(t *testing.T) {
	for setting, want := range map[string]store.Answer{
		"": store.Yes, "ON": store.Yes, "1": store.Yes, "DETECT_AND_RECOVER": store.Yes, "DETECT_ONLY": store.No, "OFF": store.No, "fast": store.No,
	} {
		p := &probe{settings: map[string]string{"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": setting}}
		if d := p.durable(); d.Answer != want {
			t.Errorf("innodb_doublewrite = %s: %+v", setting, d)
		}
	}
}

// MySQL has renamed the setting for semisynchronous replication, and either name counts.
func TestSemisynchronousReplication(t *testing.T) {
	for setting, want := range map[string]bool{"rpl_semi_sync_master_enabled": true, "rpl_semi_sync_source_enabled": true, "log_bin": false} {
		p := &probe{replicas: 1, server: &server{mariadb: true}, settings: map[string]string{setting: "ON"}}
		if f := p.fencing(); f.Answer != store.No || strings.Contains(f.Why, "semisynchronous") != want {
			t.Errorf("with %s: %+v", setting, f)
		}
	}
}

// A server's clock that is behind this machine's is as bad as one that is ahead.
func TestClocksThatDiffer(t *testing.T) {
	for skew, want := range map[time.Duration]store.Level{0: store.LevelOK, maxSkew: store.LevelOK, -maxSkew: store.LevelOK, 2 * maxSkew: store.LevelWarning, -2 * maxSkew: store.LevelWarning} {
		var x examination
		x.skew(skew)
		if got := x.findings[0].Level; got != want {
			t.Errorf("%v: %v, want %v", skew, got, want)
		}
	}
}
