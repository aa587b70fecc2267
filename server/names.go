package server

import (
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
)

func jobName(j soloist.JobInfo) string             { return j.Name }
func semaphoreName(s soloist.SemaphoreInfo) string { return s.Name }
func leaseName(l soloist.LeaseInfo) string         { return l.Name }

// subjectOf returns the name by which a caller's prefix goes: for an element it is that of its job. A job beside anything else means nothing.
func subjectOf(kind soloist.Kind, name, job string) string {
	if kind == soloist.KindElement {
		return job
	}
	return name
}

// replicaKey is what tells two replicas of one name apart.
func replicaKey(r soloist.ReplicaInfo) string {
	return strings.Join([]string{r.Replica, r.Host, strconv.Itoa(r.PID), r.Started.Format(time.RFC3339Nano)}, "\x00")
}

// leaseKey is what tells two names apart.
func leaseKey(l soloist.LeaseInfo) string {
	return strings.Join([]string{string(l.Kind), l.Name, strconv.Itoa(l.Permit)}, "\x00")
}
