package cassandrastore

import (
	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A Store is a store.Store on a table of Cassandra. It is safe for use by many goroutines at once. It is also a
// store.Chooser, a store.Sweeper, a store.Pinger, a store.Prober, a store.Migrator and a store.Examiner.
type Store struct {
	*casstore.Store

	backend *backend
}

var (
	_ store.Prober   = (*Store)(nil)
	_ store.Migrator = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)
)

// New returns a store on a session that the caller has made and closes. It sends no request. The session's consistency,
// retry policy and speculative execution are not used: each request names its consistency, and the driver repeats none. It is an
// error, store.ErrInvalid, if session is nil or cfg has a name that cannot be.
func New(session *gocql.Session, cfg Config) (*Store, error) {
	if session == nil {
		return nil, &store.InvalidError{What: "session", Value: "nil", Rule: "give a *gocql.Session"}
	}
	return open(given{session}, cfg)
}

func open(s sessions, cfg Config) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	b := &backend{sessions: s, cfg: cfg, cql: statements(cfg), guard: newGuard()}
	return &Store{Store: casstore.New(b, casstore.Config{CreateFirst: true}), backend: b}, nil
}
