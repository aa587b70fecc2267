package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var waitLaws = []law{
	{name: "watch-wakes", needs: []need{watches}, check: watchWakes,
		rule: "Each watch of a name receives a value after a release of it, and after the next, with a linger too."},
	{name: "watch-any", needs: []need{watches}, check: watchAny,
		rule: "A watch of several names is woken by the release of any of them, until it has ended. It keeps no slice of the caller's."},
	{name: "watch-subscribed", needs: []need{watches}, check: watchSubscribed,
		rule: "A watch is subscribed when Watch returns: a release right after that wakes it, even before anybody listens."},
	{name: "watch-other-handle", needs: []need{watches, reopening}, check: watchOtherHandle,
		rule: "A release by another handle wakes the watches of this one."},
	{name: "watch-unclaimed", needs: []need{watches, reopening}, check: watchUnclaimed,
		rule: "If nobody acquires a name after its release, each of its watches receives a value, of each handle."},
	{name: "watch-checks", needs: []need{watches}, check: watchChecks,
		rule: "Watch refuses no names and an invalid name with an *InvalidError."},
	{name: "watch-ends", needs: []need{watches}, check: watchEnds,
		rule: "The channel of a watch is closed when its context ends; other watches go on."},
}

// watch watches names; that must succeed.
func (s *subject) watch(ctx context.Context, names ...string) <-chan struct{} {
	w, err := as[store.Watcher](s).Watch(ctx, names)
	s.did("%sWatch %q: %s", s.label, names, tell(err))
	if err != nil {
		s.fail(err, "a watch")
	}
	return w
}

// wakes checks that a watch receives a value.
func (s *subject) wakes(w <-chan struct{}, after string) {
	select {
	case _, open := <-w:
		if !open {
			s.fail("the watch was closed", "a value after %s", after)
		}
	case <-time.After(patience):
		s.fail(fmt.Sprintf("nothing for %v", patience), "a value after %s", after)
	}
}

// ends checks that a watch is closed, perhaps after values that were under way.
func (s *subject) ends(w <-chan struct{}) {
	bound := time.After(patience)
	for {
		select {
		case _, open := <-w:
			if !open {
				return
			}
		case <-bound:
			s.fail(fmt.Sprintf("the watch is open after %v", patience), "its channel closed")
		}
	}
}

func watchWakes(s *subject) {
	name := s.name()
	one, two := s.watch(s.ctx, name), s.watch(s.ctx, name)
	for range 3 {
		l := s.take(name, "a", hour)
		s.released(l.ending())
		s.wakes(one, "a release")
		s.wakes(two, "a release")
	}
	r := s.take(name, "a", hour).ending()
	r.Linger = hour
	s.released(r)
	s.wakes(one, "a release with a linger")
}

func watchAny(s *subject) {
	names := []string{s.name(), s.name(), s.name()}
	given := slices.Clone(names)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	w := s.watch(ctx, given...)
	other := s.name()
	for i := range given { // the caller may reuse the slice
		given[i] = other
	}
	for _, name := range names {
		s.drain(w)
		s.released(s.take(name, "a", hour).ending())
		s.wakes(w, fmt.Sprintf("a release of %q", name))
	}
	cancel()
	s.ends(w)
	for _, name := range names { // what has ended is not woken, by whatever names it is known
		s.released(s.take(name, "a", hour).ending())
	}
}

// drain receives the values that have come already, so that the next is of what follows.
func (s *subject) drain(w <-chan struct{}) {
	for range 100 {
		select {
		case <-w:
		case <-time.After(s.h.TTL / 2):
			return
		}
	}
}

func watchSubscribed(s *subject) {
	for i := range 20 {
		ctx, cancel := context.WithCancel(s.ctx)
		l := s.take(s.name(), "a", hour)
		w := s.watch(ctx, l.name)
		s.released(l.ending())
		if i%10 == 0 {
			time.Sleep(s.h.TTL)
			s.did("did not listen for %v", s.h.TTL)
		}
		s.wakes(w, "the release that followed Watch at once")
		cancel()
		s.ends(w)
	}
}

func watchOtherHandle(s *subject) {
	other := s.reopen()
	for range 5 {
		ctx, cancel := context.WithCancel(s.ctx)
		l := s.take(s.name(), "a", hour)
		w := s.watch(ctx, l.name)
		other.released(l.ending())
		s.wakes(w, "a release by the other handle")
		cancel()
		s.ends(w)
	}
}

func watchUnclaimed(s *subject) {
	handles := []*subject{s, s.reopen(), s.reopen()}
	for range 3 {
		l := s.take(s.name(), "a", hour)
		var all []<-chan struct{}
		for _, h := range handles {
			all = append(all, h.watch(s.ctx, l.name))
		}
		s.released(l.ending())
		for i, w := range all {
			s.wakes(w, fmt.Sprintf("a release after which nobody acquires the name, in handle %d", i+1))
		}
	}
}

func watchChecks(s *subject) {
	for what, names := range map[string][]string{
		"no names": nil, "an empty name": {s.name(), ""}, "a name with a control character": {"a\nb"}, "a name that is too long": {strings.Repeat("n", store.MaxName+1)},
	} {
		_, err := as[store.Watcher](s).Watch(s.ctx, names)
		s.did("Watch with %s: error %s", what, tell(err))
		s.invalid(err, what)
	}
}

func watchEnds(s *subject) {
	l := s.take(s.name(), "a", hour)
	ctx, cancel := context.WithCancel(s.ctx)
	short, long := s.watch(ctx, l.name), s.watch(s.ctx, l.name)
	cancel()
	s.ends(short)
	s.released(l.ending())
	s.wakes(long, "a release")
}
