package natsstore

import (
	"time"

	"github.com/soloist-dev/soloist/store/casstore"
)

// Backend returns the records of a store as they are.
func Backend(s *Store) casstore.Backend { return s.backend }

// OnlyDrawn has a store claim a name that was released only if the server has chosen it.
func OnlyDrawn(s *Store) { s.watches.leave = 100 * time.Hour }
