package sqlitestore

import (
	"context"
	"math"

	"github.com/soloist-dev/soloist/store"
)

// Extend is as in store.Store.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return changeAll(ctx, s, extensions, store.Extension.Check, extension, (*tx).extended)
}

func extension(e store.Extension) quickChange {
	return func(now, _ int64) (int64, string, []any) {
		until := after(now, e.TTL)
		return until, sqlExtend, []any{e.Name, e.Holder, e.Token, now, until, e.Mark, e.State != nil, e.State}
	}
}

// Release is as in store.Store.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := changeAll(ctx, s, releases, store.Release.Check, ending, (*tx).released)
	for i := range errs {
		if errs[i] == nil {
			s.watches.Wake(releases[i].Name)
		}
	}
	return errs, err
}

func ending(r store.Release) quickChange {
	return func(now, _ int64) (int64, string, []any) {
		until, retain := after(now, r.Linger), after(now, max(r.Retain, r.Linger))
		if r.Retain == store.Forever {
			retain = math.MaxInt64
		}
		return until, sqlRelease, []any{r.Name, r.Holder, r.Token, now, until, r.Mark, r.State != nil, r.State, retain}
	}
}

// extended reports whether what did not extend a lease is that its record is corrupt.
func (t *tx) extended(e store.Extension) (bool, error) {
	_, err := t.record(e.Name, false, t.now)
	return false, err
}

// released reports whether r was carried out before, so that only its reply was lost.
func (t *tx) released(r store.Release) (bool, error) {
	was, err := t.record(r.Name, false, t.now)
	return was != nil && was.released && was.token == r.Token && was.holder == r.Holder && was.mark >= r.Mark, err
}

// changeAll makes the change of each live lease. The error of another one is ErrLost, unless settled returns true for it.
func changeAll[L any](ctx context.Context, s *Store, leases []L, check func(L) error, change func(L) quickChange,
	settled func(*tx, L) (bool, error)) ([]error, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.at(err)
	}
	errs := make([]error, len(leases))
	var valid []int
	for i, l := range leases {
		if errs[i] = check(l); errs[i] == nil {
			valid = append(valid, i)
		}
	}
	if len(valid) == 0 {
		return errs, nil
	}
	err := s.change(ctx, change(leases[valid[0]]), len(valid) == 1, func(t *tx) error {
		for _, i := range valid {
			done, err := t.do(change(leases[i]))
			if err == nil && !done {
				done, err = settled(t, leases[i])
			}
			switch {
			case corrupt(err, &errs[i]):
			case err != nil:
				return err
			case !done:
				errs[i] = store.ErrLost
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// change makes the change without a transaction if there is only one, or else all of them in a transaction.
func (s *Store) change(ctx context.Context, first quickChange, only bool, all func(*tx) error) error {
	f, err := s.enter(ctx, s.writing)
	if err != nil {
		return s.at(err)
	}
	defer s.writing.give()
	if only {
		if done, err := s.quick(ctx, f, first); done {
			return err
		}
	}
	return s.write(ctx, f, all)
}

// do makes a change as part of the transaction, and reports whether a row was changed.
func (t *tx) do(change quickChange) (bool, error) {
	until, query, args := change(t.now, t.wall)
	n, err := t.exec(query, args...)
	if n > 0 {
		t.changed, t.given = true, max(t.given, until)
	}
	return n > 0, err
}
