//go:build unix

package histories

import (
	"slices"
	"testing"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/test/servers"
)

// moved returns the rig of a fleet that moves from the stores of one rig to those of another one, amid the faults of both.
func moved(from, to *rig) *rig {
	return &rig{
		stores: from.stores, to: to.stores, faults: slices.Concat(from.faults, to.faults), noClock: from.noClock || to.noClock, allow: proof.Moved,
	}
}

func TestMoveFromRedisToPostgreSQL(t *testing.T) {
	servers.Live(t)
	t.Parallel()
	try(t, moved(redisRig(t), postgresRig(t)))
}

func TestMoveFromSQLiteToRedis(t *testing.T) {
	servers.Live(t)
	t.Parallel()
	try(t, moved(sqliteRig(t), redisRig(t)))
}

func TestMoveFromPostgreSQLToPostgreSQL(t *testing.T) {
	servers.Live(t)
	t.Parallel()
	try(t, moved(postgresRig(t), postgresRig(t)))
}

func TestMoveFromMariaDBToSQLite(t *testing.T) {
	servers.Live(t)
	t.Parallel()
	try(t, moved(mariadbRig(t), sqliteRig(t)))
}
