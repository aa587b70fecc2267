package zkstore

import (
	"net"
	"time"
)

// SetLastVersion makes a store replace nodes that have had that many versions.
func SetLastVersion(s *Store, n int32) { s.backend.lastVersion = n }

// NewLink returns what the client of ZooKeeper gets as its connection.
func NewLink(conn net.Conn, patience time.Duration) net.Conn {
	return &link{Conn: conn, patience: patience, stop: func() bool { return true }}
}
