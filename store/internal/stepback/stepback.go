// Package stepback has the processes that wait for one name step back while they are many.
//
// A release that is reported to everybody has everybody claim the name, and all but one claim without success. So a
// process whose claim was refused, or that has just had the name, leaves it to the others for a while. How long
// depends on how many processes have had the name lately, which all of them see alike, and on what a claim takes, so
// it suits slow servers too. None steps back for longer than the others: who is next is drawn by lot, as before. Up
// to three processes do not step back at all.
//
// A name that nobody takes is not left alone: each process that has not stepped back is woken at once, and each of
// the others looks at the name after [Longest] at most.
package stepback

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Longest is the longest pause. Only a crowd on a slow server comes to it: fifty processes, say, if a claim takes 110
// ms.
const Longest = 5 * time.Second

const (
	// usual is what a claim is taken to need until several were slower.
	usual = 2 * time.Millisecond
	// few processes do not step back.
	few = 3
	// patience is how long the claim of a process that was woken is waited for. The caller claims when it comes to
	// it, so nothing is missed meanwhile; but it may have given up at that moment.
	patience = time.Second
	// parting is how long a waiter that was granted the name may take to stop waiting.
	parting = 5 * time.Millisecond
	// lately is for how long it counts that a process had the name: that many claims, and a second at least.
	lately = 200
	// sightings is how many of those are remembered for each name. So a crowd of more counts as one of so many.
	sightings = 64
	// limit bounds how many names are remembered.
	limit = 1000
)

// Names are the names that the waiters of one store contend for. The zero value is ready to use. It is safe for
// concurrent use.
type Names struct {
	mu sync.Mutex
	of map[string]*contest
}

// A contest is what one process knows of a name.
type contest struct {
	seen  []sighting    // the latest last
	woken time.Time     // when the waiters were woken last
	took  time.Duration // from there to the decision, when nothing holds it up; 0 if that is not known
	over  bool          // decided is closed
	lost  bool          // the claim was refused
	won   bool          // this process has had the name since it last waited for it

	// decided is closed when the claim that follows a wake-up is decided. It is nil if there was none since the name
	// was looked at.
	decided chan struct{}
}

// A sighting is that a process had the name.
type sighting struct {
	who string
	at  time.Time
}

// contest returns what is known of a name.
func (n *Names) contest(name string) *contest {
	c := n.of[name]
	if c == nil {
		if n.of == nil || len(n.of) >= limit {
			n.of = map[string]*contest{} // each forgotten name costs some requests
		}
		c = &contest{}
		n.of[name] = c
	}
	return c
}

// Saw notes that a process has written the record of a name.
func (n *Names) Saw(name, who string) {
	if who == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c, now := n.contest(name), time.Now()
	if last := len(c.seen) - 1; last >= 0 && c.seen[last].who == who {
		c.seen[last].at = now
		return
	}
	if len(c.seen) == sightings {
		c.seen = slices.Delete(c.seen, 0, 1)
	}
	c.seen = append(c.seen, sighting{strings.Clone(who), now})
}

// Woken notes that the waiters of a name are told that it is free.
func (n *Names) Woken(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.contest(name); c.decided == nil || c.over {
		c.decided, c.over, c.lost, c.woken = make(chan struct{}), false, false, time.Now()
	}
}

// Acquired notes the outcomes of claims.
func (n *Names) Acquired(claims []store.Claim, outcomes []store.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.of) == 0 || len(outcomes) != len(claims) {
		return
	}
	for i, c := range claims {
		n.claimed(c.Name, outcomes[i].Err)
	}
}

// Chosen notes how a claim of any of several names ended. If err is nil, the name with index i was granted.
func (n *Names) Chosen(names []string, i int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, name := range names {
		if err == nil && k != i {
			n.claimed(name, errOther)
		} else {
			n.claimed(name, err)
		}
	}
}

// errOther is that another name was acquired, which is no race lost.
var errOther = errors.New("another name was acquired")

// claimed ends the race for a name.
func (n *Names) claimed(name string, err error) {
	c := n.of[name]
	if c == nil {
		return
	}
	c.won = c.won || err == nil
	if c.decided == nil || c.over {
		return // there was no race
	}
	c.lost, c.over = errors.Is(err, store.ErrHeld), true
	// One slow claim does not make this process step back further than the others.
	c.took = min(time.Since(c.woken), max(c.took+c.took/2, usual))
	close(c.decided)
}

// Enter returns when a process may begin to wait for a name: if it has had it just before, after a pause, or when
// stop is closed.
func (n *Names) Enter(name string, stop <-chan struct{}) {
	n.mu.Lock()
	pause := time.Duration(0)
	if c := n.of[name]; c != nil && c.won {
		c.won = false
		pause = min(c.draw(), time.Second) // its caller waits for that
	}
	n.mu.Unlock()
	sleep(pause, nil, stop)
}

// Await returns when a process whose waiters were woken may look at the name again: when their claim was decided, and
// after a pause if it was refused. It returns earlier when stop is closed, which it must be when nobody waits any
// more: so a process that was granted the name does not look. If nobody was woken since Await was last called it
// returns immediately.
func (n *Names) Await(name string, stop <-chan struct{}) {
	n.mu.Lock()
	c := n.of[name]
	var decided chan struct{}
	if c != nil {
		decided = c.decided
	}
	n.mu.Unlock()
	if decided == nil {
		return
	}
	sleep(patience, decided, stop)
	sleep(c.next(&n.mu), nil, stop)
}

// next ends a race, and returns the pause after it.
func (c *contest) next(mu *sync.Mutex) time.Duration {
	mu.Lock()
	defer mu.Unlock()
	c.decided = nil
	switch {
	case c.lost:
		return c.draw()
	case c.over: // who was granted the name does not wait any more: stop is about to be closed
		return parting
	}
	return 0
}

// draw returns a random pause, in which about as many claims are decided as there are processes.
func (c *contest) draw() time.Duration {
	crowd := c.crowd()
	if crowd <= few {
		return 0
	}
	pause := min(c.took*time.Duration(crowd-few), Longest)
	return pause/2 + rand.N(pause/2+1)
}

// crowd returns how many processes have had the name lately.
func (c *contest) crowd() int {
	since := time.Now().Add(-max(time.Second, lately*c.took))
	c.seen = slices.DeleteFunc(c.seen, func(s sighting) bool { return s.at.Before(since) })
	who := map[string]bool{}
	for _, s := range c.seen {
		who[s.who] = true
	}
	return len(who)
}

// sleep waits for d, or until one of two channels is closed.
func sleep(d time.Duration, one, two <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-one:
	case <-two:
	}
}
