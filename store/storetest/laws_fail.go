package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var failLaws = []law{
	{name: "request-fails", needs: []need{failing}, check: requestFails,
		rule: "Whichever request of a call fails, and whether it was carried out or not: what the call reports as done is done, what it reports as neither done nor ErrUnknown is not, no lease is lost, and the call can be repeated."},
}

// A Fate is what becomes of a request of a store to its backend; see [Harness.Fail].
type Fate int

// The fates of a request.
const (
	Carried    Fate = iota // nothing happens to it
	Lost                   // it is not sent, and fails
	Unanswered             // it is carried out, and fails instead of returning the reply
)

func (f Fate) String() string { return [...]string{"is carried out", "is lost", "has no reply"}[f] }

func failing(h Harness, _ store.Store) string {
	if h.Fail == nil {
		return "the harness has no Fail"
	}
	return ""
}

// A step is a call one of whose requests fails.
type step struct {
	verb   string
	before func(s *subject, name string)   // nil: the name is held by a
	do     func(s *subject, l lease) error // can be repeated
	done   func(r store.Record) bool       // nil if it changes nothing
	can    func(s store.Store) bool        // nil: every store can
	most   int64                           // how many of its requests fail; 0: all
}

func heldByA(r store.Record) bool { return r.Holder == "a" && r.Left > 0 }

func nothing(*subject, string) {}

// failingSteps are the calls of the law request-fails.
func failingSteps() []step {
	claims := func(s *subject, l lease) error {
		out, err := s.Acquire(s.ctx, []store.Claim{claim(l.name, "a", hour)})
		return first(err, len(out), func() error { return out[0].Err })
	}
	extends := func(mark int64, ttl time.Duration) func(*subject, lease) error {
		return func(s *subject, l lease) error {
			e := l.extension(ttl)
			e.Mark = mark
			errs, err := s.Extend(s.ctx, []store.Extension{e})
			return first(err, len(errs), func() error { return errs[0] })
		}
	}
	releases := func(linger time.Duration) func(*subject, lease) error {
		return func(s *subject, l lease) error {
			r := l.leaving(7, []byte("left"))
			r.Linger = linger
			errs, err := s.Release(s.ctx, []store.Release{r})
			return first(err, len(errs), func() error { return errs[0] })
		}
	}
	return []step{
		{verb: "Acquire of a new name", before: nothing, do: claims, done: heldByA},
		{verb: "Acquire of a name that was released", before: func(s *subject, name string) { s.released(s.take(name, "z", hour).ending()) }, do: claims, done: heldByA},
		{verb: "Extend", do: extends(0, hour)},
		{verb: "Extend with a mark", do: extends(7, hour), done: func(r store.Record) bool { return r.Mark == 7 }},
		{verb: "Extend to more", do: extends(0, 9*hour), done: func(r store.Record) bool { return r.Left > 8*hour }},
		{verb: "Release", do: releases(0), done: func(r store.Record) bool { return r.Holder == "" && r.Mark == 7 }},
		{verb: "Release with a linger", do: releases(hour), done: func(r store.Record) bool { return r.Holder == "" && r.Mark == 7 && r.Left > 0 }},
		{verb: "List", most: 10, do: func(s *subject, l lease) error {
			n := 0
			for r, err := range s.List(s.ctx, l.name) {
				if err != nil {
					return err
				}
				if r.Name == l.name {
					n++
				}
			}
			if n != 1 {
				return fmt.Errorf("%w: %d records of the name", errWrong, n)
			}
			return nil
		}},
		{verb: "Choose", before: nothing, do: func(s *subject, l lease) error {
			_, _, err := as[store.Chooser](s).Choose(s.ctx, []string{l.name}, claim("", "a", hour))
			return err
		}, done: heldByA, can: can[store.Chooser]},
		{verb: "Ping", do: func(s *subject, _ lease) error { return as[store.Pinger](s).Ping(s.ctx) }, can: can[store.Pinger]},
		{verb: "Sweep", do: func(s *subject, _ lease) error { _, err := as[store.Sweeper](s).Sweep(s.ctx, 1); return err }, can: can[store.Sweeper], most: 5},
		{verb: "Capabilities", do: func(s *subject, _ lease) error { _, err := as[store.Prober](s).Capabilities(s.ctx); return err }, can: can[store.Prober]},
	}
}

var errWrong = errors.New("a wrong result")

func can[T any](s store.Store) bool { _, ok := store.As[T](s); return ok }

// first returns the error of a batch of one.
func first(err error, n int, of func() error) error {
	if err != nil || n == 1 {
		if err == nil {
			err = of()
		}
		return err
	}
	return fmt.Errorf("%w: %d answers", errWrong, n)
}

func requestFails(s *subject) {
	for _, step := range failingSteps() {
		if step.can != nil && !step.can(s.Store) {
			continue
		}
		for _, fate := range []Fate{Lost, Unanswered} {
			for k := int64(1); (step.most == 0 || k <= step.most) && s.fails(step, fate, k); k++ {
				if k == 50 {
					s.fail("50 requests of one call", "fewer")
				}
			}
		}
	}
}

// fails makes a call whose request k fails. It reports false if the call has no such request.
func (s *subject) fails(of step, fate Fate, k int64) bool {
	var left atomic.Int64 // requests until then; 0 or less: none
	bent := &subject{probe: s.probe, label: "[the handle whose request fails] ", Store: s.h.Fail(s.t, s.Store, func() Fate {
		if left.Add(-1) == 0 {
			return fate
		}
		return Carried
	})}
	s.open = append(s.open, bent.Store)
	defer func() { _ = bent.Close(); bent.forget() }()
	l := lease{name: s.name(), holder: "a"}
	if of.before == nil {
		l = bent.take(l.name, "a", hour)
	} else {
		of.before(bent, l.name)
	}
	left.Store(k)
	err := of.do(bent, l)
	failed := left.Swap(0) <= 0
	s.did("%s%s, whose request %d %s: %s", bent.label, of.verb, k, fate, tell(err))
	done := of.done == nil || of.done(s.done(marked(l.name, "reader", -1)))
	switch {
	case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrHeld), errors.Is(err, store.ErrClosed), errors.Is(err, errWrong), err != nil && !failed:
		s.fail(tell(err), "nil, or what has become of the request")
	case err == nil && !done:
		s.fail("nil, and it was not done", "an error")
	case err != nil && of.done != nil && done && !errors.Is(err, store.ErrUnknown):
		s.fail(tell(err), "ErrUnknown: it was done")
	}
	again := of.do(bent, l)
	s.did("%s%s again: %s", bent.label, of.verb, tell(again))
	if again != nil {
		s.fail(tell(again), "nil")
	}
	if of.done != nil && !of.done(s.done(marked(l.name, "reader", -1))) {
		s.fail("nil, and it was not done", "that it is done when it was repeated")
	}
	return failed
}
