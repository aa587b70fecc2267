// Package shedlock says which records soloist's clients share with ShedLock's, in stores that both use
// (https://github.com/lukas-krecan/ShedLock). ShedLock knows no kinds of names: what it calls "report" is soloist's lock "report", and its
// job "report" too. So these two are one record there, and exclude each other.
package shedlock

import "strings"

// Lock begins the name of the record that is shown for a lock of ShedLock's which no client of soloist has taken yet.
const Lock = "lock/"

// job begins the names of the records of jobs.
const job = "job/"

// Bare answers the name by which ShedLock knows a record. A record that is neither a lock's nor a job's, or that is in a namespace, is
// not shared, and keeps its name.
func Bare(record string) (name string, shared bool) {
	for _, prefix := range []string{Lock, job} {
		if bare, is := strings.CutPrefix(record, prefix); is && bare != "" {
			return bare, true
		}
	}
	return record, false
}

// Prefix begins the keys of ShedLock's Redis providers unless they were built with another.
const Prefix = "job-lock"

// Key returns the key that ShedLock's Redis providers take for a lock, by the prefix and the environment that they were built with.
func Key(prefix, environment, name string) string { return prefix + ":" + environment + ":" + name }
