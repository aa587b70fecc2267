package soloist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A ReplicaInfo describes a replica that runs jobs: one Run of a client. A client that only acquires locks or permits
// is not listed as a replica; the lists of those show it as their holder.
type ReplicaInfo struct {
	Replica string
	Host    string
	PID     int
	Version string        // of the program: Config.Version
	Started time.Time     // by its clock
	Alive   bool          // its lease is live; otherwise it has died, or is cut off
	Left    time.Duration // until it counts as dead, unless it renews its lease
	Jobs    int           // how many it has

	// Silent is how long ago the replica renewed its lease, by the store's clock. A replica renews it every third of the
	// TTL, so one that is silent for longer has probably died or is cut off, although it counts as alive until Left has
	// passed. For a replica that is not alive, and on a store without a clock, it is a lower bound.
	Silent time.Duration

	// ClockAhead is how far its clock was ahead of this machine's when it started; negative means behind. It is accurate
	// to the duration of a request, plus the drift between the clocks since then.
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
		if err := errors.Join(f.bad.err(), f.badDead.err()); err != nil {
			yield(ReplicaInfo{}, err)
		}
	}
}

// replicaInfo returns the description of a record's replica at now. ok is false if the replica has withdrawn.
func replicaInfo(id string, r store.Record, now time.Time) (info ReplicaInfo, ok bool, err error) {
	if len(r.State) == 0 { // it has just started, or has withdrawn
		return info, false, nil
	}
	var s replicaState
	err = json.Unmarshal(r.State, &s)
	if err == nil && (s.Jobs < 0 || s.Jobs > mostJobs) {
		err = fmt.Errorf("it has %d jobs", s.Jobs)
	}
	if err != nil {
		return info, false, unreadableRecord(fmt.Errorf("the record of replica %q is not soloist's: %w", id, err))
	}
	info = ReplicaInfo{
		Replica: s.Replica, Host: s.Host, PID: s.PID, Version: s.Version, Started: time.UnixMilli(s.Started).UTC(), Jobs: s.Jobs,
		Alive: r.Holder != "" && !r.Free(), Left: r.Left,
		ClockAhead: time.UnixMilli(s.Clock).Sub(now.Add(-r.Age).Truncate(time.Millisecond)),
		id:         id, digest: s.Digest, state: s,
	}
	ttl := time.Duration(s.TTL) * time.Millisecond
	info.Silent = max(0, ttl-r.Left)
	if s.Died > 0 {
		info.died = time.UnixMilli(s.Died).UTC()
		info.ClockAhead, info.Silent = 0, ttl+r.Age // another client has claimed the record since
	}
	return info, info.died.IsZero() || now.Sub(info.died) < keepDead, nil
}
