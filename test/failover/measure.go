//go:build unix

package failover

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
)

// Measure kills the leader in each iteration, and reports in milliseconds how long it takes until another server leads and until a client of soloist, whose
// connections were to the leader where servers can be chosen, has a new lock. "later" is the time between the two. Each figure is the middle one of the iterations, and
// "most-later" the greatest.
func Measure(b *testing.B, c Cluster) {
	var elections, goesOn, later []time.Duration
	for b.Loop() {
		elected, locked := c.depose(b)
		elections, goesOn, later = append(elections, elected), append(goesOn, locked), append(later, locked-elected)
	}
	report := func(d time.Duration, what string) { b.ReportMetric(float64(d)/float64(time.Millisecond), what) }
	report(middle(elections), "election-ms")
	report(middle(goesOn), "client-ms")
	report(middle(later), "later-ms")
	report(slices.Max(later), "most-later-ms")
}

// depose kills the leader, and returns when another server leads and when a client has a lock.
func (c Cluster) depose(b *testing.B) (elected, locked time.Duration) {
	leader := c.Leader()
	first := 0
	for i, s := range c.Servers {
		if s == leader {
			first = i
		}
	}
	client, err := soloist.New(c.Open(first), soloist.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	lock := func(name string) {
		ctx, cancel := context.WithTimeout(background, patience)
		defer cancel()
		for {
			lease, err := client.Lock(ctx, name)
			if err == nil {
				_ = lease.Release()
				return
			}
			if ctx.Err() != nil {
				b.Errorf("no lock of %s: %v", name, err)
				return
			}
		}
	}
	lock("before")
	began := time.Now()
	leader.Kill()
	var wait sync.WaitGroup
	wait.Go(func() { c.elected(leader); elected = time.Since(began) })
	wait.Go(func() { lock("after"); locked = time.Since(began) })
	wait.Wait()
	leader.Start()
	return elected, locked
}

// elected waits until a server other than one leads.
func (c Cluster) elected(away Server) {
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	for ctx.Err() == nil {
		for _, s := range c.Servers {
			if s != away && c.Leads(ctx, s) {
				return
			}
		}
		time.Sleep(look)
	}
}

const (
	patience = 2 * time.Minute
	look     = 5 * time.Millisecond
)

func middle(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
