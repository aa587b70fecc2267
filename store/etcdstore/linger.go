package etcdstore

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A linger is a lease of etcd with a session that has names which were released. This handle ends it when it is over. If the process has ended by
// then, etcd does, up to two seconds later.
type linger struct {
	name    string // of its session
	id      clientv3.LeaseID
	until   time.Time // when this handle ends it
	wall    time.Time // the same by the wall clock, which runs on while the machine is suspended
	written bool      // the key of its session is there: the first release that uses it writes that. Guarded by Store.mu
	gone    bool      // guarded by Store.mu
}

// sharing returns by how much longer than asked a name may linger, so that releases which follow one another share a lease of etcd.
func sharing(d time.Duration) time.Duration { return min(time.Second, d/16) }

// linger returns a lease of etcd that lasts for d from now.
func (s *Store) linger(ctx context.Context, d time.Duration) (*linger, error) {
	s.mu.Lock()
	now := time.Now()
	for _, l := range s.lingers {
		if left := l.until.Sub(now); !l.gone && left >= d && left <= d+sharing(d) && !l.wall.Before(now.Round(0).Add(d)) {
			s.mu.Unlock()
			return l, nil
		}
	}
	s.mu.Unlock()
	client, err := s.clients.get(ctx)
	if err != nil {
		return nil, err
	}
	lasts := d + sharing(d)
	sent := time.Now()
	granted, err := s.height.grant(ctx, client, int64((lasts+2*time.Second-1)/time.Second)) // whole seconds, and up to one more for the release itself
	if err != nil {
		return nil, s.wrap("granting a lease for a linger", err)
	}
	l := &linger{name: newSession(granted.ID), id: granted.ID, until: time.Now().Add(lasts)}
	if bound := sent.Add(time.Duration(granted.TTL) * time.Second); bound.Before(l.until) {
		l.until = bound // the reply was late: a linger counts from when its release was sent, which was before
	}
	l.wall = l.until.Round(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingers = append(s.lingers, l)
	s.background(&s.lapsing, s.lapse)
	s.poke()
	return l, nil
}

// overLingers returns the lingers that are over, and how long it is until the next. Store.mu is held.
func (s *Store) overLingers(now time.Time) (over []*linger, wait time.Duration) {
	rest := s.lingers[:0]
	for _, l := range s.lingers {
		switch left := l.until.Sub(now); {
		case l.gone:
		case left <= 0:
			over = append(over, l)
		default:
			rest, wait = append(rest, l), shorter(wait, left)
		}
	}
	clear(s.lingers[len(rest):])
	s.lingers = rest
	return over, wait
}

// endLingers ends lingers that are over. If that fails, etcd ends them.
func (s *Store) endLingers(over []*linger) {
	for _, l := range over {
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		if client, err := s.clients.get(ctx); err == nil && s.height.check() == nil {
			_, _ = client.Revoke(ctx, l.id)
		}
		cancel()
	}
}
