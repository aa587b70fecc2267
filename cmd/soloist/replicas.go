package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
)

// A replicaRow is a replica that runs jobs.
type replicaRow struct {
	Replica string    `json:"replica"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Alive   bool      `json:"alive"`
	Left    float64   `json:"left_seconds"`
	Silent  float64   `json:"silent_seconds"` // since it renewed its lease
	Jobs    int       `json:"jobs"`
	Ahead   float64   `json:"clock_ahead_seconds"`
	info    soloist.ReplicaInfo
}

func newReplicaRow(i soloist.ReplicaInfo) replicaRow {
	return replicaRow{i.Replica, i.Host, i.PID, i.Version, i.Started, i.Alive, i.Left.Seconds(), i.Silent.Seconds(), i.Jobs, i.ClockAhead.Seconds(), i}
}

func (a *app) replicasCommand() *cobra.Command {
	c := &cobra.Command{Use: "replicas", Short: "See which replicas are alive", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	show := &cobra.Command{
		Use: "list", Short: "List the replicas that run jobs, and those that have died within the last hour", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				return list(a, "REPLICA|STATE|LAST SEEN|VERSION|STARTED|JOBS|CLOCK", c.Admin().Replicas(ctx), newReplicaRow, func(r replicaRow) []string {
					state, seen := heard(r.info)
					return []string{r.Replica, state, seen, r.Version, instant(r.Started), strconv.Itoa(r.Jobs), ahead(r.info.ClockAhead)}
				})
			})
		},
	}
	a.outputFlag(show)
	c.AddCommand(show)
	return c
}

// heard returns the state of a replica, and when the store has heard of it last. One that is silent for half its TTL has
// missed a renewal: it was probably killed or cut off, although its lease has not ended.
func heard(i soloist.ReplicaInfo) (state, seen string) {
	seen = span(i.Silent) + " ago"
	switch {
	case !i.Alive:
		return "died", "over " + seen
	case i.Silent > i.Left:
		return "silent", seen
	}
	return "alive", seen
}

// ahead shows how far a clock is ahead, where that is more than a request may take.
func ahead(d time.Duration) string {
	switch {
	case d.Abs() < time.Second:
		return "right"
	case d < 0:
		return span(-d) + " behind"
	}
	return span(d) + " ahead"
}
