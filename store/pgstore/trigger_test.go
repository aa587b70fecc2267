package pgstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

// dialects are the ways in which a table can be used, whose statements differ.
var dialects = map[string]func(t testing.TB, base string) *Store{
	"PostgreSQL":  func(t testing.TB, base string) *Store { return fresh(t, base) },
	"ShedLock":    onTableOfShedLock,
	"CockroachDB": inDialectOfCockroachDB,
}

// meddle puts a trigger on a store's table, as somebody else could, that comes after ours and changes what is written to names that begin with bad.
func meddle(t testing.TB, s *Store, when, body string) {
	t.Helper()
	f := s.tables.schema + ".zz_meddle"
	run(t, s.pool, "CREATE OR REPLACE FUNCTION "+f+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+body+"; END $$")
	run(t, s.pool, "CREATE TRIGGER zz_meddle BEFORE "+when+" ON "+s.tables.records+" FOR EACH ROW WHEN (NEW.name LIKE 'bad%') EXECUTE FUNCTION "+f+"()")
}

// A claim is granted only if the row is as the claim has written it: a trigger that somebody has put on the table could change it, and then two would hold the name.
func TestTriggersThatChangeWhatIsWritten(t *testing.T) {
	base := server(t).URL
	for mode, open := range dialects {
		for what, body := range map[string]string{
			"all":               "IF TG_OP = 'UPDATE' THEN RETURN OLD; END IF; NEW.lock_until := NEW.locked_at; RETURN NEW",
			"the end":           "NEW.lock_until := NEW.lock_until - interval '1 minute'; RETURN NEW",
			"the holder":        "NEW.holder := 'other'; NEW.locked_by := 'other'; RETURN NEW",
			"who has locked it": "NEW.locked_by := 'other'; RETURN NEW",
			"the release":       "NEW.released := true; RETURN NEW",
			"the token":         "NEW.token := NEW.token - 3600000000; RETURN NEW",
		} {
			t.Run(mode+"/"+what, func(t *testing.T) {
				s := open(t, base)
				release(t, s, take(t, s, "bad/used", "a", time.Minute))
				meddle(t, s, "INSERT OR UPDATE", body)
				for _, name := range []string{"bad/used", "bad/new"} {
					_, err := try(s, name, "b", time.Hour)
					unbelievable(t, name, 0, err, "trigger")
					if what == "the token" { // of the others a claim that is repeated shows nothing
						claimedAgain(t, s, name, "b")
					}
					run(t, s.pool, "DELETE FROM "+s.tables.records+" WHERE name = 'bad/new'")
					run(t, s.pool, "UPDATE "+s.tables.records+" SET lock_until = locked_at")
					outs, err := s.Acquire(background, []store.Claim{claim("good", "b", time.Hour), claim(name, "c", time.Hour)})
					if err != nil || outs[0].Err != nil {
						t.Fatalf("%+v, %v", outs, err)
					}
					unbelievable(t, name+" in a batch", outs[1].Grant.Token, outs[1].Err, "trigger")
					run(t, s.pool, "DELETE FROM "+s.tables.records+" WHERE name IN ('bad/new', 'good')")
					run(t, s.pool, "UPDATE "+s.tables.records+" SET lock_until = locked_at")
					_, grant, err := s.Choose(background, []string{name}, claim("", "d", time.Hour))
					unbelievable(t, name+" of several", grant.Token, err, "trigger")
					run(t, s.pool, "DELETE FROM "+s.tables.records+" WHERE name = 'bad/new'")
					run(t, s.pool, "UPDATE "+s.tables.records+" SET lock_until = locked_at")
					if s.sql.queue != "" {
						grant, _, err = s.Queue(background, claim(name, "e", time.Hour))
						unbelievable(t, name+" by the queue", grant.Token, err, "trigger")
					}
				}
			})
		}
	}
}

// A token that a trigger has lowered is not believed either if it is as late as the grant: where tokens are ahead of the clock, others may have had it.
func TestTriggerThatLowersATokenALittle(t *testing.T) {
	base := server(t).URL
	const hour = int64(time.Hour / time.Microsecond)
	for mode, open := range dialects {
		t.Run(mode, func(t *testing.T) {
			s := open(t, base)
			release(t, s, take(t, s, "bad/used", "a", time.Minute))
			meddle(t, s, "INSERT OR UPDATE", "NEW.token := NEW.token - 1800000000; RETURN NEW")
			ahead := time.Now().UnixMicro() + hour
			above := func(name, holder string) store.Claim {
				return store.Claim{Name: name, Holder: holder, TTL: time.Minute, Above: ahead}
			}
			for _, claims := range [][]store.Claim{{above("bad/used", "b")}, {above("bad/new", "b")}, {above("bad/newer", "b"), above("good", "b")}} {
				outs, err := s.Acquire(background, claims)
				if err != nil {
					t.Fatal(err)
				}
				unbelievable(t, claims[0].Name+" above another", outs[0].Grant.Token, outs[0].Err, "trigger")
			}
			run(t, s.pool, "INSERT INTO "+s.tables.floor+" VALUES ($1)", ahead)
			_, err := try(s, "bad/1", "c", time.Minute)
			unbelievable(t, "a new name", 0, err, "after")
			outs, err := s.Acquire(background, []store.Claim{claim("bad/2", "c", time.Minute), claim("good/2", "c", time.Minute)})
			if err != nil || outs[1].Err != nil {
				t.Fatalf("%+v, %v", outs, err)
			}
			unbelievable(t, "new names", outs[0].Grant.Token, outs[0].Err, "after")
			_, grant, err := s.Choose(background, []string{"bad/3"}, claim("", "c", time.Minute))
			unbelievable(t, "one of new names", grant.Token, err, "after")
			if s.sql.queue != "" {
				grant, _, err = s.Queue(background, claim("bad/4", "c", time.Minute))
				unbelievable(t, "a new name by the queue", grant.Token, err, "after")
			}
		})
	}
}

// claimedAgain repeats a claim that was granted with a token that a trigger has lowered, as after a reply that was lost: others may have had that token, or greater ones.
func claimedAgain(t *testing.T, s *Store, name, holder string) {
	t.Helper()
	grant, err := try(s, name, holder, time.Hour)
	unbelievable(t, name+" again", grant.Token, err, "trigger")
	outs, err := s.Acquire(background, []store.Claim{claim("good", holder, time.Hour), claim(name, holder, time.Hour)})
	if err != nil || outs[0].Err != nil {
		t.Fatalf("%+v, %v", outs, err)
	}
	unbelievable(t, name+" again in a batch", outs[1].Grant.Token, outs[1].Err, "trigger")
	_, grant, err = s.Choose(background, []string{name}, claim("", holder, time.Hour))
	unbelievable(t, name+" again of several", grant.Token, err, "trigger")
	if s.sql.queue != "" {
		grant, _, err = s.Queue(background, claim(name, holder, time.Hour))
		unbelievable(t, name+" again by the queue", grant.Token, err, "trigger")
	}
	if _, err := try(s, name, "other", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("%s for another: %v", name, err)
	}
	run(t, s.pool, "DELETE FROM "+s.tables.records+" WHERE name = 'good'")
}

// A lease counts as extended, released or handed over, and its work as recorded, only if the row is as that was written: a trigger could keep its end, and then another would take
// the name whose holder believes that it has it; or drop the mark of a run that is done, which would be begun again.
func TestTriggersThatChangeALease(t *testing.T) {
	base := server(t).URL
	for mode, open := range dialects {
		for what, c := range map[string]struct {
			body             string
			lease, completed bool // whether it changes what is written of a lease, and of completed work
		}{
			"all":          {"RETURN OLD", true, true},
			"the end":      {"NEW.lock_until := OLD.lock_until - interval '1 minute'; RETURN NEW", true, false},
			"the token":    {"NEW.token := OLD.token - 1; RETURN NEW", true, false},
			"the mark":     {"NEW.mark := OLD.mark; RETURN NEW", true, true},
			"the state":    {"NEW.state := OLD.state; RETURN NEW", true, true},
			"nothing much": {"NEW.retain_until := NEW.retain_until; RETURN NEW", false, false},
		} {
			t.Run(mode+"/"+what, func(t *testing.T) {
				s := open(t, base)
				names := []string{"bad/1", "bad/2", "good/2", "bad/3", "bad/4", "good/4", "bad/5"}
				var ends []store.Release
				var extensions []store.Extension
				for _, name := range names {
					l := take(t, s, name, "a", time.Hour)
					l.Linger, l.Mark, l.State = 2*time.Hour, 5, []byte("over")
					ends = append(ends, l)
					extensions = append(extensions, store.Extension{Name: name, Holder: "a", Token: l.Token, TTL: 2 * time.Hour, Mark: 4, State: []byte("begun")})
				}
				meddle(t, s, "UPDATE", c.body)
				told := func(verb string, errs []error, err error) {
					t.Helper()
					if err != nil {
						t.Fatalf("%s: %v", verb, err)
					}
					for i, err := range errs {
						if i == 1 || !c.lease {
							if err != nil {
								t.Errorf("%s: what the trigger leaves alone: %v", verb, err)
							}
							continue
						}
						unbelievable(t, verb, 0, err, "trigger")
					}
				}
				errs, err := s.Extend(background, extensions[:1])
				told("an extension", errs, err)
				errs, err = s.Extend(background, extensions[1:3])
				told("extensions", errs, err)
				errs, err = s.Release(background, ends[3:4])
				told("a release", errs, err)
				errs, err = s.Release(background, ends[4:6])
				told("releases", errs, err)
				tx := begin(t, s, pgx.TxOptions{})
				err = s.Complete(background, tx, completion(ends[6], 9, "done"))
				if (err != nil) != c.completed || err != nil && !strings.Contains(err.Error(), "trigger") {
					t.Errorf("a completion: %v", err)
				}
				tx.Rollback(background)
			})
		}
	}
}

// A name is handed over only if the row is as that was written: the heir would have a lease that nobody knows of.
func TestTriggerThatKeepsANameFromItsHeir(t *testing.T) {
	for _, together := range []bool{false, true} {
		s := fresh(t, server(t).URL)
		lease := take(t, s, "bad", "a", time.Hour)
		releases := []store.Release{lease}
		if together {
			releases = append(releases, take(t, s, "good", "a", time.Hour))
		}
		answer := waits(s, "bad", "b")
		places(t, s, "bad", "b")
		meddle(t, s, "UPDATE", "RETURN OLD")
		errs, err := s.Release(background, releases)
		if err != nil || together && errs[1] != nil {
			t.Fatalf("%v, %v", errs, err)
		}
		unbelievable(t, "the release", 0, errs[0], "trigger")
		if q := <-answer; q.Err == nil {
			t.Errorf("the heir is granted %+v, and the record is %+v", q.Grant, recordOf(t, s, "bad"))
		}
	}
}
