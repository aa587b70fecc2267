// Package shedlock defines which records soloist shares with ShedLock, in stores that both use
// (https://github.com/lukas-krecan/ShedLock). ShedLock has no kinds of names: its lock "report" is both soloist's lock
// "report" and soloist's job "report". So these two are one record there, and exclude each other.
package shedlock

import (
	"strings"
	"time"
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
