package zkstore

// SetLastVersion makes a store replace nodes that have had that many versions.
func SetLastVersion(s *Store, n int32) { s.backend.lastVersion = n }
