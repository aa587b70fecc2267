package mysqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
		} {
			t.Run(m.name+"/"+what, func(t *testing.T) {
				db := connect(t, mariadb(t).URL, m.driver)
				s := open(t, db, m.config)
				first := take(t, s, "bad", "a")
				release(t, s, store.Release{Name: "bad", Holder: "a", Token: first.Token})
				table := s.table(s.cfg.Table)
				exec(t, db, "CREATE TRIGGER "+s.cfg.Table+"_t BEFORE UPDATE ON "+table+" FOR EACH ROW IF NEW.name = 'bad' THEN SET NEW."+sets+"; END IF")
				believed := func(claims ...store.Claim) {
					t.Helper()
					outs, err := s.Acquire(ctx, claims)
					if err != nil || outs[0].Err != nil {
						return
					}
					r := heldBy(t, s, "bad", claims[0].Holder)
					if got := outs[0].Grant.Token; got <= first.Token || got != r.Token || r.Left < claims[0].TTL/2 {
						t.Errorf("granted %+v after the token %d, and the record is %+v", outs[0].Grant, first.Token, r)
					}
				}
				believed(claim("bad", "b"))
				believed(claim("bad", "c"), claim("good", "c"))
				good := take(t, s, "good", "c")
				if _, err := s.Extend(ctx, []store.Extension{{Name: "bad", Holder: "b", Token: first.Token, TTL: time.Minute}, {Name: "good", Holder: "c", Token: good.Token, TTL: time.Minute}}); err != nil && !errors.Is(err, store.ErrUnknown) {
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
		})
	}
}
