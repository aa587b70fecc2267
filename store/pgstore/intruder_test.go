package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
)

// An intruder is a role that may connect to the database and has no right on anything in it. That is enough to listen, to notify, to see
// which advisory locks there are, and to take some.
type intruder struct {
	t   testing.TB
	url string
	oid int64 // of the table: pg_class is there for all to read

	mu       sync.Mutex
	channels []string
	hears    int // on how many of them it listens
	heard    []string
}

func newIntruder(t testing.TB, s *Store) *intruder {
	t.Helper()
	base := server(t).URL
	db := admin(t, base)
	run(t, db, "DO $$ BEGIN CREATE ROLE intruder LOGIN PASSWORD '"+servers.PostgresPassword+"'; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	i := &intruder{t: t, url: as(base, "intruder")}
	c := i.connect()
	i.oid = one[int64](t, c, "SELECT c.oid::bigint FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND relname = 'soloist'", s.tables.schema)
	if _, err := c.Exec(background, "SELECT * FROM "+s.tables.records); err == nil {
		t.Fatal("the intruder may read the table")
	}
	i.channels = []string{fmt.Sprintf("soloist_%d", i.oid)}
	return i
}

func (i *intruder) connect() *pgx.Conn { return admin(i.t, i.url) }

// listens hears what is said on every channel but by one process, until ctx ends. Those of processes that wait are known by their advisory locks.
func (i *intruder) listens(ctx context.Context, c *pgx.Conn, but uint32) {
	known := map[string]bool{}
	for ctx.Err() == nil {
		var inboxes []int64
		_ = c.QueryRow(ctx, "SELECT coalesce(array_agg(classid::bigint << 32 | objid::bigint), '{}') FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'").Scan(&inboxes)
		i.mu.Lock()
		for _, inbox := range inboxes {
			if channel := fmt.Sprintf("soloist_%d_%d", i.oid, inbox); !known[channel] {
				i.channels = append(i.channels, channel)
			}
		}
		channels := append([]string{}, i.channels...)
		i.mu.Unlock()
		for _, channel := range channels {
			if !known[channel] {
				known[channel] = true
				_, _ = c.Exec(ctx, "LISTEN "+channel)
			}
		}
		i.mu.Lock()
		i.hears = len(known)
		i.mu.Unlock()
		for range 100 { // and then it looks for more channels, though there is always something to hear
			waiting, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			n, err := c.WaitForNotification(waiting)
			cancel()
			if err != nil {
				break
			}
			if n.PID == but {
				continue
			}
			i.mu.Lock()
			i.heard = append(i.heard, n.Payload)
			i.mu.Unlock()
		}
	}
}

// floods says on every channel what it has heard, what it makes up, and garbage.
func (i *intruder) floods(ctx context.Context, c *pgx.Conn, sent *atomic.Int64) {
	for ctx.Err() == nil {
		i.mu.Lock()
		channels, heard := append([]string{}, i.channels...), append([]string{}, i.heard...)
		i.mu.Unlock()
		noise := make([]byte, sealSize/2)
		_, _ = rand.Read(noise)
		now := time.Now().UnixMicro()
		payloads := append(heard, hex.EncodeToString(noise), strings.Repeat("0", sealSize), "", strings.Repeat("x", 7999),
			fmt.Sprintf("%d 9223372036854775807 %d 0 0 1 b", now, now), "name", strings.Repeat("f", 7998))
		for _, channel := range channels {
			for _, payload := range payloads {
				if _, err := c.Exec(ctx, "SELECT pg_notify($1, $2)", channel, payload); err == nil {
					sent.Add(1)
				}
			}
		}
	}
}

// Somebody who may only connect hears, sends again, makes up and floods notifications. No waiter believes it, every one is served, none asks
// more often for it, and nothing is learned.
func TestIntruderIsNotBelieved(t *testing.T) {
	const name, state, rounds = "payroll/berlin", "confidential", 12
	s := fresh(t, server(t).URL)
	s.hub.idle = time.Hour
	other := reopen(t, s)
	i := newIntruder(t, s)
	ctx, stop := context.WithCancel(background)
	flood, dry := context.WithCancel(ctx)
	var sent atomic.Int64
	var work sync.WaitGroup
	listening, flooding := i.connect(), i.connect()
	work.Go(func() { i.listens(ctx, listening, flooding.PgConn().PID()) })
	work.Go(func() { i.floods(flood, flooding, &sent) })
	defer work.Wait()
	defer stop()
	defer dry()
	holder := func(n int) string { return fmt.Sprint("replica-7f3a-", n) }
	lease := take(t, s, name, holder(0), time.Hour)
	tokens := []int64{lease.Token}
	wake, err := other.Watch(background, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	drain(wake)
	var woken atomic.Int64
	go func() {
		for range wake {
			woken.Add(1)
		}
	}()
	for n := 1; n <= rounds; n++ {
		heir := waits(other, name, holder(n))
		places(t, s, name, holder(n))
		eventually(t, "the intruder listens where the waiter does", func() bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			return i.hears > 1
		})
		before := sent.Load()
		eventually(t, "the intruder has said a lot", func() bool { return sent.Load() > before+100 })
		select {
		case q := <-heir:
			t.Fatalf("while %s holds the name: %+v", lease.Holder, q)
		default:
		}
		if asked := one[int](t, s.pool, "SELECT count(*) FROM "+s.tables.line); asked > 1 {
			t.Errorf("the waiter was made to ask %d times", asked)
		}
		if n%3 == 0 {
			lease.State = []byte(state)
		}
		release(t, s, lease)
		q := <-heir
		r := recordOf(t, s, name)
		if q.Err != nil || q.Grant.Token != r.Token || r.Holder != holder(n) {
			t.Fatalf("granted %+v; the record is %+v", q, r)
		}
		lease = store.Release{Name: name, Holder: holder(n), Token: q.Grant.Token, Retain: store.Forever, State: []byte{}}
		tokens = append(tokens, lease.Token)
	}
	release(t, s, lease)
	eventually(t, "the watch is told of the end of the lease", func() bool { return woken.Load() > 0 })
	before := sent.Load()
	eventually(t, "the intruder has said it all again", func() bool { return sent.Load() > before+300 })
	if n := woken.Load(); n > 1 {
		t.Errorf("a watch was woken %d times by one release and the intruder", n)
	}
	dry() // the intruder cannot hear as fast as it talks, on some machines
	eventually(t, "the intruder has heard of each hand-over", func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return len(i.heard) >= rounds
	})
	stop()
	work.Wait()
	all := strings.Join(i.heard, "\n")
	words := []string{name, "payroll", state, "replica", hex.EncodeToString([]byte(name)), hex.EncodeToString([]byte(state)), hex.EncodeToString([]byte("replica"))}
	for _, token := range tokens {
		words = append(words, fmt.Sprint(token), fmt.Sprintf("%x", token))
	}
	for _, word := range words {
		if strings.Contains(all, word) {
			t.Errorf("the intruder has learned %q", word)
		}
	}
	t.Logf("%d heard, %d sent", len(i.heard), sent.Load())
}

// Somebody who may only connect takes the advisory locks that say who listens, before anybody does or behind those who do. Waiters are
// served.
func TestIntruderTakesAdvisoryLocks(t *testing.T) {
	for _, when := range []string{"before", "behind"} {
		t.Run(when, func(t *testing.T) {
			s := fresh(t, server(t).URL)
			early, late := reopen(t, s), reopen(t, s)
			i := newIntruder(t, s)
			c := i.connect()
			lease := take(t, s, "name", "a", time.Hour)
			if when == "behind" {
				if _, err := early.Watch(background, []string{"name"}); err != nil { // it holds its group, for which the intruder then waits
					t.Fatal(err)
				}
			}
			taking, stop := context.WithCancel(background)
			var work sync.WaitGroup
			defer work.Wait()
			defer stop()
			run(t, c, "SELECT pg_try_advisory_lock($1::bigint + g) FROM generate_series(0, 255) AS g", groupBase+i.oid*256)
			if when == "behind" {
				work.Go(func() {
					_, _ = c.Exec(taking, "SELECT pg_advisory_lock($1::bigint + g) FROM generate_series(0, 255) AS g", groupBase+i.oid*256)
				})
				eventually(t, "the intruder waits for a lock", func() bool {
					return one[int](t, s.pool, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1", int(c.PgConn().PID())) > 0
				})
			}
			wake, err := late.Watch(background, []string{"name"})
			if err != nil {
				t.Fatalf("watching: %v", err)
			}
			drain(wake)
			b, d := waits(early, "name", "b"), waits(late, "name", "d")
			eventually(t, "both wait in the queue", func() bool { return len(inLine(t, s, "name")) == 2 })
			release(t, s, lease)
			first, handle, answer := "b", early, d
			r := recordOf(t, s, "name")
			if r.Holder == "d" {
				first, handle, answer = "d", late, b
				release(t, s, heir(t, handle, d, "name", first))
			} else {
				release(t, s, heir(t, handle, b, "name", first))
			}
			second, handle := "d", late
			if first == "d" {
				second, handle = "b", early
			}
			release(t, s, heir(t, handle, answer, "name", second))
			select {
			case <-wake:
			case <-time.After(servers.Patience):
				t.Error("a watch was not woken")
			}
			if _, err := try(s, "name", "e", time.Hour); err != nil && !errors.Is(err, store.ErrHeld) {
				t.Error(err)
			}
		})
	}
}

// Somebody who may only connect holds the lock of migrations: Migrate does not wait for it without end, and names the session.
func TestIntruderHoldsTheLockOfMigrations(t *testing.T) {
	s := fresh(t, server(t).URL)
	c := newIntruder(t, s).connect()
	run(t, c, "SELECT pg_advisory_lock(hashtextextended($1::text, $2::bigint))", s.tables.records, int64(groupBase))
	holder := fmt.Sprintf("pid %d", c.PgConn().PID())
	var err error
	for within := 300 * time.Millisecond; (err == nil || !strings.Contains(err.Error(), holder)) && within < servers.Patience; within *= 10 {
		ctx, cancel := context.WithTimeout(background, within) // a slow machine may not have got as far as the lock by then
		_, err = s.Migrate(ctx)
		cancel()
	}
	says(t, err, holder, `"intruder"`, "pg_terminate_backend")
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("%v; want what ended the wait, and nothing unknown", err)
	}
	c.Close(background)
	if did := migrate(t, s); len(did) > 0 {
		t.Errorf("migrated: %v", did)
	}
}
