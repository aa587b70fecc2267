package sqlitestore

import (
	"context"
	"math"

	"github.com/soloist-dev/soloist/store"
)

// Extend is as in store.Store.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	errs := make([]error, len(extensions))
	err := s.change(ctx, len(extensions), func(t *tx) (err error) {
		for i, e := range extensions {
			if errs[i] = e.Check(); errs[i] != nil {
				continue
			}
			if errs[i], err = t.extend(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// change is transact, unless there is nothing to do.
func (s *Store) change(ctx context.Context, n int, do func(*tx) error) error {
	if err := s.alive(ctx); err != nil || n == 0 {
		return s.at(err)
	}
	return s.transact(ctx, do)
}

func (t *tx) extend(e store.Extension) (outcome, err error) {
	until := after(t.now, e.TTL)
	n, err := t.exec(sqlExtend, e.Name, e.Holder, e.Token, t.now, until, e.Mark, e.State != nil, e.State)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return store.ErrLost, nil
	}
	t.changed, t.given = true, max(t.given, until)
	return nil, nil
}

// Release is as in store.Store.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs := make([]error, len(releases))
	err := s.change(ctx, len(releases), func(t *tx) (err error) {
		for i, r := range releases {
			if errs[i] = r.Check(); errs[i] != nil {
				continue
			}
			if errs[i], err = t.release(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, r := range releases {
		if errs[i] == nil {
			s.watches.wake(r.Name)
		}
	}
	return errs, nil
}

func (t *tx) release(r store.Release) (outcome, err error) {
	until, retain := after(t.now, r.Linger), after(t.now, max(r.Retain, r.Linger))
	if r.Retain == store.Forever {
		retain = math.MaxInt64
	}
	n, err := t.exec(sqlRelease, r.Name, r.Holder, r.Token, t.now, until, r.Mark, r.State != nil, r.State, retain)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		t.changed, t.given = true, max(t.given, until)
		return nil, nil
	}
	was, err := t.record(r.Name, false)
	if err != nil {
		return nil, err
	}
	if was != nil && was.released && was.token == r.Token && was.holder == r.Holder && was.mark >= r.Mark {
		return nil, nil // released before, and the answer lost
	}
	return store.ErrLost, nil
}
