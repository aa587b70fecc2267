package natsstore

import "github.com/soloist-dev/soloist/store/casstore"

// Backend returns the records of a store as they are.
func Backend(s *Store) casstore.Backend { return s.backend }
