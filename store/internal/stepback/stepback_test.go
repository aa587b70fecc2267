package stepback

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A lock is a name for which processes wait in virtual time. Each request takes a while.
type lock struct {
	mu         sync.Mutex
	trip, hold time.Duration
	turn       chan struct{} // closed by a release; nil if nobody has it
	owner      string        // who has it, or had it last
	claims     int
	looks      int
	changes    int
	gap        time.Duration // in which nobody had it, in all
	freed      time.Time
}

// request takes as long as a request.
func (l *lock) request() { time.Sleep(l.trip/2 + rand.N(l.trip)) }

// look returns a channel that is closed by the release, or nil if nobody has the lock.
func (l *lock) look(names *Names) <-chan struct{} {
	l.request()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	names.Saw("x", l.owner)
	return l.turn
}

// claim takes the lock if it is free.
func (l *lock) claim(who string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims++
	if l.turn != nil {
		return &store.HeldError{}
	}
	l.turn, l.owner = make(chan struct{}), who
	l.changes++
	l.gap += time.Since(l.freed)
	return nil
}

func (l *lock) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.turn)
	l.turn, l.freed = nil, time.Now()
}

// wait is how a store waits for a name: it looks, waits for a release, wakes its caller, which claims, and steps back
// if that was in vain.
func (l *lock) wait(names *Names, who string) {
	names.Enter("x", nil)
	for {
		if turn := l.look(names); turn != nil {
			<-turn
			if l.look(names) != nil {
				continue
			}
		}
		names.Woken("x")
		l.request()
		err := l.claim(who)
		names.Acquired([]store.Claim{{Name: "x"}}, []store.Outcome{{Err: err}})
		if err == nil {
			return
		}
		names.Await("x", nil)
	}
}

// run has processes wait for a lock for a time.
func run(waiters int, trip, hold, away time.Duration) (l *lock, fewest, most int) {
	l = &lock{trip: trip, hold: hold, freed: time.Now()}
	holds := make([]int, waiters)
	end := time.Now().Add(time.Duration(waiters) * 400 * (2*trip + hold))
	done := make(chan struct{}, waiters)
	for i := range waiters {
		go func() {
			defer func() { done <- struct{}{} }()
			names := &Names{}
			for time.Now().Before(end) {
				l.wait(names, strconv.Itoa(i))
				holds[i]++
				time.Sleep(hold)
				l.request()
				l.release()
				time.Sleep(away)
			}
		}()
	}
	for range waiters {
		<-done
	}
	fewest, most = holds[0], holds[0]
	for _, n := range holds {
		fewest, most = min(fewest, n), max(most, n)
	}
	return l, fewest, most
}

// TestCrowd: of many processes that wait most let some changes pass, whatever a request takes. So few look at the
// name for each change of its owner, the name does not stay free for long, and none is left out. Of few processes
// each looks each time.
func TestCrowd(t *testing.T) {
	for _, trip := range []time.Duration{300 * time.Microsecond, 3 * time.Millisecond, 50 * time.Millisecond} {
		for _, waiters := range []int{2, 4, 16} {
			t.Run(fmt.Sprint(waiters, " waiters, ", trip), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, fewest, most := run(waiters, trip, trip/2, 2*trip)
					claims, looks := float64(l.claims)/float64(l.changes), float64(l.looks)/float64(l.changes)
					gap := l.gap / time.Duration(l.changes)
					t.Logf("%.2f claims and %.2f looks for each change; the name is free for %v; %d to %d holds", claims, looks, gap, fewest, most)
					if waiters >= 16 && looks > 0.6*float64(waiters) {
						t.Errorf("%.1f looks for each change", looks)
					}
					if gap > 4*trip {
						t.Errorf("the name is free for %v", gap)
					}
					if most > 2*fewest {
						t.Errorf("%d to %d holds", fewest, most)
					}
				})
			})
		}
	}
}

// TestAwait: how long a process leaves a name to others. Time is virtual.
func TestAwait(t *testing.T) {
	refused, granted := []store.Outcome{{Err: &store.HeldError{}}}, []store.Outcome{{}}
	claims := []store.Claim{{Name: "x"}}
	await := func(n *Names, stop <-chan struct{}) time.Duration {
		start := time.Now()
		n.Await("x", stop)
		return time.Since(start)
	}
	enter := func(n *Names) time.Duration {
		start := time.Now()
		n.Enter("x", nil)
		return time.Since(start)
	}
	lose := func(n *Names, took time.Duration) time.Duration {
		n.Woken("x")
		go func() {
			time.Sleep(took)
			n.Acquired(claims, refused)
		}()
		return await(n, nil) - took
	}
	crowd := func(n *Names, size int) {
		for i := range size {
			n.Saw("x", strconv.Itoa(i))
		}
	}
	within := func(t *testing.T, d, least, most time.Duration) {
		t.Helper()
		if d < least || d > most {
			t.Errorf("waited for %v, want %v to %v", d, least, most)
		}
	}
	const ms = time.Millisecond
	for what, check := range map[string]func(t *testing.T, n *Names){
		"nobody was woken": func(t *testing.T, n *Names) {
			crowd(n, 16)
			n.Acquired(claims, refused)
			within(t, await(n, nil), 0, 0)
		},
		"the one who was woken claims nothing": func(t *testing.T, n *Names) {
			crowd(n, 16)
			n.Woken("x")
			within(t, await(n, nil), patience, patience)
		},
		"a few": func(t *testing.T, n *Names) {
			crowd(n, few)
			n.Saw("x", "") // nobody has written it
			within(t, lose(n, ms), 0, 0)
		},
		"a crowd": func(t *testing.T, n *Names) {
			crowd(n, few+10)
			n.Saw("y", "0")
			within(t, lose(n, ms), 5*ms, 10*ms)
		},
		"a crowd on a slow server": func(t *testing.T, n *Names) {
			for range 20 {
				crowd(n, few+10)
				lose(n, 40*ms)
			}
			crowd(n, few+10)
			within(t, lose(n, 40*ms), 200*ms, 400*ms)
		},
		"one slow claim": func(t *testing.T, n *Names) {
			crowd(n, few+10)
			within(t, lose(n, time.Second/2), 10*ms, 20*ms)
		},
		"a huge crowd on a slow server": func(t *testing.T, n *Names) {
			for range 30 {
				lose(n, time.Second/2)
			}
			crowd(n, sightings)
			within(t, lose(n, time.Second/2), Longest/2, Longest)
		},
		"the crowd has gone": func(t *testing.T, n *Names) {
			crowd(n, 16)
			time.Sleep(2 * time.Second)
			within(t, lose(n, ms), 0, 0)
		},
		"it had the name": func(t *testing.T, n *Names) {
			crowd(n, few+10)
			lose(n, ms)
			n.Woken("x")
			time.Sleep(ms)
			n.Acquired(claims, granted)
			within(t, enter(n), 5*ms, 10*ms)
			within(t, enter(n), 0, 0)
		},
		"the last waiter leaves": func(t *testing.T, n *Names) {
			crowd(n, 16)
			stop := make(chan struct{})
			close(stop)
			n.Woken("x")
			n.Acquired(claims, refused)
			within(t, await(n, stop), 0, 0)
		},
		"one of several names": func(t *testing.T, n *Names) {
			n.Woken("x")
			n.Chosen([]string{"y", "x"}, 0, nil)
			stop := make(chan struct{})
			time.AfterFunc(ms, func() { close(stop) })
			within(t, await(n, stop), ms, ms)
		},
		"another of several names": func(t *testing.T, n *Names) {
			n.Woken("x")
			n.Chosen([]string{"y", "x"}, 0, nil)
			within(t, await(n, nil), parting, parting)
			crowd(n, few+10)
			within(t, enter(n), 0, 0)
		},
		"none of several names": func(t *testing.T, n *Names) {
			crowd(n, few+20)
			n.Woken("x")
			time.Sleep(ms)
			n.Chosen([]string{"y", "x"}, 1, &store.HeldError{})
			within(t, await(n, nil), 10*ms, 20*ms)
		},
		"it had one of several names": func(t *testing.T, n *Names) {
			crowd(n, few+10)
			lose(n, ms)
			n.Chosen([]string{"y", "x"}, 1, nil)
			within(t, enter(n), 5*ms, 10*ms)
		},
		"it had the name, on a slow server": func(t *testing.T, n *Names) {
			for range 30 {
				lose(n, time.Second/2)
			}
			crowd(n, sightings)
			n.Acquired(claims, granted)
			within(t, enter(n), time.Second, time.Second)
		},
		"it looks again": func(t *testing.T, n *Names) {
			crowd(n, few+10)
			lose(n, ms)
			within(t, await(n, nil), 0, 0)
		},
		"it is woken again before it looks": func(t *testing.T, n *Names) {
			n.Woken("x")
			n.Acquired(claims, refused)
			n.Woken("x")
			within(t, await(n, nil), patience, patience)
		},
		"nobody knows how its claim ended": func(t *testing.T, n *Names) {
			n.Woken("x")
			n.Acquired(claims, nil)
			within(t, await(n, nil), patience, patience)
		},
		"a name that nobody has heard of": func(t *testing.T, n *Names) {
			start := time.Now()
			n.Await("y", nil)
			within(t, time.Since(start), 0, 0)
		},
		"one of the crowd has the name most of the time": func(t *testing.T, n *Names) {
			crowd(n, few+10)
			for range 2 * sightings {
				n.Saw("x", strconv.Itoa(few+9))
			}
			within(t, lose(n, ms), 5*ms, 10*ms)
		},
		"one has the name for long": func(t *testing.T, n *Names) {
			crowd(n, 1)
			time.Sleep(900 * ms)
			crowd(n, few+1)
			time.Sleep(200 * ms)
			within(t, lose(n, ms), ms/2, ms)
		},
		"more processes than are remembered": func(t *testing.T, n *Names) {
			for range 20 { // of a greater crowd some pause would be longer
				crowd(n, 2*sightings)
				within(t, lose(n, ms), (sightings-few)*ms/2, (sightings-few)*ms)
			}
		},
		"more names than are remembered": func(t *testing.T, n *Names) {
			crowd(n, few+10)
			for i := range limit {
				n.Saw(fmt.Sprint("y", i), "0")
			}
			within(t, lose(n, ms), 0, 0)
		},
	} {
		t.Run(what, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { check(t, &Names{}) }) })
	}
}
