package casstore

import (
	"context"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Extend implements store.Store: one request, and one to read leases that this process has not seen.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(extensions))
	tasks := make([]*task, len(extensions))
	for i, e := range extensions {
		if errs[i] = e.Check(); errs[i] != nil {
			continue
		}
		tasks[i] = &task{
			name:  e.Name,
			guess: func(seen sight) bool { return liveAs(seen, e.Holder, e.Token) },
			decide: func(seen sight) (*Record, error) {
				if !liveAs(seen, e.Holder, e.Token) {
					return nil, store.ErrLost
				}
				record := seen.item.Record
				record.TTL = max(e.TTL, seen.left(time.Now()))
				leave(&record, e.Mark, e.State)
				return &record, nil
			},
		}
	}
	s.runSome(ctx, tasks, errs)
	return errs, nil
}

// Release implements store.Store: one request, and one to read leases that this process has not seen.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(releases))
	tasks := make([]*task, len(releases))
	for i, r := range releases {
		if errs[i] = r.Check(); errs[i] != nil {
			continue
		}
		tasks[i] = &task{
			name:   r.Name,
			guess:  func(seen sight) bool { return liveAs(seen, r.Holder, r.Token) },
			decide: func(seen sight) (*Record, error) { return released(seen, r) },
		}
	}
	s.runSome(ctx, tasks, errs)
	return errs, nil
}

// released returns the record after a release, nil if it has been released so before, or ErrLost.
func released(seen sight, r store.Release) (*Record, error) {
	record := seen.item.Record
	switch {
	case seen.item.Version == "" || record.Holder != r.Holder || record.Token != r.Token:
		return nil, store.ErrLost
	case record.Released && record.Mark >= r.Mark:
		return nil, nil //nolint:nilnil // nothing to write
	case !liveAs(seen, r.Holder, r.Token):
		return nil, store.ErrLost
	}
	record.Released, record.TTL, record.Forget = true, r.Linger, time.Time{}
	if r.Retain != store.Forever {
		record.Forget = time.Now().Round(0).Add(max(r.Retain, r.Linger))
	}
	leave(&record, r.Mark, r.State)
	return &record, nil
}

// liveAs reports whether the lease of this holder and token is live.
func liveAs(seen sight, holder string, token int64) bool {
	return seen.item.Record.Token == token && seen.liveFor(holder, time.Now())
}

// leave sets the mark and the state that a holder leaves with the name.
func leave(r *Record, mark int64, state []byte) {
	r.Mark = max(r.Mark, mark)
	if state != nil {
		r.State = slices.Clone(state)
	}
}

// runSome carries out the tasks that are not nil, and copies their errors to errs.
func (s *Store) runSome(ctx context.Context, tasks []*task, errs []error) {
	s.run(ctx, slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool { return t == nil }))
	for i, t := range tasks {
		if t != nil {
			errs[i] = t.err
		}
	}
}
