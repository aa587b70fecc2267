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
