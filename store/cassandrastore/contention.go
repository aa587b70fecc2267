package cassandrastore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store/casstore"
)

// contended reports whether a request has met others about the same row, sent to other nodes, so that Cassandra cannot tell its outcome. A read at SERIAL can
// be one of them: it finishes what others have begun.
func contended(err error) bool { return is[*gocql.RequestErrCASWriteUnknown](err) }

// The waits between attempts.
const (
	firstWait = 2 * time.Millisecond
	longWait  = 200 * time.Millisecond
)

// reconnecting is how long a request waits for a connection. The driver connects anew in the background.
const reconnecting = 3 * time.Second

// unconnected reports whether a request was not sent because the driver had no connection.
func unconnected(err error) bool { return errors.Is(err, gocql.ErrNoConnections) }

// uncontended calls attempt until it returns false or ctx ends, with growing waits of random length, so that the others come to an end.
func uncontended(ctx context.Context, attempt func() bool) {
	for wait := firstWait; attempt(); wait = min(2*wait, longWait) {
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return
		}
	}
}

// connected calls attempt until it has had a connection, for as long as reconnecting.
func connected(ctx context.Context, attempt func() error) (err error) {
	begun := time.Now()
	uncontended(ctx, func() bool {
		err = attempt()
		return unconnected(err) && time.Since(begun) < reconnecting
	})
	return err
}

// remembered is how many writes before the last one a version names. A write is recognized while at most as many have followed it.
const remembered = 8

// writes returns what a version names: the last write, and those before it, the newest first.
func writes(version string) []string { return strings.Fields(version) }

// versionAfter returns the version of a row after a change.
func versionAfter(c casstore.Change) string {
	past := writes(c.Version)
	return strings.Join(append([]string{c.Record.Write}, past[:min(len(past), remembered)]...), " ")
}

// settle returns the outcome of a contended write, or true if it is to be tried again. now is the row as it was read since: at SERIAL, so what has had no
// effect by then never will. err is what Cassandra said of it. That a lease cannot have ended yet proves nothing: another process can have its holder
// and token, and extend or release it.
func settle(c casstore.Change, now casstore.Item, err error) (result casstore.Result, again bool) {
	there := writes(now.Version)
	switch {
	case now.Version == c.Version: // it has had no effect
		return casstore.Result{Err: err, Current: &now}, true
	case c.Record == nil && now.Version == "":
		return casstore.Result{}, false
	case c.Record != nil && slices.Contains(there, c.Record.Write): // others may have written since
		return casstore.Result{Version: versionAfter(c)}, false
	case remembers(there, c.Version):
		return casstore.Result{Err: casstore.ErrConflict, Current: &now}, false
	}
	return casstore.Result{Err: err, Current: &now}, false
}

// remembers reports whether a row names all writes that came after a version. A short row that does not name the version itself was removed and
// made anew since: what came before the removal is not in it.
func remembers(there []string, version string) bool {
	if before := writes(version); len(before) > 0 {
		return slices.Contains(there, before[0])
	}
	return len(there) > 0 && len(there) <= remembered
}
