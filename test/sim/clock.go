package sim

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// All replicas share the wall clock of a bubble. That of a replica is ahead by d if each instant that it reads from the store is earlier by d, each
// that it writes later, and its schedules and what they give as well: then all that others see of it is as if its clock were ahead.

// A wallClock is by how much the wall clock of a life of a replica is ahead of the true one.
type wallClock time.Duration

// clock returns the wall clock of the replica's life. The next life has another: it was put forward or back meanwhile.
func (r *replica) clock(life int) wallClock {
	clocks := r.world.plan.Clocks
	if len(clocks) == 0 || r.world.plan.Without["clocks"] {
		return 0
	}
	ahead := clocks[(r.index+life)%len(clocks)]
	if r.world.plan.Control == FarClocks {
		ahead *= 5
	}
	return wallClock(ahead)
}

// clock returns the wall clock of the life that makes a request.
func (n *network) clock() wallClock { return n.replica.clock(int(n.replica.life.Load())) }

// ms returns a wall time of unix milliseconds, moved by a number of clocks: 1 writes it, -1 reads it. What is no time stays.
func (c wallClock) ms(at int64, way int) int64 {
	const times = 1 << 32 // less is a number of something
	if at < times {
		return at
	}
	return at + int64(way)*time.Duration(c).Milliseconds()
}

// state moves the times in the state of a job's record.
func (c wallClock) state(name string, state []byte, way int) []byte {
	fields := map[string]json.RawMessage{}
	if c == 0 || !strings.HasPrefix(name, "job/") || len(state) == 0 || json.Unmarshal(state, &fields) != nil {
		return state
	}
	for _, key := range []string{"since", "forgot", "pending", "next", "ended", "claimed", "asked", "died"} {
		var at int64
		if json.Unmarshal(fields[key], &at) == nil {
			fields[key], _ = json.Marshal(c.ms(at, way))
		}
	}
	var runs []soloist.RunRecord
	if json.Unmarshal(fields["runs"], &runs) == nil {
		move := time.Duration(c) * time.Duration(way)
		for i := range runs {
			r := &runs[i]
			r.ScheduledAt, r.StartedAt, r.EndedAt = r.ScheduledAt.Add(move), r.StartedAt.Add(move), r.EndedAt.Add(move)
		}
		fields["runs"], _ = json.Marshal(runs)
	}
	moved, err := json.Marshal(fields)
	if err != nil {
		return state
	}
	return moved
}

func (c wallClock) claims(claims []store.Claim) []store.Claim {
	if c == 0 {
		return claims
	}
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].Mark = c.ms(claims[i].Mark, 1)
	}
	return claims
}

func (c wallClock) extensions(extensions []store.Extension) []store.Extension {
	if c == 0 {
		return extensions
	}
	extensions = slices.Clone(extensions)
	for i := range extensions {
		e := &extensions[i]
		e.Mark, e.State = c.ms(e.Mark, 1), c.state(e.Name, e.State, 1)
	}
	return extensions
}

func (c wallClock) releases(releases []store.Release) []store.Release {
	if c == 0 {
		return releases
	}
	releases = slices.Clone(releases)
	for i := range releases {
		r := &releases[i]
		r.Mark, r.State = c.ms(r.Mark, 1), c.state(r.Name, r.State, 1)
	}
	return releases
}

// outcomes are what the replica is told of names.
func (c wallClock) outcomes(claims []store.Claim, outs []store.Outcome) []store.Outcome {
	if c == 0 {
		return outs
	}
	for i := range outs {
		out := &outs[i]
		out.Grant.Mark, out.Grant.State = c.ms(out.Grant.Mark, -1), c.state(claims[i].Name, out.Grant.State, -1)
		var held *store.HeldError
		if errors.As(out.Err, &held) {
			held.Record.Mark = c.ms(held.Record.Mark, -1)
		}
		var done *store.DoneError
		if errors.As(out.Err, &done) {
			done.Record.Mark, done.Record.State = c.ms(done.Record.Mark, -1), c.state(claims[i].Name, done.Record.State, -1)
		}
	}
	return outs
}

// schedule is that of others, by this clock.
func (c wallClock) schedule(s soloist.Schedule) soloist.Schedule {
	if c == 0 {
		return s
	}
	return shifted{s, time.Duration(c)}
}

type shifted struct {
	soloist.Schedule
	ahead time.Duration
}

func (s shifted) Next(after time.Time) time.Time {
	next := s.Schedule.Next(after.Add(s.ahead))
	if next.IsZero() {
		return next
	}
	return next.Add(-s.ahead)
}

func (s shifted) String() string { return s.Schedule.(interface{ String() string }).String() }
