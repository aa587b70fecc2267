//go:build unix

package failover_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/test/failover"
)

// fall is more than any token.
const fall = 1 << 60

var errAway = errors.New("the server is away")

// A trio stands for a cluster: three switches, of which two must be on, before one store in memory. The first that is on leads.
type trio struct {
	*memstore.Store
	on    [3]atomic.Bool
	flaws flaws
	lost  atomic.Int64 // counts servers that went away
}

// The flaws are what a cluster does wrong while servers are away, or after that.
type flaws struct {
	grantsAll bool // each claim is granted
	fallsBack bool // tokens are less than before
	forgets   bool // leases are gone
	decides   bool // one server of three decides
	saysHeld  bool // one server of three says that each name is held
	saysLost  bool // and that each lease is lost
}

func newTrio(f flaws) *trio {
	c := &trio{Store: memstore.New(), flaws: f}
	for i := range c.on {
		c.on[i].Store(true)
	}
	return c
}

func (c *trio) away() (n int) {
	for i := range c.on {
		if !c.on[i].Load() {
			n++
		}
	}
	return n
}

// A member is a server of a trio.
type member struct {
	c *trio
	i int
}

func (m *member) Kill()   { m.c.on[m.i].Store(false); m.c.lost.Add(1) }
func (m *member) Start()  { m.c.on[m.i].Store(true) }
func (m *member) Pause()  { m.Kill() }
func (m *member) Resume() { m.Start() }

func (c *trio) cluster() failover.Cluster {
	members := []failover.Server{&member{c, 0}, &member{c, 1}, &member{c, 2}}
	leader := func() failover.Server {
		return members[slices.IndexFunc(members, func(s failover.Server) bool { return c.on[s.(*member).i].Load() })]
	}
	return failover.Cluster{Servers: members, Open: func(int) store.Store { return c }, Leader: leader}
}

func (c *trio) Ping(context.Context) error {
	if c.away() > 1 {
		return errAway
	}
	return nil
}

func (c *trio) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	switch {
	case c.away() > 1 && c.flaws.saysHeld:
		return []store.Outcome{{Err: store.ErrHeld}}, nil
	case c.away() > 1 && !c.flaws.decides:
		return nil, errAway
	}
	outcomes, err := c.Store.Acquire(ctx, claims)
	for i := range outcomes {
		if c.away() > 0 && c.flaws.grantsAll && outcomes[i].Err != nil {
			outcomes[i] = store.Outcome{Grant: store.Grant{Token: fall + c.lost.Add(1)}}
		}
		if c.lost.Load() > 0 && c.flaws.fallsBack {
			outcomes[i].Grant.Token -= fall
		}
	}
	return outcomes, err
}

func (c *trio) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	switch {
	case c.away() > 1 && c.flaws.saysLost, c.lost.Load() > 0 && c.flaws.forgets:
		return []error{store.ErrLost}, nil
	case c.away() > 1 && !c.flaws.decides:
		return nil, errAway
	}
	return c.Store.Extend(ctx, extensions)
}

func (c *trio) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	own := slices.Clone(releases)
	for i := range own {
		if own[i].Token <= 0 {
			own[i].Token += fall
		}
	}
	errs, err := c.Store.Release(ctx, own)
	if c.flaws.grantsAll { // what another held
		clear(errs)
	}
	return errs, err
}

// A record is what a check says of a cluster.
type record struct {
	testing.TB
	mu      sync.Mutex
	said    []string
	cleanup []func()
}

func (r *record) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *record) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *record) Cleanup(f func())                  { r.cleanup = append(r.cleanup, f) }

// of runs a check, and returns what it says.
func of(t *testing.T, check func(failover.Test)) []string {
	r := &record{TB: t}
	var wait sync.WaitGroup
	wait.Go(func() {
		defer func() {
			for _, f := range slices.Backward(r.cleanup) {
				f()
			}
		}()
		check(r)
	})
	wait.Wait()
	return r.said
}

func oneAway(f flaws) func(failover.Test) {
	return func(t failover.Test) { failover.OneAway(t, newTrio(f).cluster()) }
}

func noMajority(f flaws) func(failover.Test) {
	return func(t failover.Test) { failover.NoMajority(t, newTrio(f).cluster()) }
}

func restart(f flaws) func(failover.Test) {
	return func(t failover.Test) {
		c := newTrio(f)
		failover.Restart(t, c.cluster().Servers[0], c)
	}
}

// TestChecks: a cluster that does what it must passes each check, and what one does wrong is said.
func TestChecks(t *testing.T) {
	for name, c := range map[string]struct {
		check func(flaws) func(failover.Test)
		flaws flaws
		said  string
	}{
		"one away":                         {check: oneAway},
		"no majority":                      {check: noMajority},
		"restart":                          {check: restart},
		"one away, granted what is held":   {oneAway, flaws{grantsAll: true}, "claiming what another holds"},
		"one away, tokens fall":            {oneAway, flaws{fallsBack: true}, "was granted with token"},
		"one away, a lease is gone":        {oneAway, flaws{forgets: true}, "extending a lease"},
		"no majority, one decides":         {noMajority, flaws{decides: true}, "claiming a free name without a majority: <nil>"},
		"no majority, what is held":        {noMajority, flaws{decides: true, grantsAll: true}, "what another holds was granted"},
		"no majority, it says held":        {noMajority, flaws{saysHeld: true}, "claiming a free name without a majority"},
		"no majority, it says lost":        {noMajority, flaws{saysLost: true}, "extending without a majority"},
		"no majority, a lease is gone":     {noMajority, flaws{forgets: true}, "extending with all servers again"},
		"restart, what was written is not": {restart, flaws{forgets: true}, "which was confirmed"},
	} {
		t.Run(name, func(t *testing.T) {
			said := of(t, c.check(c.flaws))
			if c.said == "" && len(said) > 0 || c.said != "" && !strings.Contains(strings.Join(said, "\n"), c.said) {
				t.Errorf("said %q, want %q", said, c.said)
			}
		})
	}
}
