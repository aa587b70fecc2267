//go:build unix

package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A minute is longer than any of these tests takes: what is had sooner was given back.
const long = time.Hour

// shedlockField has two peers, and in SQL a table that we have not migrated yet.
func shedlockField(t testing.TB, o Options) *field {
	t.Helper()
	o.ShedLock = os.Getenv("SOLOIST_TEST_SHEDLOCK") // another release of it
	f := &field{url: o.URL, table: o.Table, names: o.Columns, mode: "share=job-lock:" + o.Env + ":*", unsafe: unsafe(o)}
	if strings.Contains(o.JDBC, otherZone) {
		f.zone = otherZone
	}
	host, err := os.Hostname()
	must(t, err)
	f.a, f.hostA = Start(t, o), host
	if f.table != "" {
		o.LockedBy = "another-host"
	}
	f.b = Start(t, o)
	return f
}

// unsafe reports whether the peers unlock without looking whose the lock is: in Redis unless they are told to look, and in SQL by the
// client's clock in releases of ShedLock before 7 (seen in 6.10.0, gone in 7.10.1).
func unsafe(o Options) bool {
	if o.Table == "" {
		return !o.Safe
	}
	return o.Provider == "jdbc-client-time" && o.ShedLock != "" && !strings.HasPrefix(o.ShedLock, "7.")
}

// migrate brings the table up to date, where there is one.
func (f *field) migrate(t testing.TB) {
	t.Helper()
	if m, ok := store.As[store.Migrator](f.open(t)); ok {
		if _, err := m.Migrate(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShedLock has the real ShedLock and the real client contend for names. What is under test is the store's ShedLock mode.
func TestShedLock(t *testing.T) {
	servers.Long(t)
	rules := map[string]func(*testing.T, *field){
		"theirs keeps ours out":                       theirsKeepsOursOut,
		"ours keeps theirs out":                       oursKeepsTheirsOut,
		"theirs expires":                              theirsExpires,
		"ours expires":                                oursExpires,
		"theirs lingers":                              theirsLingers,
		"ours lingers":                                oursLingers,
		"theirs is extended":                          theirsIsExtended,
		"ours is extended":                            oursIsExtended,
		"a stale unlock of theirs":                    staleUnlockOfTheirs,
		"stale calls of ours":                         staleCallsOfOurs,
		"tokens grow across their turns":              tokensGrow,
		"waiting for theirs ends with its unlock":     waitingForTheirs,
		"a lock and a job of one name are theirs too": jobsAreTheirsToo,
		"counting together":                           countingTogether,
		"a job among annotated methods":               jobAmongAnnotatedMethods,
	}
	for _, on := range []string{
		"PostgreSQL", "PostgreSQL, clock of the client", "PostgreSQL, other columns",
		"MariaDB", "MariaDB, driver of MySQL in another zone", "MariaDB, other columns",
		"Redis, Jedis", "Redis, Lettuce without safeUpdate",
	} {
		t.Run(on, func(t *testing.T) {
			f := shedlockField(t, providers()[on](t))
			f.migrate(t)
			t.Run("rules", func(t *testing.T) { // ends when all of them have
				if strings.HasPrefix(f.url, "postgres:") {
					t.Run("their turns advance our token", func(t *testing.T) { theirTurnsAdvance(t, f) })
				}
				for name, rule := range rules {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						rule(t, f)
					})
				}
			})
		})
	}
}

func theirsKeepsOursOut(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	held := javaLock(t, f.a, name(t), long, 0)
	r := ourRefused(t, c, name(t))
	if !strings.Contains(r.Holder, f.hostA) || r.Left <= 0 || r.Left > long {
		t.Errorf("what ShedLock holds is shown as held by %q for %v; want the host %q and at most %v", r.Holder, r.Left, f.hostA, long)
	}
	must(t, held.Unlock())
	must(t, ourLock(t, c, name(t)).Release())
}

func oursKeepsTheirsOut(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	lease := ourLock(t, c, name(t))
	javaRefused(t, f.a, name(t))
	javaRefused(t, f.b, name(t))
	must(t, lease.Check(context.Background()))
	javaRefused(t, f.a, name(t)) // now that it caches that there is a row
	must(t, lease.Release())
	must(t, javaLock(t, f.a, name(t), long, 0).Unlock())
}

// ttl is how long leases live that are to expire in a test.
const ttl = 800 * time.Millisecond

func theirsExpires(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	begun := time.Now()
	javaLock(t, f.a, name(t), ttl, 0)
	lease, err := c.Lock(bounded(t), name(t))
	must(t, err)
	after(t, begun, ttl, "ShedLock's lease was taken over")
	javaRefused(t, f.a, name(t))
	must(t, lease.Release())
}

// abandoned takes a name as the client would, and leaves it alone.
func abandoned(t testing.TB, s store.Store, name string) store.Claim {
	t.Helper()
	claim := store.Claim{Name: "lock/" + name, Holder: "abandoned", TTL: ttl}
	outs, err := s.Acquire(bounded(t), []store.Claim{claim})
	must(t, err)
	must(t, outs[0].Err)
	return claim
}

func oursExpires(t *testing.T, f *field) {
	begun := time.Now()
	abandoned(t, f.open(t), name(t))
	held, err := f.a.Wait(name(t), long, 0, servers.Patience)
	must(t, err)
	after(t, begun, ttl, "our lease was taken over")
	ourRefused(t, f.client(t, soloist.Options{}), name(t))
	must(t, held.Unlock())
}

// inTime tries what must happen before a lease or a linger of the given time ends, first with ttl, and with longer ones where the machine was
// too slow. try returns what was wrong, and how late that had to be to mean nothing.
func inTime(t *testing.T, try func(time.Duration) (time.Duration, error)) {
	t.Helper()
	for span := ttl; ; span *= 4 {
		begun := time.Now()
		bound, err := try(span)
		if err == nil {
			return
		}
		if time.Since(begun) < bound || span > time.Minute {
			t.Fatal(err)
		}
		t.Logf("%v after %v; again, with a longer time", err, time.Since(begun))
	}
}

func theirsLingers(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	inTime(t, func(linger time.Duration) (time.Duration, error) {
		begun := time.Now()
		must(t, javaLock(t, f.a, name(t), long, linger).Unlock())
		got, err := c.TryLock(context.Background(), name(t))
		var held *soloist.HeldError
		if !errors.As(err, &held) || held.Left <= 0 || held.Left > linger {
			if err == nil {
				must(t, got.Release())
				err = errors.New("granted")
			}
			return linger, fmt.Errorf("locking what lingers for %v: want a HeldError, and it is: %w", linger, err)
		}
		lease, err := c.Lock(bounded(t), name(t))
		must(t, err)
		after(t, begun, linger, "a name that lingers was taken")
		must(t, lease.Release())
		return 0, nil
	})
}

func oursLingers(t *testing.T, f *field) {
	inTime(t, func(linger time.Duration) (time.Duration, error) {
		c := f.client(t, soloist.Options{AtLeast: linger})
		begun := time.Now()
		must(t, ourLock(t, c, name(t)).Release())
		if held, err := f.a.Lock(name(t), long, 0); !errors.Is(err, ErrRefused) {
			must(t, err)
			must(t, held.Unlock())
			return linger, fmt.Errorf("a name that lingers for %v was given away", linger)
		}
		held, err := f.a.Wait(name(t), long, 0, servers.Patience)
		must(t, err)
		after(t, begun, linger, "a name that lingers was taken")
		must(t, held.Unlock())
		return 0, nil
	})
}

func theirsIsExtended(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	held := javaLock(t, f.a, name(t), long/2, 0)
	must(t, held.Extend(long, 0))
	if r := ourRefused(t, c, name(t)); r.Left <= long/2 || r.Left > long {
		t.Errorf("what ShedLock has extended is taken for another %v; want about %v", r.Left, long)
	}
	must(t, held.Unlock())
	must(t, ourLock(t, c, name(t)).Release())
}

func oursIsExtended(t *testing.T, f *field) {
	inTime(t, func(ttl time.Duration) (time.Duration, error) {
		c := f.client(t, soloist.Options{TTL: ttl})
		lease, err := c.Lock(bounded(t), name(t))
		if err != nil {
			return ttl / 2, err
		}
		begun := time.Now()
		if err := lease.Extend(context.Background(), 3*ttl); err != nil {
			return ttl / 2, err
		}
		if held, err := f.a.Wait(name(t), long, 0, 2*ttl); !errors.Is(err, ErrRefused) { // beyond its TTL
			must(t, err)
			must(t, held.Unlock())
			return 3 * ttl, fmt.Errorf("a lease that was extended was given away %v after that", time.Since(begun))
		}
		if err := errors.Join(lease.Err(), lease.Release()); err != nil {
			return 2 * ttl, err // that long was waited
		}
		must(t, javaLock(t, f.a, name(t), long, 0).Unlock())
		return 0, nil
	})
}

// staleUnlockOfTheirs: a peer that has lost its lock unlocks. Where ShedLock looks whose the lock is, that changes nothing. Where it
// does not, the lock is taken from the one that has it: then the next of theirs gets in, and ours must learn of that when it asks.
func staleUnlockOfTheirs(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	stale := javaLock(t, f.a, name(t), ttl, 0)
	lease, err := c.Lock(bounded(t), name(t))
	must(t, err)
	must(t, stale.Unlock())
	if !f.unsafe {
		javaRefused(t, f.a, name(t))
		javaRefused(t, f.b, name(t))
		must(t, lease.Check(context.Background()))
		must(t, lease.Release())
		return
	}
	next := javaLock(t, f.b, name(t), long, 0)
	if err := lease.Check(context.Background()); !errors.Is(err, soloist.ErrLost) {
		t.Errorf("a lease that ShedLock took away: %v; want ErrLost", err)
	}
	if err := lease.Release(); err != nil && !errors.Is(err, soloist.ErrLost) {
		t.Errorf("releasing it: %v; want ErrLost", err)
	}
	javaRefused(t, f.a, name(t))
	must(t, next.Unlock())
}

func staleCallsOfOurs(t *testing.T, f *field) {
	s := f.open(t)
	claim := abandoned(t, s, name(t))
	outs, err := s.Acquire(bounded(t), []store.Claim{claim}) // asked again: the same grant
	must(t, err)
	must(t, outs[0].Err)
	token := outs[0].Grant.Token
	held, err := f.a.Wait(name(t), long, 0, servers.Patience)
	must(t, err)
	before := ourRefused(t, f.client(t, soloist.Options{}), name(t))
	errs, err := s.Extend(bounded(t), []store.Extension{{Name: claim.Name, Holder: claim.Holder, Token: token, TTL: long, Mark: 7}})
	must(t, err)
	if !errors.Is(errs[0], store.ErrLost) {
		t.Errorf("extending what ShedLock took over: %v; want ErrLost", errs[0])
	}
	late := store.Release{Name: claim.Name, Holder: claim.Holder, Token: token, Mark: 7, State: []byte("x")}
	errs, err = s.Release(bounded(t), []store.Release{late})
	must(t, err)
	if !errors.Is(errs[0], store.ErrLost) {
		t.Errorf("releasing what ShedLock took over: %v; want ErrLost", errs[0])
	}
	now := ourRefused(t, f.client(t, soloist.Options{}), name(t))
	if now.Holder != before.Holder || now.Left > before.Left || now.Left < before.Left-servers.Patience {
		t.Errorf("stale calls changed who holds it: %q for %v, then %q for %v", before.Holder, before.Left, now.Holder, now.Left)
	}
	javaRefused(t, f.b, name(t))
	must(t, held.Unlock())
	lease := ourLock(t, f.client(t, soloist.Options{}), name(t))
	if len(lease.State()) != 0 || lease.Token() <= token {
		t.Errorf("after stale calls there is a state of %d bytes and the token %d; want none, and more than %d",
			len(lease.State()), lease.Token(), token)
	}
	must(t, lease.Release())
}

func tokensGrow(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	last := int64(0)
	for range 5 {
		lease := ourLock(t, c, name(t))
		if lease.Token() <= last {
			t.Errorf("a token of %d after one of %d", lease.Token(), last)
		}
		last = lease.Token()
		must(t, lease.Release())
		must(t, javaLock(t, f.a, name(t), long, 0).Unlock())
	}
}

// theirTurnsAdvance: on PostgreSQL a trigger counts the turns of ShedLock too, so that a resource can be guarded against them by
// the one that reads the token.
func theirTurnsAdvance(t *testing.T, f *field) {
	db := database(t, f.url)
	column, _, _ := strings.Cut(cmp.Or(f.names, "name"), ",")
	token := func() (token int64) {
		t.Helper()
		must(t, db.QueryRow("SELECT token FROM "+f.table+" WHERE "+column+" = $1", name(t)).Scan(&token))
		return token
	}
	lease := ourLock(t, f.client(t, soloist.Options{}), name(t))
	must(t, lease.Release())
	before := token()
	if before != lease.Token() {
		t.Fatalf("the token in the table is %d, that of the lease was %d", before, lease.Token())
	}
	held := javaLock(t, f.a, name(t), long, 0)
	during := token()
	if during <= before {
		t.Errorf("the token was %d and is %d in a turn of ShedLock", before, during)
	}
	must(t, held.Extend(2*long, 0))
	must(t, held.Unlock())
	if now := token(); now != during {
		t.Errorf("extending and unlocking made the token %d of %d", now, during)
	}
	must(t, javaLock(t, f.b, name(t), long, 0).Unlock())
	if now := token(); now <= during {
		t.Errorf("the token was %d in one turn of ShedLock and is %d after the next", during, now)
	}
}

// waitingForTheirs: ShedLock tells nobody when it unlocks, so who waits looks again now and then, long before the lease would
// end.
func waitingForTheirs(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	held := javaLock(t, f.a, name(t), long, 0)
	got := make(chan error, 1)
	go func() {
		lease, err := c.Lock(bounded(t), name(t))
		if err == nil {
			err = lease.Release()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("a lock that ShedLock holds was had, %v", err)
	case <-time.After(ttl):
	}
	must(t, held.Unlock())
	must(t, <-got)
}

// jobsAreTheirsToo: the lock and the job of a name are both ShedLock's name.
func jobsAreTheirsToo(t *testing.T, f *field) {
	held := javaLock(t, f.a, name(t), long, 0)
	for _, record := range []string{"job/" + name(t), "lock/" + name(t)} {
		outs, err := f.open(t).Acquire(bounded(t), []store.Claim{{Name: record, Holder: "h", TTL: long}})
		must(t, err)
		if !errors.Is(outs[0].Err, store.ErrHeld) {
			t.Errorf("%s while ShedLock holds %s: %v; want ErrHeld", record, name(t), outs[0].Err)
		}
	}
	must(t, held.Unlock())
}

// countingTogether: two of theirs and two of ours increment a number that only the lock protects.
func countingTogether(t *testing.T, f *field) {
	const each = 100
	n := newNumber(t)
	var all sync.WaitGroup
	for _, p := range []*Peer{f.a, f.b} {
		all.Go(func() {
			if err := p.Count(name(t), n.file, each); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		c := f.client(t, soloist.Options{Wait: -1})
		all.Go(func() {
			for range each {
				err := c.Do(context.Background(), name(t), func(context.Context, *soloist.Lease) error { return n.increment() })
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	n.is(t, 4*each)
}

// jobAmongAnnotatedMethods: two replicas of ours run a job, while ShedLock runs what stands for a method annotated with
// SchedulerLock under the same name.
func jobAmongAnnotatedMethods(t *testing.T, f *field) {
	const each = 100
	n := newNumber(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var mu sync.Mutex
	runs := 0
	enough := make(chan struct{})
	job := soloist.Job{Name: name(t), Schedule: soloist.Every(10 * time.Millisecond), Do: func(context.Context, soloist.Run) error {
		if err := n.increment(); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if runs++; runs == each {
			close(enough)
		}
		return nil
	}}
	var ours, theirs sync.WaitGroup
	for range 2 {
		c := f.client(t, soloist.Options{})
		ours.Go(func() {
			if err := c.Run(ctx, job); err != nil {
				t.Error(err)
			}
		})
	}
	for _, p := range []*Peer{f.a, f.b} {
		theirs.Go(func() {
			if err := p.Count(name(t), n.file, each); err != nil {
				t.Error(err)
			}
		})
	}
	theirs.Wait()
	select {
	case <-enough:
	case <-time.After(servers.Patience):
		t.Errorf("the job did not get its turns within %v", servers.Patience)
	}
	stop()
	ours.Wait()
	n.is(t, 2*each+runs)
}
