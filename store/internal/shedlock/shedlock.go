// Package shedlock defines which records soloist shares with ShedLock, in stores that both use
// (https://github.com/lukas-krecan/ShedLock). ShedLock has no kinds of names: its lock "report" is both soloist's lock
// "report" and soloist's job "report". So these two are one record there, and exclude each other.
package shedlock

import (
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Lock is the prefix of the record that is listed for a lock of ShedLock that no client of soloist has acquired yet.
const Lock = "lock/"

// job is the prefix of the records of jobs.
const job = "job/"

// Early is how long before a scheduled time ShedLock can take a lock and still count as having run that time, since the
// clock of a JVM may be ahead of the server's.
const Early = 500 * time.Millisecond

// Bare returns ShedLock's name of a record. A record that is neither a lock's nor a job's, or that is in a namespace,
// is not shared, and keeps its name.
func Bare(record string) (name string, shared bool) {
	for _, prefix := range []string{Lock, job} {
		if bare, is := strings.CutPrefix(record, prefix); is && bare != "" {
			return bare, true
		}
	}
	return record, false
}

// Check returns a *store.InvalidError if the row of a lock or job would be that of a record which soloist keeps for
// itself: each of the two would overwrite what the other has in it.
func Check(record string) error {
	if name, shared := Bare(record); shared && own(name) {
		return &store.InvalidError{What: "name", Value: shown(name), Rule: "is that of a record of soloist's own, " +
			"in a table that is shared with ShedLock: give the lock or job another name, or a namespace"}
	}
	return nil
}

// own reports whether a row of this name is that of a record which is not shared: one that soloist keeps for itself,
// or any in a namespace. The kinds are those of the client, in its names.go.
func own(name string) bool {
	space, rest, _ := strings.Cut(name, "/")
	spaced := len(space) > 1 && space[0] == '@'
	if !spaced {
		rest = name
	}
	switch kind, of, _ := strings.Cut(rest, "/"); kind {
	case "actions", "controls", "control-of-all":
		return rest == kind
	case "control", "element", "semaphore", "leader", "replica", "replica-jobs", "group":
		return of != ""
	case "lock", "job":
		return spaced && of != ""
	}
	return false
}
