package soloist

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A ReplicaInfo describes a replica that runs jobs: one Run of a client. A client that only takes locks, permits and the like has no record of its
// own: what it holds shows it.
type ReplicaInfo struct {
	Replica string
	Host    string
	PID     int
	Version string        // of the program: Config.Version
	Started time.Time     // by its clock
	Alive   bool          // its lease is live; else it has died, or is cut off
	Left    time.Duration // until it counts as dead, unless it renews its lease
	Jobs    int           // how many it has

	// ClockAhead is how far its clock was ahead of this machine's when it started, or behind if it is negative. It is off by the time of a
	// request at most, and by what the clocks have drifted apart since.
	ClockAhead time.Duration

	id     string
	digest string
	died   time.Time
	state  replicaState
}

// Replicas lists the replicas that run jobs, and those that have died within the last hour.
func (a *Admin) Replicas(ctx context.Context) iter.Seq2[ReplicaInfo, error] {
	return func(yield func(ReplicaInfo, error) bool) {
		f := a.client.fleet(ctx, func(ReplicaInfo) bool { return false })
		for _, info := range f.replicas {
			if !yield(info, nil) {
				return
			}
		}
		if err := f.bad.err(); err != nil {
			yield(ReplicaInfo{}, err)
		}
	}
}

// replicaInfo describes the replica of a record at now, if it has not withdrawn.
func replicaInfo(id string, r store.Record, now time.Time) (info ReplicaInfo, ok bool, err error) {
	if len(r.State) == 0 { // it has just come, or has withdrawn
		return info, false, nil
	}
	var s replicaState
	if err := json.Unmarshal(r.State, &s); err != nil {
		return info, false, fmt.Errorf("the record of replica %q is not soloist's: %w", id, err)
	}
	info = ReplicaInfo{
		Replica: s.Replica, Host: s.Host, PID: s.PID, Version: s.Version, Started: time.UnixMilli(s.Started).UTC(), Jobs: s.Jobs,
		Alive: r.Holder != "" && !r.Free(), Left: r.Left,
		ClockAhead: time.UnixMilli(s.Clock).Sub(now.Add(-r.Age).Truncate(time.Millisecond)),
		id:         id, digest: s.Digest, state: s,
	}
	if s.Died > 0 {
		info.died = time.UnixMilli(s.Died).UTC()
		info.ClockAhead = 0 // the record has been taken by another since
	}
	return info, info.died.IsZero() || now.Sub(info.died) < keepDead, nil
}
