package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A lease is what a claim has been granted.
type lease struct {
	store.Grant
	name, holder string
}

func claim(name, holder string, ttl time.Duration) store.Claim {
	return store.Claim{Name: name, Holder: holder, TTL: ttl}
}

func marked(name, holder string, mark int64) store.Claim {
	return store.Claim{Name: name, Holder: holder, TTL: hour, Mark: mark}
}

func (l lease) extension(ttl time.Duration) store.Extension {
	return store.Extension{Name: l.name, Holder: l.holder, Token: l.Token, TTL: ttl}
}

// ending is the plain release: the name is free immediately, and the record is kept, so that the result of the release
// can be read in any store.
func (l lease) ending() store.Release {
	return store.Release{Name: l.name, Holder: l.holder, Token: l.Token, Retain: store.Forever}
}

func (l lease) leaving(mark int64, state []byte) store.Release {
	r := l.ending()
	r.Mark, r.State = mark, state
	return r
}

// companion is the name of the element that is refused in batches, beside the element of the law. It comes after that
// in the batch, and sorts before it.
const companion = "a companion"

// batch is one element, or in batches one of two.
func batch[E any](s *subject, one, refused E) []E {
	if s.h.Batches {
		return []E{one, refused}
	}
	return []E{one}
}

// alone returns the result of the first element of such a batch. The other one must have been refused.
func alone(s *subject, errs []error, refusal error) []error {
	if !s.h.Batches || len(errs) != 2 {
		return errs
	}
	s.answers(errs[1:], refusal)
	return errs[:1]
}

// acquire claims one name and returns the outcome.
func (s *subject) acquire(c store.Claim) store.Outcome {
	out, err := s.Acquire(s.ctx, batch(s, c, store.Claim{Name: companion, Holder: companion, TTL: hour, Mark: -1}))
	out = out[:len(alone(s, errsOf(out), store.ErrDone))]
	asked := fmt.Sprintf("%sAcquire %.80q for %q, TTL %v, mark %d", s.label, c.Name, c.Holder, c.TTL, c.Mark)
	if c.Above != 0 {
		asked += fmt.Sprintf(", above %d", c.Above)
	}
	if err != nil || len(out) != 1 {
		s.did("%s", asked)
		s.fail(fmt.Sprintf("%d outcomes, error %s", len(out), tell(err)), "one outcome, error nil")
	}
	s.did("%s: %s", asked, answer(out[0]))
	s.made(c.Name, out[0])
	return out[0]
}

// answer formats an outcome for the trail.
func answer(o store.Outcome) string {
	if o.Err != nil {
		return tell(o.Err)
	}
	return fmt.Sprintf("granted, token %d, mark %d, state %s, ExpiredAge %v", o.Grant.Token, o.Grant.Mark, tellState(o.Grant.State),
		o.Grant.ExpiredAge)
}

// tellState formats a state, and distinguishes nil, which leaves the state, from empty, which clears it.
func tellState(state []byte) string {
	if state == nil {
		return "nil"
	}
	return fmt.Sprintf("%.40q", state)
}

func tellRetain(retain time.Duration) string {
	if retain == store.Forever {
		return "forever"
	}
	return retain.String()
}

// take takes a name that must be granted.
func (s *subject) take(name, holder string, ttl time.Duration) lease {
	return s.granted(claim(name, holder, ttl))
}

func (s *subject) granted(c store.Claim) lease {
	o := s.acquire(c)
	for s.h.LateIsUnknown && errors.Is(o.Err, store.ErrUnknown) && c.TTL < minute {
		time.Sleep(c.TTL) // the lease of one of the stores may last that long, and nothing is known before it ends
		c.TTL *= 2
		o = s.acquire(c)
	}
	if o.Err != nil {
		s.fail(o.Err, "a grant of %.80q to %q", c.Name, c.Holder)
	}
	return lease{o.Grant, c.Name, c.Holder}
}

// held makes a claim that must be refused because the name is taken.
func (s *subject) held(c store.Claim) store.Record {
	o := s.acquire(c)
	var held *store.HeldError
	if !errors.As(o.Err, &held) || !errors.Is(o.Err, store.ErrHeld) {
		s.fail(answer(o), "a *HeldError: %.80q is taken", c.Name)
	}
	return held.Record
}

// done makes a claim that must be refused because of the mark.
func (s *subject) done(c store.Claim) store.Record {
	o := s.acquire(c)
	var done *store.DoneError
	if !errors.As(o.Err, &done) || !errors.Is(o.Err, store.ErrDone) {
		s.fail(answer(o), "a *DoneError for mark %d", c.Mark)
	}
	return done.Record
}

func (s *subject) extend(e store.Extension) error {
	errs, err := s.Extend(s.ctx, batch(s, e, store.Extension{Name: companion, Holder: companion, Token: 1, TTL: hour}))
	return s.one(alone(s, errs, store.ErrLost), err, "Extend %.80q by %q with token %d, TTL %v, mark %d, state %s", e.Name, e.Holder, e.Token, e.TTL,
		e.Mark, tellState(e.State))
}

func (s *subject) release(r store.Release) error {
	errs, err := s.Release(s.ctx, batch(s, r, store.Release{Name: companion, Holder: companion, Token: 1}))
	return s.one(alone(s, errs, store.ErrLost), err, "Release %.80q by %q with token %d, linger %v, retain %s, mark %d, state %s", r.Name, r.Holder,
		r.Token, r.Linger, tellRetain(r.Retain), r.Mark, tellState(r.State))
}

// one adds a batch of one to the trail and returns the error of its element.
func (s *subject) one(errs []error, err error, format string, args ...any) error {
	asked := s.label + fmt.Sprintf(format, args...)
	if err != nil || len(errs) != 1 {
		s.did("%s", asked)
		s.fail(fmt.Sprintf("%d answers, error %s", len(errs), tell(err)), "one answer, error nil")
	}
	s.did("%s: %s", asked, tell(errs[0]))
	return errs[0]
}

func (s *subject) extended(e store.Extension) {
	if err := s.extend(e); err != nil {
		s.fail(err, "nil: the lease is live")
	}
}

func (s *subject) released(r store.Release) {
	if err := s.release(r); err != nil {
		s.fail(err, "nil: the release is good")
	}
}

// lost checks that a verb was refused because the lease is not live.
func (s *subject) lost(err error) {
	if !errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) {
		s.fail(tell(err), "ErrLost")
	}
}

// records lists the records of the store, once it can list all that the law has made.
func (s *subject) records(prefix string) []store.Record {
	s.caughtUp()
	return s.listed(prefix)
}

// listed lists the records of the store as they are listed now.
func (s *subject) listed(prefix string) []store.Record {
	var records []store.Record
	for r, err := range s.List(s.ctx, prefix) {
		if err != nil {
			s.did("%sList %.80q", s.label, prefix)
			s.fail(err, "records and no error")
		}
		records = append(records, r)
	}
	return records
}

// look returns the record of a name, and whether there is one. No store lists the record of a whole name late.
func (s *subject) look(name string) (store.Record, bool) {
	for _, r := range s.listed(name) {
		if r.Name == name {
			return r, true
		}
	}
	return store.Record{}, false
}

// record returns the record of a name, which must have one.
func (s *subject) record(name string) store.Record {
	r, ok := s.look(name)
	if !ok {
		s.did("%sList %.80q", s.label, name)
		s.fail("no record of the name", "the record of %.80q", name)
	}
	s.did("%sList %.80q: %s", s.label, name, sketch(r))
	return r
}

// sketch formats a record for the trail.
func sketch(r store.Record) string {
	return fmt.Sprintf("holder %q, token %d, mark %d, state %s, left %v, age %v", r.Holder, r.Token, r.Mark, tellState(r.State),
		r.Left, r.Age)
}

// free waits until List reports that a name is free, without acquiring it.
func (s *subject) free(name string) {
	s.until(fmt.Sprintf("%.80q becomes free", name), func() bool {
		r, _ := s.look(name)
		return r.Free()
	})
	s.did("%swaited until List said that %.80q is free", s.label, name)
}

// abandoned returns a lease that has expired after its holder left a mark and a state.
func (s *subject) abandoned(name, holder string) lease {
	var l lease
	s.until("a lease is extended within its TTL", func() bool {
		l = s.take(name, holder, s.h.TTL)
		e := l.extension(s.h.TTL)
		e.Mark, e.State = 4, []byte("left by the dead")
		return s.extend(e) == nil
	})
	s.free(name)
	return l
}

// same checks that a record is unchanged, except for the time that has passed.
func (s *subject) same(before, after store.Record) {
	a, b := before, after
	if a.Name != b.Name || a.Holder != b.Holder || a.Token != b.Token || a.Mark != b.Mark || !bytes.Equal(a.State, b.State) {
		s.fail("a record with "+sketch(after), "it as it was: %s", sketch(before))
	}
}
