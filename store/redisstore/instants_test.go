package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/test/servers"
)

// A bench runs the scripts in a server at instants of the test's choice, in µs.
type bench struct {
	*testing.T
	client *redis.Client
	b      bucket
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

func (b bench) keys(name string) []string {
	return append(b.b.indexes(), b.b.records+name, b.b.records+name)
}

// first is where names begin in the keys of records, for Lua.
func (b bench) first() int { return len(b.b.records) + 1 }

func (b bench) acquire(at int64, name, holder string, ttl int) []any {
	return b.run(acquireScript, at, b.keys(name), b.first(), "0", holder, ttl, 0, "", 0)[0].([]any)
}

func (b bench) release(at int64, name, holder, token string) any {
	return b.run(releaseScript, at, b.keys(name), b.first(), b.b.channel, b.b.tag, "", holder, token, 0, 0, "0", "", 0)[0]
}

func newBench(t *testing.T) bench {
	opts, err := redis.ParseURL(servers.Redis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return bench{t, client, newBuckets("p", 1)[0]}
}

// A lease is live before its end and not at it, for every verb.
func TestLeaseIsOverAtItsEnd(t *testing.T) {
	b := newBench(t)
	const begin, ttl = 1_000_000_000, 1000
	for end, live := range map[int64]bool{begin + ttl - 1: true, begin + ttl: false} {
		lease := func(verb string) (name, token string) {
			name = verb + strconv.FormatBool(live)
			return name, b.acquire(begin, name, "a", ttl)[1].(string)
		}
		says := func(verb string, got, whenLive, whenOver any) {
			t.Helper()
			if want := map[bool]any{true: whenLive, false: whenOver}[live]; got != want {
				t.Errorf("%s, %d µs after the grant of a lease of %d: %v, want %v", verb, end-begin, ttl, got, want)
			}
		}
		name, token := lease("extend")
		says("extend", b.run(extendScript, end, []string{b.b.records + name, b.b.records + name}, "a", token, ttl, 0, "0", "")[0], int64(1), int64(0))
		name, token = lease("release")
		says("release", b.release(end, name, "a", token), int64(1), int64(0))
		name, token = lease("again")
		says("asking again", b.acquire(end, name, "a", ttl)[1] == any(token), true, false)
		name, _ = lease("acquire")
		says("another's claim", b.acquire(end, name, "b", ttl)[0], "held", "granted")
		name, _ = lease("choose")
		says("another's choice", b.run(chooseScript, end, b.keys(name), b.first(), "b", ttl, "0", "0", "")[1], "held", "granted")
		name, _ = lease("own")
		says("what the holder has", len(b.run(chooseScript, end, b.keys(name), b.first(), "a", ttl, "1", "0", "")), 6, 1)
		name, _ = lease("queue")
		line := append(b.b.indexes(), b.b.records+name, b.b.tag+"w:"+name, b.b.tag+"v:"+name)
		says("waiting in the queue", b.run(queueScript, end, line, name, "b", ttl, "inbox", "secret")[0], "held", "granted")
	}
}

// Forgetting a record never lets its token be granted again, though the counter is lost and the clock is set back.
func TestSweptTokenIsNotGrantedAgain(t *testing.T) {
	b := newBench(t)
	const early, late = 1_000_000_000, 2_000_000_000
	token := b.acquire(late, "name", "a", 1000)[1].(string)
	if err := b.client.Del(t.Context(), b.b.counter).Err(); err != nil {
		t.Fatal(err)
	}
	if b.release(late, "name", "a", token) != any(int64(1)) {
		t.Fatal("not released")
	}
	if n := b.run(sweepScript, late+1, b.b.indexes(), 10, b.b.records, b.b.tag)[0]; n != any(int64(1)) {
		t.Fatalf("a sweep forgot %v", n)
	}
	again, err := strconv.ParseInt(b.acquire(early, "name", "b", 1000)[1].(string), 10, 64)
	if err != nil || again <= late {
		t.Errorf("token %d after %s, which was forgotten; %v", again, token, err)
	}
}

// A holder that asks again keeps its place, and wants what it asked for last: only the news of that request are for it.
func TestPlaceIsRenewed(t *testing.T) {
	b := newBench(t)
	const begin = 1_000_000_000
	b.acquire(begin, "name", "a", 1000)
	line := append(b.b.indexes(), b.b.records+"name", b.b.tag+"w:name", b.b.tag+"v:name")
	b.run(queueScript, begin+1, line, "name", "b", 2000, "inbox1", "SECRET1")
	b.run(queueScript, begin+2, line, "name", "b", 3000, "inbox2", "SECRET2")
	if want, err := b.client.HGet(t.Context(), line[5], "b").Result(); want != "1000000002 3000 SECRET2 inbox2" || err != nil {
		t.Errorf("b wants %q, %v", want, err)
	}
	if came, err := b.client.ZScore(t.Context(), line[4], "b").Result(); came != begin+1 || err != nil {
		t.Errorf("b came at %v, %v", came, err)
	}
}
