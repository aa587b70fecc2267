package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A guard refuses a table that is not soloist's. It looks once, before the first request.
type guard struct {
	turn   chan struct{} // of the request that looks
	looked atomic.Bool
}

func newGuard() guard { return guard{turn: make(chan struct{}, 1)} }

func (g *guard) check(ctx context.Context, b *backend, session *gocql.Session) error {
	if g.looked.Load() {
		return nil
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done(): // one that looks may have longer
		return wrap("looking at the keyspace and the table", ctx.Err())
	}
	if g.looked.Load() {
		return nil
	}
	found, err := look(ctx, b.cfg, session)
	switch {
	case errors.Is(err, fs.ErrPermission): // nothing is known: doctor reports it
	case err != nil:
		return err
	default:
		if err := found.problem(b.cfg); err != nil {
			return err
		}
	}
	g.looked.Store(true)
	return nil
}

// look returns what there is to see.
func (s *Store) look(ctx context.Context) (sight, error) {
	session, err := s.backend.sessions.get(ctx)
	if err != nil {
		return sight{}, wrap("connecting", err)
	}
	found, err := look(ctx, s.backend.cfg, session)
	if err == nil {
		err = found.problem(s.backend.cfg)
	}
	return found, err
}

// Capabilities implements store.Prober. What it reports follows from the keyspace's replication and the table's settings.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := casstore.Ready(ctx, s.Store); err != nil {
		return store.Capabilities{}, err
	}
	cfg := s.backend.cfg
	c := store.Capabilities{
		Backend: "Apache Cassandra, table " + cfg.table(),
		Scope:   store.ScopeFleet,
		Waiting: store.Promise{Answer: store.No, Why: "a table notifies nobody of a release: waiters ask again"},
	}
	found, err := s.look(ctx)
	switch {
	case errors.Is(err, fs.ErrPermission):
		c.Fencing = store.Promise{Answer: store.Unknown, Why: "the user may not read system_schema, so the keyspace's replication is not known"}
		c.Durable = c.Fencing
		return c, nil
	case err != nil:
		return store.Capabilities{}, err
	}
	c.Backend = fmt.Sprintf("Apache Cassandra %s, table %s", found.version, cfg.table())
	c.Fencing, c.Durable = found.fencing(cfg.Local), found.durable()
	return c, nil
}

// The shortest gc_grace_seconds that is accepted, a day. A replica that has missed a deletion brings the row back unless it
// is repaired within that time.
const leastGrace = 24 * 60 * 60

// fencing reports whether tokens strictly grow, whatever fails.
func (s sight) fencing(local bool) store.Promise {
	copies, total, err := s.copies()
	switch {
	case err != nil:
		return store.Promise{Answer: store.Unknown, Why: err.Error()}
	case !s.linearizable():
		return store.Promise{Answer: store.Unknown, Why: "the server says that it is version " + s.version + ": before 4.0 a read at SERIAL can miss a write"}
	case !s.durableWrites:
		return store.Promise{Answer: store.No, Why: "the keyspace has durable_writes = false: what was acknowledged is lost in a restart, and tokens with it"}
	case total < 2:
		return store.Promise{Answer: store.No, Why: "the keyspace has one copy of each row: what a node loses, the last seconds of its commit log or its disk, is lost, and tokens with it"}
	case s.expiry != 0:
		return store.Promise{Answer: store.No, Why: "the table has a default_time_to_live: rows expire, and their tokens with them"}
	case s.grace < leastGrace:
		return store.Promise{Answer: store.No, Why: fmt.Sprintf("the table has gc_grace_seconds = %d: rows that were forgotten may come back, with old tokens", s.grace)}
	case local && len(copies) > 1:
		return store.Promise{Answer: store.No, Why: "LOCAL_SERIAL decides in one datacenter, and the keyspace has copies in several"}
	}
	return store.Promise{Answer: store.Yes,
		Why: "each write is a lightweight transaction on the one before, decided by a majority of " + strconv.Itoa(total) + " copies, and the token is in the row"}
}

// durable reports whether what was acknowledged survives the crash of a node.
func (s sight) durable() store.Promise {
	_, total, err := s.copies()
	switch {
	case err != nil:
		return store.Promise{Answer: store.Unknown, Why: err.Error()}
	case !s.durableWrites:
		return store.Promise{Answer: store.No, Why: "the keyspace has durable_writes = false"}
	case total < 2:
		return store.Promise{Answer: store.No, Why: "the keyspace has one copy of each row, and a node writes its commit log to disk only every few seconds"}
	}
	return store.Promise{Answer: store.Yes, Why: "a write is acknowledged by a majority of " + strconv.Itoa(total) + " copies"}
}

// copies returns how many copies of a row each datacenter has, and how many there are.
func (s sight) copies() (each map[string]int, total int, err error) {
	each = map[string]int{}
	class := s.replication["class"]
	for place, text := range s.replication {
		if place == "class" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 { // as of transient replication, which has no lightweight transactions
			return nil, 0, fmt.Errorf("the keyspace's replication in %q is %q, which is not a number of copies", place, text)
		}
		if n > 0 {
			each[place], total = n, total+n
		}
	}
	switch class[strings.LastIndexByte(class, '.')+1:] {
	case "SimpleStrategy", "NetworkTopologyStrategy":
		return each, total, nil
	}
	return nil, 0, fmt.Errorf("the keyspace's replication strategy is %q, of which nothing is known here", class)
}

// linearizable reports whether a read at SERIAL returns what was written: since version 4.0 it does.
func (s sight) linearizable() bool {
	major, _, _ := strings.Cut(s.version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 4
}

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	if err := casstore.Ready(ctx, s.Store); err != nil {
		return nil, err
	}
	found, err := s.look(ctx)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return []store.Finding{{Subject: "keyspace", Found: err.Error(), Level: store.LevelUnknown, Fix: "allow the user to read system_schema"}}, nil
	case err != nil:
		return nil, err
	}
	copies, total, err := found.copies()
	findings := []store.Finding{
		judge("server", found.linearizable(), "Cassandra "+found.version, store.LevelError, "use Cassandra 4.0 or later"),
		judge("durable_writes", found.durableWrites, strconv.FormatBool(found.durableWrites), store.LevelError, "ALTER KEYSPACE … AND durable_writes = true"),
		judge("default_time_to_live", found.expiry == 0, strconv.Itoa(found.expiry), store.LevelError,
			"ALTER TABLE … WITH default_time_to_live = 0: rows that expire take their tokens with them"),
		judge("gc_grace_seconds", found.grace >= leastGrace, strconv.Itoa(found.grace), store.LevelError,
			"ALTER TABLE … WITH gc_grace_seconds = 864000, and repair the keyspace more often than that: rows that were forgotten may come back"),
	}
	if err != nil {
		return append(findings, store.Finding{Subject: "replication", Found: err.Error(), Level: store.LevelUnknown, Fix: "use NetworkTopologyStrategy"}), nil
	}
	level := store.LevelWarning
	if total < 2 {
		level = store.LevelError
	}
	replication := judge("replication", total >= 3, describe(found.replication, copies), level,
		"ALTER KEYSPACE … WITH replication = {'class': 'NetworkTopologyStrategy', '"+found.datacenter+"': 3}, then nodetool repair --full")
	findings = append(findings, replication)
	if s.backend.cfg.Local {
		findings = append(findings, judge("consistency", len(copies) < 2, fmt.Sprintf("LOCAL_SERIAL, with copies in %d datacenters", len(copies)),
			store.LevelError, "use SERIAL, or a keyspace in one datacenter"))
	}
	return findings, nil
}

// describe returns a replication in words.
func describe(replication map[string]string, copies map[string]int) string {
	class := replication["class"]
	text := class[strings.LastIndexByte(class, '.')+1:]
	for _, place := range slices.Sorted(maps.Keys(copies)) {
		text += fmt.Sprintf(", %s %d", place, copies[place])
	}
	return text
}

func judge(subject string, good bool, found string, level store.Level, fix string) store.Finding {
	if good {
		return store.Finding{Subject: subject, Found: found, Level: store.LevelOK}
	}
	return store.Finding{Subject: subject, Found: found, Level: level, Fix: fix}
}
