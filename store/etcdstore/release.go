package etcdstore

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Release implements store.Store, with one request for up to a hundred leases, and one more for those that are to linger. A name that somebody waits
// for is handed over to the first waiter. That is one request more, unless the name was handed over to this handle together with who is next.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(releases))
	tasks := make([]*task, len(releases)) // of each release, nil if it is not valid
	first := map[lease]*task{}
	var all []*task
	for i, r := range releases {
		if errs[i] = r.Check(); errs[i] != nil {
			continue
		}
		is := lease{r.Name, r.Holder, r.Token}
		if tasks[i] = first[is]; tasks[i] == nil {
			tasks[i] = s.release(r)
			first[is], all = tasks[i], append(all, tasks[i])
		}
	}
	s.run(ctx, all)
	for i, r := range releases {
		switch t := tasks[i]; {
		case t == nil:
		case t.err != nil && !(errors.Is(t.err, store.ErrLost) && released(t.pair, r)):
			errs[i] = t.err
		case t.pair.record.Mark < r.Mark: // of several releases of a lease, each is told by the mark that the record has
			errs[i] = store.ErrLost
		}
	}
	return errs, s.whole(errs)
}

// A lease is what a release names. Several releases of one lease are one change, so that nobody can acquire the name between them.
type lease struct {
	name, holder string
	token        int64
}

// released reports whether the lease of r has been released, and nobody has acquired the name since.
func released(p pair, r store.Release) bool {
	return p.revision != 0 && p.record.Released && p.record.Holder == r.Holder && p.record.Token == r.Token
}

// release is the task of a release.
func (s *Store) release(r store.Release) *task {
	t := &task{name: r.Name}
	t.guess = func(p pair) bool { return s.holdingOf(r.Name, p) != nil && live(p, r.Holder, r.Token) }
	t.decide = func(p pair) (*change, error) {
		now := time.Now()
		switch {
		case released(p, r) && p.record.Mark >= r.Mark:
			return nil, nil //nolint:nilnil // a release that is repeated
		case !live(p, r.Holder, r.Token) || s.over(r.Name, p, now):
			return nil, store.ErrLost
		}
		kept := p.record
		kept.left(r.Mark, r.State)
		kept.Released, kept.Session, kept.TTL, kept.Forget = true, "", r.Linger, after(now, max(r.Retain, r.Linger))
		if r.Linger > 0 {
			return &change{record: &kept, linger: r.Linger}, nil
		}
		c := &change{record: &kept, frees: true, line: s.lineOf(r.Name, p)}
		if heir := c.heir(); heir != nil {
			kept = record{Holder: heir.Holder, Mark: kept.Mark, State: kept.State, TTL: heir.TTL, Granted: now.UnixNano(), Session: heir.Session}
		}
		return c, nil
	}
	t.wrote = func(*change, pair) { s.drop(lease{r.Name, r.Holder, r.Token}) }
	return t
}
