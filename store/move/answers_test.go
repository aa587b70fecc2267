package move

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var update = flag.Bool("update", false, "write the files of TestAnswers")

// An answering store answers each request as it is told, and notes what it was asked.
type answering struct {
	store.Store // of which nothing else is asked

	who      string
	asked    *[]string
	acquires []answer // in turns; the last one stays
	changes  answer   // of extensions and releases
}

// An answer is one to a request about one name.
type answer struct {
	what    string
	outcome store.Outcome
	away    error // instead
}

func (s *answering) note(what string, mark, above int64, state []byte) {
	if mark != 0 {
		what += fmt.Sprintf(" mark %d", mark)
	}
	if above != 0 {
		what += fmt.Sprintf(" above %d", above)
	}
	if state != nil {
		what += fmt.Sprintf(" state %q", state)
	}
	*s.asked = append(*s.asked, s.who+" "+what)
}

func (s *answering) Acquire(_ context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	s.note("acquire", claims[0].Mark, claims[0].Above, nil)
	a := s.acquires[0]
	if len(s.acquires) > 1 {
		s.acquires = s.acquires[1:]
	}
	if a.away != nil {
		return nil, a.away
	}
	return []store.Outcome{a.outcome}, nil
}

func (s *answering) Extend(_ context.Context, extensions []store.Extension) ([]error, error) {
	e := extensions[0]
	s.note(fmt.Sprintf("extend %d", e.Token), e.Mark, 0, e.State)
	return []error{s.changes.outcome.Err}, s.changes.away
}

func (s *answering) Release(_ context.Context, releases []store.Release) ([]error, error) {
	r := releases[0]
	what := fmt.Sprintf("release %d", r.Token)
	if r.Linger > 0 {
		what += fmt.Sprintf(" linger %v", r.Linger)
	}
	s.note(what, r.Mark, 0, r.State)
	return []error{s.changes.outcome.Err}, s.changes.away
}

// told describes an outcome.
func told(grant store.Grant, err error) string {
	var held *store.HeldError
	var done *store.DoneError
	switch {
	case err == nil && grant.Token == 0:
		return "ok"
	case err == nil:
		return fmt.Sprintf("granted %d mark %d state %q expired %t", grant.Token, grant.Mark, grant.State, grant.ExpiredAge > 0)
	case errors.As(err, &held):
		return "held" + toldOf(held.Record)
	case errors.As(err, &done):
		return "done" + toldOf(done.Record)
	case errors.Is(err, store.ErrUnknown):
		return "unknown: " + err.Error()
	}
	return "error: " + err.Error()
}

func toldOf(r store.Record) string {
	return fmt.Sprintf(" by %q token %d mark %d state %q left %v", r.Holder, r.Token, r.Mark, r.State, r.Left)
}

func granted(what string, g store.Grant) answer {
	return answer{what: what, outcome: store.Outcome{Grant: g}}
}
func held(what string, r store.Record) answer {
	r.Name = "n"
	return answer{what: what, outcome: store.Outcome{Err: &store.HeldError{Record: r}}}
}

func done(what string, r store.Record) answer {
	r.Name = "n"
	return answer{what: what, outcome: store.Outcome{Err: &store.DoneError{Record: r}}}
}

var (
	ok      = answer{what: "ok"}
	unknown = answer{what: "unknown", outcome: store.Outcome{Err: store.AsUnknown(errors.New("no reply"))}}
	failed  = answer{what: "failed", outcome: store.Outcome{Err: errors.New("it cannot be read")}}
	isLost  = answer{what: "lost", outcome: store.Outcome{Err: store.ErrLost}}
	away    = answer{what: "away", away: errors.New("away")}
	maybe   = answer{what: "lost or unknown", outcome: store.Outcome{Err: fmt.Errorf("%w: %w", store.ErrLost, store.ErrUnknown)}}
)

// TestAnswers: what becomes of a claim, an extension and a release for each pair of answers of the two stores is what the files say, line by line: what the
// stores answer, which requests follow, and what the caller is told. The new store is asked first, and the old one decides. How the requests end that follow is
// told where it makes a difference.
func TestAnswers(t *testing.T) {
	for file, tell := range map[string]func(t *testing.T, line func(answers, then, told string)){"claims.txt": claims, "changes.txt": changes} {
		t.Run(file, func(t *testing.T) {
			var lines []string
			told := map[string]bool{}
			tell(t, func(answers, then, of string) {
				of = strings.ReplaceAll(of, "\n", "; ")
				if !told[answers+of] {
					told[answers+of] = true
					lines = append(lines, strings.Join([]string{answers, then, of}, " | "))
				}
			})
			golden(t, file, lines)
		})
	}
}

// golden compares lines with those of a file.
func golden(t *testing.T, file string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
	for i := range min(len(lines), len(want)) {
		if lines[i] != want[i] {
			t.Fatalf("line %d\ngot  %s\nwant %s", i+1, lines[i], want[i])
		}
	}
}

// answered is two stores in the phase in which the old one decides.
func answered(t *testing.T) (s store.Store, older, newer *answering, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	older, newer = &answering{who: "old", asked: asked, changes: ok}, &answering{who: "new", asked: asked, changes: ok}
	s, err := New(older, newer, OldDecides)
	if err != nil {
		t.Fatal(err)
	}
	return s, older, newer, asked
}

// claims claims a name with a mark or none, and reports what followed.
func claims(t *testing.T, line func(answers, then, told string)) {
	firsts := []answer{
		granted("granted 7", store.Grant{Token: 7, Mark: 3, State: []byte("s")}),
		granted("granted 7 expired", store.Grant{Token: 7, Mark: 3, State: []byte("s"), ExpiredAge: 1}),
		granted("granted 7 other state", store.Grant{Token: 7, Mark: 3, State: []byte("other"), ExpiredAge: 1}),
		granted("granted 7 mark 4", store.Grant{Token: 7, Mark: 4, State: []byte("newer")}),
		held("held by x 7", store.Record{Holder: "x", Token: 7, Mark: 3, Left: 3 * time.Second}),
		held("held by y 7", store.Record{Holder: "y", Token: 7, Mark: 3, Left: time.Second}),
		held("lingers 7", store.Record{Token: 7, Mark: 3, Left: 2 * time.Second}),
		done("done 5", store.Record{Token: 7, Mark: 5, State: []byte("done")}),
		unknown, failed, away,
	}
	seconds := []answer{
		granted("granted 9", store.Grant{Token: 9, Mark: 3, State: []byte("s"), ExpiredAge: 1}),
		granted("granted 7", store.Grant{Token: 7, Mark: 3, State: []byte("s")}),
		granted("granted 9 mark 4", store.Grant{Token: 9, Mark: 4, State: []byte("newer")}),
		held("held by x 9", store.Record{Holder: "x", Token: 9, Mark: 3, Left: 2 * time.Second}),
		held("lingers 9", store.Record{Token: 9, Mark: 3, Left: 2 * time.Second}),
		done("done 3", store.Record{Token: 9, Mark: 3, State: []byte("old")}),
		done("done 5", store.Record{Token: 9, Mark: 5, State: []byte("done")}),
		done("done 5 by x 9", store.Record{Holder: "x", Token: 9, Mark: 5, State: []byte("done"), Left: 2 * time.Second}),
		done("done 3 by x 9", store.Record{Holder: "x", Token: 9, Mark: 3, State: []byte("old"), Left: 2 * time.Second}),
		done("done 3 by x 7", store.Record{Holder: "x", Token: 7, Mark: 3, State: []byte("old"), Left: 2 * time.Second}),
		done("done 3 by x, over", store.Record{Holder: "x", Token: 9, Mark: 3, State: []byte("old")}),
		done("done 3 by me 9", store.Record{Holder: "me", Token: 9, Mark: 3, State: []byte("old"), Left: 2 * time.Second}),
		done("done 3 by me, over", store.Record{Holder: "me", Token: 9, Mark: 3, State: []byte("old")}),
		unknown, failed, away,
	}
	for _, mark := range []int64{5, 0} {
		for _, first := range firsts {
			for _, second := range seconds {
				for _, end := range []answer{ok, isLost, unknown, away} {
					s, older, newer, asked := answered(t)
					older.acquires, newer.acquires = []answer{second, done("read", store.Record{Token: 9, Mark: 4, State: []byte("read")})}, []answer{first}
					older.changes, newer.changes = end, end
					claim := func() string {
						outs, err := s.Acquire(t.Context(), []store.Claim{{Name: "n", Holder: "me", TTL: time.Minute, Mark: mark}})
						if err != nil {
							return told(store.Grant{}, err)
						}
						return told(outs[0].Grant, outs[0].Err)
					}
					outcome := claim()
					requests := strings.Join(*asked, ", ")
					if strings.HasPrefix(outcome, "unknown") || first.away != nil { // what is known of the first claim decides what becomes of the second
						*asked = nil
						older.acquires = []answer{held("held by x 9", store.Record{Holder: "x", Token: 9, Mark: 3, Left: 2 * time.Second}), done("read", store.Record{Token: 9, Mark: 3, State: []byte("read")})}
						newer.acquires = []answer{granted("granted 7", store.Grant{Token: 7, Mark: 3, State: []byte("s")})}
						older.changes, newer.changes = ok, ok
						again := claim()
						outcome += " | again: " + strings.Join(*asked, ", ") + " | " + again
					}
					line(fmt.Sprintf("mark %d: new %s, old %s", mark, first.what, second.what), end.what, requests+" | "+outcome)
				}
				if first.away != nil || first.what == "unknown" || first.what == "failed" {
					break // the other is not asked
				}
			}
		}
	}
}

// changes extends and releases a lease, and does it once more when all is well.
func changes(t *testing.T, line func(answers, then, told string)) {
	over := done("over", store.Record{Token: 7, Mark: 3, State: []byte("s")})
	has := granted("has 7", store.Grant{Token: 7, Mark: 3, State: []byte("s")})
	lookups := [][]answer{
		{has},
		{over, granted("granted 8", store.Grant{Token: 8, Mark: 3, State: []byte("s")})},
		{over, granted("granted 8 expired", store.Grant{Token: 8, Mark: 3, State: []byte("s"), ExpiredAge: 1})},
		{over, held("held by x", store.Record{Holder: "x", Token: 8, Left: time.Second})},
		{over, held("lingers", store.Record{Token: 7, Left: time.Second})},
		{over, unknown},
		{held("held by x", store.Record{Holder: "x", Token: 8, Left: time.Second})},
		{unknown}, {away},
	}
	reads := []answer{
		done("mine", store.Record{Holder: "me", Token: 9, Mark: 4, State: []byte("read"), Left: time.Second}),
		done("newer", store.Record{Token: 11, Mark: 4, State: []byte("read")}),
		granted("granted", store.Grant{Token: 9, Mark: 4, State: []byte("read")}),
		unknown,
	}
	for _, what := range []string{"extend", "extend and write", "release", "release and write"} {
		for _, lookup := range lookups {
			for _, decides := range []answer{ok, isLost, unknown, maybe, away} {
				for _, read := range reads {
					for _, end := range []answer{ok, isLost, away} {
						synctest.Test(t, func(t *testing.T) { change(t, line, what, lookup, has, decides, read, end) })
					}
				}
			}
		}
	}
}

// change changes a lease twice, and reports what followed.
func change(t *testing.T, line func(answers, then, told string), what string, lookup []answer, has, decides, read, end answer) {
	s, older, newer, asked := answered(t)
	older.acquires, newer.acquires = []answer{read}, lookup
	older.changes, newer.changes = decides, end
	once := func() string {
		var errs []error
		var err error
		mark, state := int64(0), []byte(nil)
		if strings.HasSuffix(what, "write") {
			mark, state = 4, []byte("t")
		}
		if strings.HasPrefix(what, "extend") {
			errs, err = s.Extend(t.Context(), []store.Extension{{Name: "n", Holder: "me", Token: 9, TTL: time.Minute, Mark: mark, State: state}})
		} else {
			errs, err = s.Release(t.Context(), []store.Release{{Name: "n", Holder: "me", Token: 9, Linger: time.Second, Mark: mark, State: state}})
		}
		if err == nil {
			err = errs[0]
		}
		return told(store.Grant{}, err)
	}
	outcome, first := once(), *asked
	*asked = nil
	newer.acquires, older.changes, newer.changes = []answer{has}, ok, ok
	if strings.HasPrefix(what, "release") { // by then a release is not known any more
		older.changes, newer.acquires = isLost, lookup[:1]
	}
	again := once()
	var looks []string
	for _, a := range lookup {
		looks = append(looks, a.what)
	}
	line(fmt.Sprintf("%s: new %s, old %s", what, strings.Join(looks, ", "), decides.what), fmt.Sprintf("%s, reads %s", end.what, read.what),
		fmt.Sprintf("%s | %s | again: %s | %s", strings.Join(first, ", "), outcome, strings.Join(*asked, ", "), again))
}
