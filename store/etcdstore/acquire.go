package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Acquire implements store.Store. A name that this process has not seen, or that it has seen free, costs one request. A name that it has seen taken is read first: one
// request if it is taken still, and one more if it is free. Both are for up to a hundred names. If the holder is of a session that etcd has not told of yet, that is one request more.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, len(claims))
	tasks := make([]*task, 0, len(claims))
	for i, c := range claims {
		if outcomes[i].Err = c.Check(); outcomes[i].Err == nil {
			tasks = append(tasks, s.claim(c, &outcomes[i]))
		}
	}
	s.run(ctx, tasks)
	i := 0
	for j := range outcomes {
		if outcomes[j].Err != nil {
			continue
		}
		t := tasks[i]
		i++
		if outcomes[j].Err = t.err; t.err != nil {
			outcomes[j].Grant = store.Grant{}
			continue
		}
		r := t.pair.record
		outcomes[j].Grant.Token, outcomes[j].Grant.Mark, outcomes[j].Grant.State = r.Token, r.Mark, bytes.Clone(r.State)
	}
	return outcomes, s.whole(errsOf(outcomes))
}

// claim is the task of a claim.
func (s *Store) claim(c store.Claim, to *store.Outcome) *task {
	t := &task{name: c.Name, shares: true}
	t.guess = func(p pair) bool { return !p.taken && c.Mark >= 0 && (c.Mark == 0 || p.record.Mark < c.Mark) }
	t.decide = func(p pair) (*change, error) {
		now := time.Now()
		over, r := s.over(c.Name, p, now), p.record
		taken := p.taken && !over
		to.Grant.ExpiredAge = 0
		switch {
		case taken && !r.Released && r.Holder == c.Holder:
			s.recover(c, p)
			return nil, nil //nolint:nilnil // nothing to write
		case c.Mark != 0 && r.Mark >= c.Mark:
			return nil, &store.DoneError{Record: s.view(c.Name, p, now, true)}
		case taken:
			return nil, &store.HeldError{Record: s.view(c.Name, p, now, false)}
		case c.Above != 0:
			return nil, errTokens
		case p.revision != 0 && !r.Released:
			to.Grant.ExpiredAge = max(1, r.age(now))
		}
		return &change{record: &record{Holder: c.Holder, Mark: r.Mark, State: r.State, TTL: c.TTL, Granted: now.UnixNano()}, take: c.TTL}, nil
	}
	t.wrote = func(_ *change, now pair) {
		s.hold(c.Name, s.holding(now, t.session, time.Now().Add(c.TTL)))
	}
	t.unknown = func(*change) {
		s.suspect(c.Name, &holding{holder: c.Holder, ttl: c.TTL, session: t.session, until: time.Now().Add(c.TTL)}, t.pair.revision)
	}
	return t
}

// holding returns what this handle knows of a lease that is attached to a session.
func (s *Store) holding(p pair, of *session, until time.Time) *holding {
	return &holding{
		holder: p.record.Holder, token: p.record.Token, mark: p.record.Mark, ttl: p.record.TTL, revision: p.revision, session: of, until: until,
	}
}

// recover finds and records the outcome of a claim whose outcome was unknown.
func (s *Store) recover(c store.Claim, p pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.holdingLocked(c.Name, p); h != nil && h.revision == 0 {
		h.token, h.mark, h.revision = p.record.Token, p.record.Mark, p.revision
	}
}

// view returns the record of a pair, for errors and lists.
func (s *Store) view(name string, p pair, now time.Time, state bool) store.Record {
	r := store.Record{Name: name, Token: p.record.Token, Mark: p.record.Mark, Left: s.left(name, p, now)}
	if p.revision != 0 {
		r.Age = p.record.age(now)
	}
	if !p.record.Released {
		r.Holder = p.record.Holder
	}
	if state {
		r.State = bytes.Clone(p.record.State)
	}
	return r
}

// errsOf returns the errors of outcomes.
func errsOf(outcomes []store.Outcome) []error {
	errs := make([]error, len(outcomes))
	for i, o := range outcomes {
		errs[i] = o.Err
	}
	return errs
}

// whole returns store.ErrClosed if the store was closed before all of a batch was decided, and the batch has no other outcome.
func (s *Store) whole(errs []error) error {
	for _, err := range errs {
		if !errors.Is(err, store.ErrClosed) {
			return nil
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return store.ErrClosed
}
