package etcdstore

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// Extend implements store.Store. Leases of this handle whose mark and state stay are extended by one request for the whole batch, which checks that they
// are live, and one more for each lease of etcd that does not last long enough. Others are written.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(extensions))
	seen := make(map[string]int, len(extensions))
	for i, e := range extensions {
		if errs[i] = e.Check(); errs[i] == nil {
			seen[e.Name]++
		}
	}
	var light []*renewal
	var tasks []*task
	var indexes []int
	write := func(i int) {
		tasks, indexes = append(tasks, s.extension(extensions[i])), append(indexes, i)
	}
	for i, e := range extensions {
		if errs[i] != nil {
			continue
		}
		if h := s.pin(e, seen[e.Name] == 1); h != nil {
			light = append(light, &renewal{index: i, e: e, h: h})
		} else {
			write(i)
		}
	}
	s.renewed(ctx, light)
	for _, r := range light {
		switch {
		case r.err != nil:
			errs[r.index] = store.AsUnknown(r.err)
		case !r.extended:
			write(r.index)
		}
	}
	s.run(ctx, tasks)
	for i, t := range tasks {
		errs[indexes[i]] = t.err
	}
	return errs, s.whole(errs)
}

// A renewal is an extension that has nothing to write.
type renewal struct {
	index int
	e     store.Extension
	h     *holding

	extended bool  // by renewed
	err      error // of renewed
}

// pin returns the holding of an extension that has nothing to write, and keeps it from being ended. Else it returns nil.
func (s *Store) pin(e store.Extension, alone bool) *holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, now := s.held[e.Name], time.Now()
	switch {
	case !alone, h == nil, e.State != nil:
		return nil
	case h.revision == 0, h.ending, h.changing, h.holder != e.Holder, h.token != e.Token, e.Mark > h.mark, h.session.abandoned:
		return nil
	case !now.Before(h.until), e.TTL > h.ttl: // it has ended, or needs another session
		return nil
	case e.TTL < h.ttl/2 && now.Add(e.TTL).After(h.until): // a shorter session will do from now on
		return nil
	}
	h.pins++
	return h
}

// fewNames is how many names are checked one by one, in one request. Of more, the keys of their sessions are checked, which every store changes with a name of another process, and
// some of the names in turn: a record that something else has deleted or written, so that another one could have the name, is noticed after some extensions.
const fewNames = 50

// renewed extends leases. Of those that are checked together it extends none if one of them may not be as it was.
func (s *Store) renewed(ctx context.Context, all []*renewal) {
	for len(all) > 0 {
		some := all[:s.together(all)]
		same, err := s.unchanged(ctx, some)
		if errors.Is(err, rpctypes.ErrTooManyOps) {
			if err = s.shrink(s.checks(some)); err == nil {
				continue
			}
		}
		s.unpin(some, same && err == nil)
		for _, r := range some {
			r.err = err
		}
		all = all[len(some):]
	}
}

// together returns how many of some leases are checked together: half of what one transaction may check is for the keys of their sessions, of which each is checked twice.
func (s *Store) together(all []*renewal) int {
	sessions := map[*session]bool{}
	for i, r := range all {
		sessions[r.h.session] = true
		if i > 0 && len(sessions) > s.chunk()/4 {
			return i
		}
	}
	return len(all)
}

// checks returns how much is checked of some leases.
func (s *Store) checks(all []*renewal) int {
	sessions := map[*session]bool{}
	for _, r := range all {
		sessions[r.h.session] = true
	}
	return 2*len(sessions) + max(1, min(len(all), fewNames, s.chunk()-2*len(sessions)))
}

// unchanged reports whether leases are as they were, and makes their sessions last. The key of a session must have been changed last before the records of its leases were
// written: so leases that were written again are as cheap to extend as before.
func (s *Store) unchanged(ctx context.Context, all []*renewal) (bool, error) {
	type wanted struct {
		ttl    time.Duration // the longest of its leases
		before int64         // the lowest revision of their records
	}
	sessions := map[*session]wanted{}
	for _, r := range all {
		w, known := sessions[r.h.session]
		if w.ttl = max(w.ttl, r.e.TTL); !known || r.h.revision < w.before {
			w.before = r.h.revision
		}
		sessions[r.h.session] = w
	}
	var are []clientv3.Cmp
	var key string
	for of, w := range sessions {
		if enough, err := s.lasts(ctx, of, w.ttl); !enough || err != nil {
			return false, err
		}
		key = s.keys.session(of.name)
		are = append(are, clientv3.Compare(clientv3.ModRevision(key), ">", 0), clientv3.Compare(clientv3.ModRevision(key), "<", w.before))
	}
	names := s.checks(all) - len(are)
	from := 0
	if names < len(all) {
		from = int(s.checked.Add(int64(names)) % int64(len(all)))
	}
	for i := range names {
		r := all[(from+i)%len(all)]
		are = append(are, clientv3.Compare(clientv3.ModRevision(s.keys.record(r.e.Name)), "=", r.h.revision))
	}
	client, err := s.clients.get(ctx)
	if err != nil {
		return false, err
	}
	// A transaction without an operation would be decided by what one member has, however old that is. One with a read waits for the leader.
	reply, err := s.height.commit(client.Txn(ctx), ask{are: are, then: []clientv3.Op{clientv3.OpGet(key, clientv3.WithCountOnly())}})
	if err != nil {
		return false, s.wrap("checking leases", err)
	}
	return reply.Succeeded, nil
}

// unpin lets leases end again, later if they were extended. It leaves out a lease for which a change was sent meanwhile: that lease may have been
// released.
func (s *Store) unpin(all []*renewal, extended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range all {
		r.h.pins--
		r.extended = extended && s.held[r.e.Name] == r.h && !r.h.changing
		if until := now.Add(r.e.TTL); r.extended && until.After(r.h.until) {
			r.h.until = until
		}
	}
}

// extension is the task of an extension.
func (s *Store) extension(e store.Extension) *task {
	t := &task{name: e.Name}
	var until time.Time
	t.guess = func(p pair) bool { return s.holdingOf(e.Name, p) != nil && live(p, e.Holder, e.Token) }
	t.decide = func(p pair) (*change, error) {
		now := time.Now()
		if !live(p, e.Holder, e.Token) || s.over(e.Name, p, now) {
			return nil, store.ErrLost
		}
		r := p.record
		r.left(e.Mark, e.State)
		left := p.record.TTL // of another handle's lease at most: it may have been extended just now, which is not written
		if s.holdingOf(e.Name, p) != nil {
			left = s.left(e.Name, p, now)
		}
		r.TTL = min(max(e.TTL, left), store.MaxTTL)
		until = now.Add(r.TTL)
		return &change{record: &r, take: r.TTL, keeps: true}, nil
	}
	t.wrote = func(_ *change, now pair) {
		if later := time.Now().Add(e.TTL); later.After(until) {
			until = later
		}
		s.hold(e.Name, s.holding(now, t.session, until))
	}
	return t
}

// live reports whether a holder has the lease with a token.
func live(p pair, holder string, token int64) bool {
	return p.taken && !p.record.Released && p.record.Holder == holder && p.record.Token == token
}
