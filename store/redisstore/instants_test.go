package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store/internal/tokens"
	"github.com/soloist-dev/soloist/test/servers"
)

// A bench runs the scripts in a server at instants of the test's choice, in µs.
type bench struct {
	*testing.T
	client  *redis.Client
	b       bucket
	sharing bool // the scripts are those of a store that shares keys with other libraries; this name has none
}

func (b bench) scripts() scripts {
	if b.sharing {
		return sharingScripts
	}
	return aloneScripts
}

// keys are those of a name.
func (b bench) keys(name string) []string {
	if b.sharing {
		return []string{b.b.records + name, b.b.records + name}
	}
	return []string{b.b.records + name}
}

func (b bench) run(s script, at int64, keys []string, args ...any) []any {
	b.Helper()
	const clock = "redis.call('TIME')"
	if strings.Count(s.text, clock) != 1 {
		b.Fatal("the scripts read the clock in another way")
	}
	text := strings.Replace(s.text, clock, fmt.Sprintf("{'%d', '%d'}", at/1e6, at%1e6), 1)
	reply, err := b.client.Eval(b.Context(), text, keys, append(args, "tag")...).Result()
	if err != nil {
		b.Fatal(err)
	}
	said, err := tagged("tag", reply)
	if err != nil {
		b.Fatal(err)
	}
	all, err := list(said, -1)
	if err != nil {
		b.Fatal(err)
	}
	return all
}

func (b bench) acquire(at int64, name, holder string, ttl int) any {
	return b.run(b.scripts().acquire, at, b.keys(name), b.b.tag, "0", "", holder, ttl, "")[0]
}

// acquireGenerally claims the name by the general way through the script, which the usual claim does not take.
func (b bench) acquireGenerally(at int64, name, holder string, ttl int) any {
	if b.sharing { // it has no other
		return b.acquire(at, name, holder, ttl)
	}
	return b.run(generalAcquire, at, b.keys(name), b.b.tag, "0", "", holder, ttl, "")[0]
}

func (b bench) release(at int64, name, holder string, token any) any {
	return b.run(b.scripts().release, at, b.keys(name), b.b.tag, "0", "", holder, token, "", "")[0]
}

// releaseGenerally is acquireGenerally of a release.
func (b bench) releaseGenerally(at int64, name, holder string, token any) any {
	if b.sharing {
		return b.release(at, name, holder, token)
	}
	return b.run(generalRelease, at, b.keys(name), b.b.tag, "0", "", holder, token, "", "")[0]
}

// usual takes a name that has been released before, and is due for a sweep already.
func usual(b bench, name string, at int64, ttl int) (string, any) {
	b.release(at-1, name, "before", b.acquire(at-1, name, "before", ttl))
	return name, b.acquire(at, name, "a", ttl)
}

// lingering releases a name that stays taken for a while.
func lingering(b bench, name string, at int64, linger int) string {
	token := b.acquire(at-1, name, "before", linger)
	b.run(b.scripts().release, at, b.keys(name), b.b.tag, "0", "", "before", token, fmt.Sprintf("%d 0 0 0", linger), "")
	return name
}

// word is what an answer begins with.
func word(answer any) any {
	if all, ok := answer.([]any); ok {
		return all[0]
	}
	return "granted"
}

func newBench(t *testing.T) bench {
	opts, err := redis.ParseURL(servers.Redis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled, opts.MaxRetries = true, -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return bench{T: t, client: client, b: newBuckets("p", 1)[0]}
}

// A lease is live before its end and not at it, for every verb, also where keys are shared with other libraries.
func TestLeaseIsOverAtItsEnd(t *testing.T) {
	b := newBench(t)
	leaseIsOverAtItsEnd(b)
	b.b, b.sharing = newBuckets("shared", 1)[0], true
	leaseIsOverAtItsEnd(b)
}

func leaseIsOverAtItsEnd(b bench) {
	const begin, ttl = 1_000_000_000, 1000
	for end, live := range map[int64]bool{begin + ttl - 1: true, begin + ttl: false} {
		lease := func(verb string) (name string, token any) {
			name = verb + strconv.FormatBool(live)
			return name, b.acquire(begin, name, "a", ttl)
		}
		says := func(verb string, got, whenLive, whenOver any) {
			b.Helper()
			if want := map[bool]any{true: whenLive, false: whenOver}[live]; got != want {
				b.Errorf("%s, sharing %t, %d µs after the grant of a lease of %d: %v, want %v", verb, b.sharing, end-begin, ttl, got, want)
			}
		}
		name, token := lease("extend")
		says("extend", b.run(b.scripts().extend, end, b.keys(name), b.b.tag, "a", token, ttl, 0, "0", "")[0], int64(1), int64(0))
		name, token = lease("release")
		says("release", b.release(end, name, "a", token), int64(1), int64(0))
		name, token = lease("release, generally")
		says("release", b.releaseGenerally(end, name, "a", token), int64(1), int64(0))
		name, token = usual(b, "usual"+strconv.FormatBool(live), begin, ttl)
		says("a usual release", b.release(end, name, "a", token), int64(1), int64(0))
		name, token = lease("again")
		says("asking again", word(b.acquire(end, name, "a", ttl)) == "granted" && b.acquire(end, name, "a", ttl) == token, true, false)
		name, _ = lease("acquire")
		says("another's claim", word(b.acquire(end, name, "b", ttl)), "held", "granted")
		name, _ = lease("acquire, generally")
		says("another's claim", word(b.acquireGenerally(end, name, "b", ttl)), "held", "granted")
		name = lingering(b, "linger"+strconv.FormatBool(live), begin, ttl)
		says("a claim in a linger", word(b.acquire(end, name, "b", ttl)), "held", "granted")
		name, _ = lease("choose")
		says("another's choice", word(b.run(b.scripts().choose, end, b.keys(name), b.b.tag, "b", ttl, "0", "0", "")[1]), "held", "granted")
		name, _ = lease("own")
		says("what the holder has", len(b.run(b.scripts().choose, end, b.keys(name), b.b.tag, "a", ttl, "1", "0", "")), 2, 1)
		if b.sharing { // such a store keeps no lines
			continue
		}
		name, _ = lease("queue")
		says("waiting in the queue", word(b.run(aloneScripts.queue, end, b.keys(name), b.b.tag, "b", ttl, "inbox", "secret")[0]), "held", "granted")
	}
}

// Forgetting a record never lets its token be granted again, though the clock is set back.
func TestSweptTokenIsNotGrantedAgain(t *testing.T) {
	b := newBench(t)
	const early, late = 1_000_000_000, 2_000_000_000
	token := b.acquire(late, "name", "a", 1000)
	old := b.acquire(early, "old", "a", 2*late) // its token is less, and it is forgotten after the other one, in the same sweep
	if b.release(late, "name", "a", token) != any(int64(1)) || b.release(late+1, "old", "a", old) != any(int64(1)) {
		t.Fatal("not released")
	}
	if n := b.run(aloneScripts.sweep, late+2, []string{b.b.due}, b.b.tag, 10, int64(exact-tokens.Spared))[0]; n != any(int64(2)) {
		t.Fatalf("a sweep forgot %v", n)
	}
	for _, name := range []string{"name", "other"} {
		if again, ok := b.acquire(early, name, "b", 1000).(int64); !ok || again <= late {
			t.Errorf("token %d of %q after %v, which was forgotten", again, name, token)
		}
	}
}

// A holder that asks again keeps its place, and wants what it asked for last: only the news of that request are for it.
func TestPlaceIsRenewed(t *testing.T) {
	b := newBench(t)
	const begin = 1_000_000_000
	b.acquire(begin, "name", "a", 1000)
	key := []string{b.b.records + "name"}
	b.run(aloneScripts.queue, begin+1, key, b.b.tag, "b", 2000, "inbox1", "SECRET1")
	b.run(aloneScripts.queue, begin+2, key, b.b.tag, "b", 3000, "inbox2", "SECRET2")
	if want, err := b.client.HGet(t.Context(), b.b.tag+"v:name", "b").Result(); want != "1000000002 3000 SECRET2 inbox2" || err != nil {
		t.Errorf("b wants %q, %v", want, err)
	}
	if came, err := b.client.ZScore(t.Context(), b.b.tag+"w:name", "b").Result(); came != begin+1 || err != nil {
		t.Errorf("b came at %v, %v", came, err)
	}
}

// Who has the name without having been handed it over has no place in its line any more when that is found out: a release would hand over to nobody.
func TestPlaceOfTheHolderEnds(t *testing.T) {
	b := newBench(t)
	const begin, ttl = 1_000_000_000, 1000
	key := []string{b.b.records + "name"}
	b.acquire(begin, "name", "a", ttl)
	b.run(aloneScripts.queue, begin+1, key, b.b.tag, "b", ttl, "inbox", "SECRET")
	b.acquire(begin+ttl, "name", "b", ttl)
	b.run(aloneScripts.queue, begin+ttl+1, key, b.b.tag, "b", ttl, "inbox", "SECRET")
	if n, err := b.client.Exists(t.Context(), b.b.tag+"w:name", b.b.tag+"v:name").Result(); n != 0 || err != nil {
		t.Errorf("the holder stands in the line of its own name (%d, %v)", n, err)
	}
}

// The index of what is due has each record that may be forgotten, no later than it may be. One that was taken again,
// or is kept for ever, leaves it with a sweep, until its next release; one that is kept for longer moves.
func TestIndexOfWhatIsDue(t *testing.T) {
	b := newBench(t)
	now := int64(1_000_000_000)
	holds := func(name, leaves string) { // from now on for a microsecond
		t.Helper()
		token := b.acquire(now, name, "a", 1000)
		now++
		said := b.run(aloneScripts.release, now, b.keys(name), b.b.tag, "0", "", "a", token, leaves, "state")
		if said[0] != any(int64(1)) {
			t.Fatalf("releasing %s: %v", name, said)
		}
	}
	due := func(name string, want int64) { // 0 if it is not there
		t.Helper()
		at, err := b.client.ZScore(t.Context(), b.b.due, name).Result()
		if want == 0 && !errors.Is(err, redis.Nil) || want > 0 && (err != nil || int64(at) != want) {
			t.Errorf("%s is due at %.0f, %v; want %d", name, at, err, want)
		}
	}
	sweeps := func(what string, want int64) {
		t.Helper()
		said := b.run(aloneScripts.sweep, now, []string{b.b.due}, b.b.tag, 1, int64(exact-tokens.Spared))
		if said[0] != any(want) {
			t.Errorf("a sweep with %s forgot %v, want %d", what, said[0], want)
		}
	}

	holds("again", "")
	due("again", now)
	now++
	token := b.acquire(now, "again", "b", 1000)
	sweeps("a name that was taken again", 0)
	due("again", 0)
	now++
	b.release(now, "again", "b", token)
	due("again", now)
	sweeps("a name that was released now", 1)

	holds("for ever", "")
	holds("for ever", "0 0 0 inf")
	sweeps("a name that is kept for ever", 0)
	due("for ever", 0)
	holds("for ever", "0 0 0 10")
	due("for ever", now+10)
	now += 9
	sweeps("a name that is kept for another microsecond", 0)
	now++
	sweeps("a name whose time is over", 1)

	holds("longer", "")
	holds("longer", "0 0 0 100")
	until := now + 100
	sweeps("a name that is kept for longer", 0)
	due("longer", until)
	holds("longer", "0 0 0 5")
	due("longer", now+5)
	now += 5
	sweeps("a name that is kept for shorter after all", 1)

	holds("lingers", "50 0 1 0") // with a state
	due("lingers", now+50)
	now += 49
	sweeps("a name that lingers", 0)
	now++
	sweeps("a name that has lingered", 1)
	if keys, err := b.client.Keys(t.Context(), "*").Result(); len(keys) != 1 || err != nil {
		t.Errorf("all is forgotten, and there are %q, %v; want the floor", keys, err)
	}
}

// A key of Redisson's is that of its last holder alone, also if the one before was there until then: a second holder
// in it could enter.
func TestSharedKeyHasOneHolder(t *testing.T) {
	b := newBench(t)
	keys := []string{b.b.records + "lock/name", "name"}
	const begin, ttl = 1_000_000_000, 3_600_000_000 // the first key is there for an hour of the server's own clock
	for i, holder := range []string{"a", "b"} {
		said := b.run(sharingScripts.acquire, begin+int64(i)*ttl, keys, b.b.tag, "0", "r:", holder, ttl, "")
		if word(said[0]) != "granted" {
			t.Fatalf("%s: %v", holder, said)
		}
		all, err := b.client.HGetAll(t.Context(), "name").Result()
		if len(all) != 2 || all[holder] != "1" || all["mode"] != "write" || err != nil {
			t.Errorf("after the grant to %s the key has %v, %v", holder, all, err)
		}
	}
}

// TestReleasedNameIsFreeByAnyClock: a name that was released without a linger is free also if the clock goes back by
// some microseconds after that, as that of Valkey 9.1 does.
func TestReleasedNameIsFreeByAnyClock(t *testing.T) {
	const at, ttl = int64(1e15), 1e6
	for _, sharing := range []bool{false, true} {
		b := newBench(t)
		b.sharing = sharing
		for i, release := range []func(int64, string, string, any) any{b.release, b.releaseGenerally} {
			for k, acquire := range []func(int64, string, string, int) any{b.acquire, b.acquireGenerally} {
				name := fmt.Sprint("name ", i, k)
				usual(b, name, at, ttl)
				token := b.acquire(at, name, "a", ttl)
				release(at+20, name, "a", token)
				if got := word(acquire(at+5, name, "b", ttl)); got != "granted" {
					t.Errorf("sharing %t, release %d, claim %d: %v, want a grant", sharing, i, k, got)
				}
			}
		}
	}
}
