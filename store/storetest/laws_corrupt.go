package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

var corruptLaws = []law{
	{name: "corrupt-harms-its-name", needs: []need{corrupting}, check: corruptHarmsItsName,
		rule: "A record that cannot be read, because something else has written it, affects its own name only, in each verb, and the error names it; that of a list is an UnreadableError."},
}

func corrupting(h Harness, _ store.Store) string {
	if h.Corrupt == nil {
		return "the harness has no Corrupt"
	}
	return ""
}

func corruptHarmsItsName(s *subject) {
	for way := 0; ; way++ {
		all := s.name()
		first, spoiled, last := s.take(all+"/1", "a", hour), s.take(all+"/2", "a", hour), s.take(all+"/3", "a", hour)
		s.caughtUp()
		how := s.h.Corrupt(s.t, s.Store, spoiled.name, way)
		if how == "" {
			s.released(first.ending())
			s.released(spoiled.ending())
			s.released(last.ending())
			return
		}
		s.did("corrupted %q: %s", spoiled.name, how)
		s.spoilt(first, spoiled, last)
		s.listsBut(spoiled.name, all)
		for _, l := range []lease{first, last} {
			s.mended(l)
		}
	}
}

// spoilt checks that a corrupt record does not affect two names in the same batch.
func (s *subject) spoilt(first, spoiled, last lease) {
	all := []lease{first, spoiled, last}
	var extensions []store.Extension
	var claims, peeks []store.Claim
	var releases []store.Release
	for _, l := range all {
		extensions, releases = append(extensions, l.extension(hour)), append(releases, l.ending())
		claims = append(claims, claim(l.name, "b", hour))
		peeks = append(peeks, store.Claim{Name: l.name, Holder: "b", TTL: hour, Mark: -1})
	}
	errs, err := s.Extend(s.ctx, extensions)
	s.alone("Extend", spoiled.name, errs, err, nil)
	for _, asked := range [][]store.Claim{claims, peeks} {
		outs, err := s.Acquire(s.ctx, asked)
		errs, want := make([]error, len(outs)), store.ErrHeld
		for i, out := range outs {
			errs[i] = out.Err
		}
		if asked[0].Mark != 0 {
			want = store.ErrDone
		}
		s.alone("Acquire", spoiled.name, errs, err, want)
	}
	if c, ok := store.As[store.Chooser](s.Store); ok {
		free := s.name()
		i, grant, err := c.Choose(s.ctx, []string{spoiled.name, free}, claim("", "b", hour))
		s.did("%sChoose of %q, which is corrupt, and %q: %d, %s", s.label, spoiled.name, free, i, answer(store.Outcome{Grant: grant, Err: err}))
		switch {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil || i != 1:
			s.fail(fmt.Sprintf("index %d, error %s", i, tell(err)), "a grant of %q", free)
		default:
			s.mended(lease{grant, free, "b"})
		}
	}
	if q, ok := store.As[store.Queuer](s.Store); ok {
		grant, _, err := q.Queue(s.ctx, claim(spoiled.name, "b", hour))
		s.did("%sQueue for %q, which is corrupt: error %s", s.label, spoiled.name, tell(err))
		if err == nil {
			s.fail(answer(store.Outcome{Grant: grant}), "an error")
		}
	}
	errs, err = s.Release(s.ctx, releases)
	s.alone("Release", spoiled.name, errs, err, nil)
}

// alone checks the results of a batch of three whose middle element has a corrupt record.
func (s *subject) alone(verb, spoiled string, errs []error, err error, want error) {
	s.did("%s%s of three names, the middle one corrupt: %v, error %s", s.label, verb, errs, tell(err))
	switch {
	case err != nil || len(errs) != 3:
		s.fail(fmt.Sprintf("%d answers, error %s", len(errs), tell(err)), "three answers, error nil")
	case errs[1] == nil || !strings.Contains(errs[1].Error(), spoiled):
		s.fail(tell(errs[1]), "an error that names %q", spoiled)
	}
	s.answers([]error{errs[0], errs[2]}, want, want)
}

// listsBut checks that List yields the records that can be read, and then the *store.UnreadableError that names the one that cannot.
func (s *subject) listsBut(spoiled, prefix string) {
	var names []string
	var last error
	for r, err := range s.List(s.ctx, prefix+"/") {
		if last = err; err == nil {
			names = append(names, r.Name)
		}
	}
	s.did("%sList: %q, then error %s", s.label, names, tell(last))
	if slices.Contains(names, spoiled) || last == nil || !strings.Contains(last.Error(), spoiled) {
		s.fail(fmt.Sprintf("%q, then %s", names, tell(last)), "the others, then an error that names %q", spoiled)
	}
	if !errors.As(last, new(*store.UnreadableError)) {
		s.fail(fmt.Sprintf("%T, %s", last, tell(last)), "a *store.UnreadableError: all others were yielded")
	}
	if len(names) != 2 || !slices.IsSorted(names) {
		s.fail(fmt.Sprintf("%q", names), "the other names, in order")
	}
}

// mended acquires a name again, and makes the store forget it if it can, whatever else is corrupt.
func (s *subject) mended(l lease) {
	outs, err := s.Acquire(s.ctx, []store.Claim{claim(l.name, l.holder, hour)})
	if err != nil || len(outs) != 1 || outs[0].Err != nil {
		s.fail(fmt.Sprintf("%v, error %s", outs, tell(err)), "a grant of %q", l.name)
	}
	l.Grant = outs[0].Grant
	s.released(l.retaining(0, 0, ""))
	sweeper, ok := store.As[store.Sweeper](s.Store)
	if !ok {
		return
	}
	s.until(fmt.Sprintf("a sweep forgets %q", l.name), func() bool {
		_, _ = sweeper.Sweep(s.ctx, 1000) // its error may name the corrupt record
		for r, err := range s.List(s.ctx, l.name) {
			if err == nil && r.Name == l.name {
				return false
			}
		}
		return true
	})
}
