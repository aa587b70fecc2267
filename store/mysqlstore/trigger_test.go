package mysqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/soloist-dev/soloist/store"
)

// A claim is granted only if the row is what the claim has written: a trigger that somebody has put on the table could change it, and then two would hold the name, or have one
// token. No reply about such a row ends the process, and other names are granted.
func TestTriggersThatChangeWhatIsWritten(t *testing.T) {
	ctx := context.Background()
	for _, m := range modes {
		for what, sets := range map[string]string{
			"the end":      "lock_until = UTC_TIMESTAMP(6)",
			"the token":    "token = 7",
			"the holder":   "holder = 'other', NEW.locked_by = 'other'",
			"the release":  "released = 1",
			"the request":  "call_id = NEW.call_id + 1000",
			"all requests": "call_id = 0",
			"the number":   "call_id = NEW.call_id + 1",
		} {
			t.Run(m.name+"/"+what, func(t *testing.T) {
				db := connect(t, mariadb(t).URL, m.driver)
				s := open(t, db, m.config)
				first := map[string]int64{}
				for _, name := range []string{"bad", "worse"} {
					first[name] = take(t, s, name, "a").Token
					release(t, s, store.Release{Name: name, Holder: "a", Token: first[name]})
				}
				exec(t, db, "CREATE TRIGGER "+s.cfg.Table+"_t BEFORE UPDATE ON "+s.table(s.cfg.Table)+
					" FOR EACH ROW IF NEW.name IN ('bad', 'worse') THEN SET NEW."+sets+"; END IF")
				believed := func(claims ...store.Claim) {
					t.Helper()
					outs, err := s.Acquire(ctx, claims)
					if err != nil || outs[0].Err != nil {
						return
					}
					r := heldBy(t, s, claims[0].Name, claims[0].Holder)
					if got := outs[0].Grant.Token; got <= first[r.Name] || got != r.Token || r.Left < claims[0].TTL/2 {
						t.Errorf("granted %+v after the token %d, and the record is %+v", outs[0].Grant, first[r.Name], r)
					}
				}
				believed(claim("bad", "b"))
				believed(claim("worse", "c"), claim("good", "c")) // several have other statements than one
				believed(claim("bad", "c"), claim("good", "c"))
				good := take(t, s, "good", "c")
				_, err := s.Extend(ctx, []store.Extension{
					{Name: "bad", Holder: "b", Token: first["bad"], TTL: time.Minute},
					{Name: "good", Holder: "c", Token: good.Token, TTL: time.Minute},
				})
				if err != nil && !errors.Is(err, store.ErrUnknown) {
					t.Errorf("extensions: %v", err)
				}
			})
		}
	}
}

// A reply about a lease that a trigger has given another number is an unknown outcome.
func TestTriggerChangesTheRequestOfALease(t *testing.T) {
	ctx := context.Background()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, m.driver)
			s := open(t, db, m.config)
			bad, good := take(t, s, "bad", "a"), take(t, s, "good", "a")
			exec(t, db, "CREATE TRIGGER "+s.cfg.Table+"_t BEFORE UPDATE ON "+s.table(s.cfg.Table)+" FOR EACH ROW IF NEW.name = 'bad' THEN SET NEW.call_id = 0; END IF")
			errs, err := s.Extend(ctx, []store.Extension{{Name: "bad", Holder: "a", Token: bad.Token, TTL: time.Minute}})
			if err = errors.Join(append(errs, err)...); err == nil || errors.Is(err, store.ErrLost) {
				t.Errorf("an extension whose outcome is not known: %v", err)
			}
			errs, err = s.Extend(ctx, []store.Extension{{Name: "good", Holder: "a", Token: good.Token, TTL: time.Minute}})
			if err = errors.Join(append(errs, err)...); err != nil {
				t.Errorf("the other lease: %v", err)
			}
		})
	}
}

// A trigger that raises an error refuses its name alone, with what it says.
func TestTriggerThatRaisesAnError(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, m.driver)
			s := open(t, db, m.config)
			exec(t, db, "CREATE TRIGGER "+s.cfg.Table+"_t BEFORE INSERT ON "+s.table(s.cfg.Table)+" FOR EACH ROW IF NEW.name = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'; END IF")
			_, err := s.Acquire(context.Background(), []store.Claim{claim("bad", "a")})
			if err == nil || !strings.Contains(err.Error(), "not today") || errors.Is(err, store.ErrUnknown) {
				t.Errorf("the claim: %v", err)
			}
			take(t, s, "good", "a")
			outs := acquire(t, s, claim("x", "a"), claim("bad", "a"), claim("x", "b"))
			if outs[0].Err != nil || !errors.Is(outs[2].Err, store.ErrHeld) {
				t.Errorf("the claims of a name around it are not decided in their order: %v", outs)
			}
		})
	}
}

// An extension is believed only if the lease lasts for as long as was asked, and is still the one that was meant: a trigger could keep its end, and then
// another would take the name while the holder believes that it has it. The other leases of a batch are extended.
func TestTriggersThatChangeAnExtension(t *testing.T) {
	for _, m := range modes {
		for what, sets := range map[string]string{
			"the end as it was": "lock_until = OLD.lock_until",
			"the end":           "lock_until = UTC_TIMESTAMP(6)",
			"the token":         "token = 7",
			"the holder":        "holder = 'other', NEW.locked_by = 'other'",
			"who has locked it": "locked_by = 'other'",
			"the release":       "released = 1",
		} {
			t.Run(m.name+"/"+what, func(t *testing.T) {
				db := connect(t, mariadb(t).URL, m.driver)
				s := open(t, db, m.config)
				table := s.table(s.cfg.Table)
				exec(t, db, "CREATE TRIGGER "+s.cfg.Table+"_t BEFORE UPDATE ON "+table+" FOR EACH ROW IF LEFT(NEW.name, 3) = 'bad' THEN SET NEW."+sets+"; END IF")
				good := take(t, s, "good", "a")
				extend := func(names ...string) []error {
					t.Helper()
					var extensions []store.Extension
					for _, name := range names {
						token := good.Token
						if name != "good" {
							token = take(t, s, name, "a").Token
						}
						extensions = append(extensions, store.Extension{Name: name, Holder: "a", Token: token, TTL: 2 * time.Hour})
					}
					errs, err := s.Extend(t.Context(), extensions)
					if err != nil {
						t.Fatal(err)
					}
					return errs
				}
				if errs := extend("bad1"); errs[0] == nil {
					t.Error("one lease is extended")
				}
				if errs := extend("good", "bad2"); errs[1] == nil || errs[0] != nil {
					t.Errorf("of two leases, the one that may be extended: %v; the other: %v", errs[0], errs[1])
				}
			})
		}
	}
}

// Who repeats a claim does not get a token that a trigger has lowered: it could be less than that of the holder before.
func TestTriggerLowersTheTokenOfARepeatedClaim(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, m.driver)
			s := open(t, db, m.config)
			first := take(t, s, "bad", "a")
			release(t, s, store.Release{Name: "bad", Holder: "a", Token: first.Token})
			for _, name := range []string{"ns/above/1", "ns/above/2"} {
				release(t, s, store.Release{Name: name, Holder: "a", Token: take(t, s, name, "a").Token})
			}
			exec(t, db, "CREATE TRIGGER "+s.cfg.Table+"_t BEFORE UPDATE ON "+s.table(s.cfg.Table)+
				" FOR EACH ROW SET NEW.token = CASE WHEN NEW.name = 'bad' THEN 7 WHEN NEW.name LIKE 'ns/above/%' THEN NEW.token - 1 ELSE NEW.token END")
			for range 2 {
				for _, claims := range [][]store.Claim{{claim("bad", "b")}, {claim("bad", "b"), claim("good", "b")}, {claim("bad", "b"), claim("bad", "b")}} {
					for i, o := range acquire(t, s, claims...) {
						if claims[i].Name == "bad" && o.Err == nil && o.Grant.Token <= first.Token {
							t.Errorf("granted %+v after the token %d", o.Grant, first.Token)
						}
						if claims[i].Name == "good" && o.Err != nil {
							t.Errorf("the other name: %v", o.Err)
						}
					}
				}
			}
			if i, g, err := s.Choose(t.Context(), []string{"bad", "another"}, store.Claim{Holder: "b", TTL: time.Minute}); err == nil && i == 0 && g.Token <= first.Token {
				t.Errorf("chosen %+v after the token %d", g, first.Token)
			}
			above := func(name string) store.Claim {
				return store.Claim{Name: name, Holder: "b", TTL: time.Hour, Above: first.Token + time.Hour.Microseconds()}
			}
			for _, claims := range [][]store.Claim{{above("ns/above/1")}, {above("ns/above/2"), claim("more", "b")}} {
				if o := acquire(t, s, claims...)[0]; o.Err == nil {
					t.Errorf("granted %+v, which was to be above %d", o.Grant, claims[0].Above)
				}
			}
		})
	}
}

// A trigger that raises an error for a row, or would change the table itself, refuses that name alone in a batch, too, with what it says.
func TestTriggerThatRaisesAnErrorInABatch(t *testing.T) {
	for _, m := range modes {
		for what, does := range map[string][2]string{
			"raises":  {"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'", "not today"},
			"deletes": {"DELETE FROM {table} WHERE name = NEW.name", "trigger"},
		} {
			t.Run(m.name+"/"+what, func(t *testing.T) {
				db := connect(t, mariadb(t).URL, m.driver)
				s := open(t, db, m.config)
				table := s.table(s.cfg.Table)
				names := []string{"bad", "good1", "good2", "ugly", "good3"}
				var claims []store.Claim
				for _, name := range names {
					claims = append(claims, claim(name, "a"))
				}
				trigger := func(event string) {
					exec(t, db, "CREATE TRIGGER "+s.cfg.Table+event+" BEFORE "+event+" ON "+table+" FOR EACH ROW IF NEW.name IN ('bad', 'ugly') THEN "+
						strings.ReplaceAll(does[0], "{table}", table)+"; END IF")
				}
				check := func(errs []error, err error) {
					t.Helper()
					if err != nil {
						t.Errorf("the whole batch: %v", err)
					}
					for i, err := range errs {
						if good := strings.HasPrefix(names[i], "good"); good && err != nil || !good && (err == nil || !strings.Contains(err.Error(), does[1]) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrLost)) {
							t.Errorf("%s: %v", names[i], err)
						}
					}
				}
				claimAll := func() (tokens []int64) {
					t.Helper()
					outs, err := s.Acquire(t.Context(), claims)
					var errs []error
					for _, o := range outs {
						errs, tokens = append(errs, o.Err), append(tokens, o.Grant.Token)
					}
					check(errs, err)
					return tokens
				}
				trigger("INSERT")
				claimAll()
				exec(t, db, "DROP TRIGGER "+s.cfg.Table+"INSERT", "DELETE FROM "+table)
				var extensions []store.Extension
				var releases []store.Release
				for _, name := range names {
					token := take(t, s, name, "a").Token
					extensions = append(extensions, store.Extension{Name: name, Holder: "a", Token: token, TTL: 2 * time.Hour})
					releases = append(releases, store.Release{Name: name, Holder: "a", Token: token})
				}
				trigger("UPDATE")
				check(s.Extend(t.Context(), extensions))
				check(s.Release(t.Context(), releases))
			})
		}
	}
}

// A session of the pool that the store shares with its user has the user's idle timeout after a transaction, also after one that failed.
func TestSessionKeepsItsIdleTimeout(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, func(c *mysql.Config) {
				if c.Params = map[string]string{"wait_timeout": "1234"}; m.driver != nil {
					m.driver(c)
				}
			})
			db.SetMaxOpenConns(1)
			s := open(t, db, m.config)
			timeout := func(after string) {
				t.Helper()
				var seconds int
				if err := db.QueryRowContext(t.Context(), "SELECT @@wait_timeout").Scan(&seconds); err != nil || seconds != 1234 {
					t.Errorf("after %s: %d s, %v", after, seconds, err)
				}
			}
			bad := take(t, s, "bad", "a")
			timeout("a transaction")
			exec(t, db, "CREATE TRIGGER "+s.cfg.Table+"_t BEFORE UPDATE ON "+s.table(s.cfg.Table)+" FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'")
			if errs, err := s.Release(t.Context(), []store.Release{{Name: "bad", Holder: "a", Token: bad.Token}}); err == nil && errs[0] == nil {
				t.Error("a trigger does not fail the transaction")
			}
			timeout("one that failed")
		})
	}
}
