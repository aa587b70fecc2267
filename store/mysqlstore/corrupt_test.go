package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// corruptions are what something else can have put into a row, and what is said of it. Some are of times, so that the name stays taken or not.
var corruptions = []struct {
	set, says string
	when      bool
}{
	{"token = 0", "token is 0", false},
	{"token = -5", "token is -5", false},
	{"mark = -1", "mark is -1", false},
	{"released = 7", "released is 7", false},
	{"lock_until = '9999-12-31'", "taken for", true},
	{"lock_until = '0000-00-00'", "a time that is none", true},
	{"state = REPEAT('x', 70000)", "70000 bytes", false},
}

func spoil(t testing.TB, db *sql.DB, s *Store, set, name string) {
	t.Helper()
	change := s.cfg.columns().In(set+" WHERE name = ", '`')
	exec(t, db, "SET STATEMENT sql_mode = '' FOR UPDATE "+s.table(s.cfg.Table)+" SET "+change+bytesLiteral(s.row(name)))
}

// A row that something else has written harms its name alone, and nothing is granted in it.
func TestCorruptRecords(t *testing.T) {
	ctx := context.Background()
	for _, m := range modes {
		for _, c := range corruptions {
			for _, free := range []bool{false, true} {
				t.Run(m.name+"/"+c.set, func(t *testing.T) {
					db := connect(t, mariadb(t).URL, m.driver)
					s := open(t, db, m.config)
					names := []string{"ns/1", "ns/2", "ns/3"}
					var claims, reads []store.Claim
					var extensions []store.Extension
					var releases []store.Release
					for _, name := range names {
						g := take(t, s, name, "a")
						claims = append(claims, claim(name, "b"))
						reads = append(reads, store.Claim{Name: name, Holder: "b", TTL: time.Hour, Mark: -1})
						extensions = append(extensions, store.Extension{Name: name, Holder: "a", Token: g.Token, TTL: time.Hour})
						releases = append(releases, store.Release{Name: name, Holder: "a", Token: g.Token})
					}
					set := c.set
					if free && !c.when {
						set += ", lock_until = locked_at"
					}
					spoil(t, db, s, set, "ns/2")
					told := func(verb, says string, errs []error, err error, others error) {
						t.Helper()
						var corrupt *CorruptError
						if err != nil || len(errs) != 3 || !errors.Is(errs[0], others) || !errors.Is(errs[2], others) {
							t.Fatalf("%s: %v, %v", verb, errs, err)
						}
						if !errors.As(errs[1], &corrupt) || corrupt.Name != "ns/2" || !strings.Contains(corrupt.Error(), says) {
							t.Errorf("%s of the corrupt one: %v", verb, errs[1])
						}
					}
					outs := acquire(t, s, claims...)
					told("Acquire", c.says, []error{outs[0].Err, outs[1].Err, outs[2].Err}, nil, store.ErrHeld)
					outs = acquire(t, s, reads...)
					told("Acquire to read", c.says, []error{outs[0].Err, outs[1].Err, outs[2].Err}, nil, store.ErrDone)
					if out := acquire(t, s, claims[1])[0]; !errors.As(out.Err, new(*CorruptError)) {
						t.Errorf("Acquire of it alone: %v", out)
					}
					errs, err := s.Extend(ctx, extensions)
					told("Extend", "", errs, err, nil)
					if i, grant, err := s.Choose(ctx, []string{"ns/2", "ns/4"}, claim("", "b")); err != nil || i != 1 {
						t.Errorf("Choose: %d, %v, %v", i, grant, err)
					}
					if _, grant, err := s.Choose(ctx, []string{"ns/2"}, claim("", "b")); !errors.As(err, new(*CorruptError)) {
						t.Errorf("Choose of nothing else: %v, %v", grant, err)
					}
					var listed string
					for r, err := range s.List(ctx, "") {
						if listed += r.Name; err != nil {
							listed += err.Error()
						}
					}
					if !strings.HasPrefix(listed, "ns/1ns/3ns/4") || !strings.Contains(listed, c.says) {
						t.Errorf("List: %s", listed)
					}
					tx := begin(t, db, nil)
					done := store.Completion{Name: "ns/2", Holder: "a", Token: extensions[1].Token, Mark: 1}
					if err := s.Complete(ctx, tx, done); !errors.Is(err, store.ErrLost) {
						t.Errorf("Complete: %v", err)
					}
					_ = tx.Rollback()
					errs, err = s.Release(ctx, releases)
					told("Release", "", errs, err, nil)
					wake, err := s.Watch(ctx, names)
					if err != nil || wake == nil {
						t.Errorf("Watch: %v", err)
					}
					if _, err := s.Sweep(ctx, 10); err != nil {
						t.Errorf("Sweep: %v", err)
					}
					if out := acquire(t, s, claims...); out[0].Err != nil || !errors.As(out[1].Err, new(*CorruptError)) || out[2].Err != nil {
						t.Errorf("after the sweep: %v", out)
					}
				})
			}
		}
	}
}

// Whatever is asked of a corrupt record, the error names the record and not its row, which in a table shared with ShedLock is called otherwise.
func TestCorruptRecordOfASharedRow(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{ShedLock: true})
	token := take(t, s, "lock/x", "a").Token
	spoil(t, db, s, "mark = -1", "lock/x")
	extended, err := s.Extend(t.Context(), []store.Extension{{Name: "lock/x", Holder: "a", Token: token, TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	released, err := s.Release(t.Context(), []store.Release{{Name: "lock/x", Holder: "a", Token: token}})
	if err != nil {
		t.Fatal(err)
	}
	for verb, err := range map[string]error{"Acquire": acquire(t, s, claim("lock/x", "b"))[0].Err, "Extend": extended[0], "Release": released[0]} {
		if corrupt := (*CorruptError)(nil); !errors.As(err, &corrupt) || corrupt.Name != "lock/x" {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
