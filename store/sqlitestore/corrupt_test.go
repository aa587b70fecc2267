package sqlitestore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// corruptions are what something else can have put into a record, and what is said of it.
var corruptions = []struct{ set, says string }{
	{"token = 0", "token is 0"},
	{"token = -5", "token is -5"},
	{"mark = -1", "mark is -1"},
	{"released = 7", "released is 7"},
	{"holder = CAST(x'ff' AS TEXT)", "holder is"},
	{"holder = ''", "holder is"},
	{"until = 9223372036854775807", "taken for"},
	{"state = zeroblob(70000)", "70000 bytes"},
}

// A record that something else has written harms its name alone, and nothing is granted in it.
func TestCorruptRecords(t *testing.T) {
	ctx := context.Background()
	for _, c := range corruptions {
		for _, free := range []bool{false, true} {
			t.Run(c.set, func(t *testing.T) {
				s := openAt(t, newPath(t))
				first, bad, last := take(t, s, "1", "a", time.Hour), take(t, s, "2", "a", time.Hour), take(t, s, "3", "a", time.Hour)
				if free && c.set[:5] != "until" && c.set != "released = 7" {
					exec(t, raw(t, s.path), "UPDATE records SET until = since WHERE name = '2'")
				}
				exec(t, raw(t, s.path), "UPDATE records SET "+c.set+" WHERE name = '2'")
				told := func(verb string, errs []error, err error, others error) {
					t.Helper()
					var corrupt *CorruptError
					if err != nil || len(errs) != 3 || !errors.Is(errs[0], others) || !errors.Is(errs[2], others) {
						t.Fatalf("%s: %v, %v", verb, errs, err)
					}
					if !errors.As(errs[1], &corrupt) || corrupt.Name != "2" || !strings.Contains(corrupt.Error(), c.says) {
						t.Errorf("%s of the corrupt one: %v", verb, errs[1])
					}
				}
				outs, err := s.Acquire(ctx, []store.Claim{claim("1", "b", time.Hour)[0], claim("2", "b", time.Hour)[0], claim("3", "b", time.Hour)[0]})
				if err != nil {
					t.Fatal(err)
				}
				told("Acquire", []error{outs[0].Err, outs[1].Err, outs[2].Err}, err, store.ErrHeld)
				ext := func(r store.Release) store.Extension {
					return store.Extension{Name: r.Name, Holder: r.Holder, Token: r.Token, TTL: time.Hour}
				}
				errs, err := s.Extend(ctx, []store.Extension{ext(first), ext(bad), ext(last)})
				told("Extend", errs, err, nil)
				if i, grant, err := s.Choose(ctx, []string{"2", "4"}, store.Claim{Holder: "b", TTL: time.Hour}); err != nil || i != 1 {
					t.Errorf("Choose: %d, %v, %v", i, grant, err)
				}
				if _, grant, err := s.Choose(ctx, []string{"2"}, store.Claim{Holder: "b", TTL: time.Hour}); !errors.As(err, new(*CorruptError)) {
					t.Errorf("Choose of nothing else: %v, %v", grant, err)
				}
				var listed string
				for r, err := range s.List(ctx, "") {
					if listed += r.Name; err != nil {
						listed += err.Error()
					}
				}
				if !strings.HasPrefix(listed, "134") || !strings.Contains(listed, c.says) {
					t.Errorf("List: %s", listed)
				}
				errs, err = s.Release(ctx, []store.Release{first, bad, last})
				told("Release", errs, err, nil)
				if _, err := s.Watch(ctx, []string{"1", "2"}); err != nil {
					t.Errorf("Watch: %v", err)
				}
				if _, err := s.Sweep(ctx, 10); err != nil {
					t.Errorf("Sweep: %v", err)
				}
				if err := errors.Join(tryRelease(s, bad)); !errors.As(err, new(*CorruptError)) {
					t.Errorf("after the sweep: %v", err)
				}
				claims := slices.Concat(claim("1", "b", time.Hour), claim("2", "b", time.Hour), claim("3", "b", time.Hour))
				outs, err = s.Acquire(ctx, claims)
				must(t, err)
				told("Acquire beside free ones", []error{outs[0].Err, outs[1].Err, outs[2].Err}, err, nil)
			})
		}
	}
}
