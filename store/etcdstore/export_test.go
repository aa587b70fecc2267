package etcdstore

import "time"

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
