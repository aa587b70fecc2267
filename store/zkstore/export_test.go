package zkstore

import (
	"context"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store/casstore"
)

// SetLastVersion makes a store replace nodes that have had that many versions.
func SetLastVersion(s *Store, n int32) { s.backend.lastVersion = n }

// NewLink returns what the client of ZooKeeper gets as its connection.
func NewLink(conn net.Conn, patience time.Duration) net.Conn {
	return &link{Conn: conn, patience: patience, stop: func() bool { return true }, seen: &seen{}, greeted: func(error) {}}
}

// CaughtUp reads as a store does whose server has to catch up first.
func CaughtUp(ctx context.Context, s *Store, conn *zk.Conn, read func() error) error {
	return s.backend.caughtUp(ctx, conn, read)
}

// ConflictSince returns what becomes of a change of a version of a name that was refused in a session.
func ConflictSince(
	ctx context.Context, s *Store, conn *zk.Conn, session int64, name, version string,
) (r casstore.Result) {
	refused := pending{change{Change: casstore.Change{Name: name, Version: version}}, &r}
	s.backend.conflicts(ctx, conn, session, []pending{refused}, 0)
	return r
}
