package etcdstore

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A Missing client is there, but for the times when a test wants it not to be.
type Missing struct {
	clients
	left atomic.Int64
	err  error
}

// CanMiss is for a store that has sent nothing yet, whose client is to be missing.
func (s *Store) CanMiss(err error) *Missing {
	m := &Missing{clients: s.clients, err: err}
	s.clients = m
	return m
}

// Miss lets the store not get its client when it wants that for the nth time from now. What it returns reports whether
// that has been so, and ends it.
func (m *Missing) Miss(n int64) (has func() bool) {
	m.left.Store(n)
	return func() bool { return m.left.Swap(0) <= 0 }
}

func (m *Missing) get(ctx context.Context) (*clientv3.Client, error) {
	if m.left.Add(-1) == 0 {
		return nil, m.err
	}
	return m.clients.get(ctx)
}

// Suspend makes a store take its sessions for older than they are, as after a suspend of the machine: the wall clock has gone on, and each session has to be renewed before it is used.
func (s *Store) Suspend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.sessions {
		of.wall = time.Now().Round(0)
	}
}

// Uncovered returns the names that the store holds for longer than etcd is sure to keep them for it.
func (s *Store) Uncovered() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.held {
		if h.revision > 0 && !h.ended && !h.session.lastsFor(time.Until(h.until)) {
			names = append(names, name)
		}
	}
	return names
}
