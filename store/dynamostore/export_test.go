package dynamostore

import "time"

// LaterLook lets a store that was not allowed to look at its table look again, as it does after a while.
func LaterLook(s *Store) { s.backend.guard.again.Store(&time.Time{}) }
