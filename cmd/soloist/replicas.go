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
	Jobs    int       `json:"jobs"`
	Ahead   float64   `json:"clock_ahead_seconds"`
	info    soloist.ReplicaInfo
}

func newReplicaRow(i soloist.ReplicaInfo) replicaRow {
	return replicaRow{i.Replica, i.Host, i.PID, i.Version, i.Started, i.Alive, i.Left.Seconds(), i.Jobs, i.ClockAhead.Seconds(), i}
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
				return list(a, "REPLICA|STATE|VERSION|STARTED|JOBS|CLOCK", c.Admin().Replicas(ctx), newReplicaRow, func(r replicaRow) []string {
					state := "alive"
					if !r.Alive {
						state = "died"
					}
					return []string{r.Replica, state, r.Version, instant(r.Started), strconv.Itoa(r.Jobs), ahead(r.info.ClockAhead)}
				})
			})
		},
	}
	a.outputFlag(show)
	c.AddCommand(show)
	return c
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
