package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// shortWaysSeed is of the records and requests of TestShortWaysAreTheGeneralOnes.
const shortWaysSeed = 1

// Scripts that have no short way for what is usual.
var (
	generalAcquire = newScript("clock", "record", "batch", "alone", "grant", "acquire")
	generalRelease = newScript("clock", "record", "batch", "alone", "grant", "put", "release")
)

// A roll makes records and requests by chance, of values around which the scripts decide.
type roll struct {
	*rand.Rand
	now int64
}

func pick[V any](r roll, usual V, others ...V) V {
	if len(others) > 0 && r.IntN(6) == 0 {
		return others[r.IntN(len(others))]
	}
	return usual
}

// record makes a record, which may have one field that no script writes.
func (r roll) record(holder string, token float64) string {
	now := float64(r.now)
	flags := []byte{1, byte(r.IntN(2)), pick[byte](r, 0, 1), pick[byte](r, 0, 1)}
	numbers := []float64{
		token,
		pick(r, now+float64(r.IntN(3)-1), 0, now-1000, now+1000),
		pick(r, now-10, 0, now, now+10),
		pick(r, now-10, 0, now, now+10, math.Inf(1)),
		pick(r, now-10, 0, now, now+10),
	}
	mark, peer := pick(r, "0", "5", "9223372036854775807"), ""
	strange := func(of string) string { return pick(r, of, of+"x", "") }
	if r.IntN(4) == 0 { // a field that no script writes
		switch r.IntN(4) {
		case 0:
			flags[r.IntN(len(flags))] = 2
		case 1:
			numbers[r.IntN(len(numbers))] = pick(r, math.NaN(), -1, 1.5, math.Inf(1), math.Inf(-1), exact, exact+1, 1<<60, math.MaxFloat64)
		case 2:
			mark = pick(r, "", "1", "00", "x", "0\x00")
		case 3:
			peer = strange("r:x")
		}
	}
	text := flags
	for _, n := range numbers {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(n))
	}
	text = append(text, byte(len(holder)), byte(len(mark)))
	text = binary.LittleEndian.AppendUint16(text, uint16(len(peer))) //nolint:gosec // it is short
	text = append(text, holder+mark+peer...)
	switch r.IntN(40) {
	case 0:
		return string(text[:r.IntN(len(text))])
	case 1:
		return string(text) + "0"
	}
	return string(text)
}

// noted makes a script note the releases that it publishes, for publishing leaves nothing in the server.
func noted(s script) script {
	s.text = strings.ReplaceAll(s.text, "redis.call('PUBLISH', part .. 'c:' .. name, '')", "redis.call('RPUSH', part .. 'published', name)")
	return s
}

// kept is all that a server has of names and their part.
func kept(b bench, names []string) []string {
	b.Helper()
	pipe := b.client.Pipeline()
	tag := b.b.tag
	keys := []string{b.b.names, b.b.due, b.b.floor, b.b.watched, tag + "published"}
	for _, name := range names {
		keys = append(keys, b.b.records+name, tag+"s:"+name, tag+"w:"+name, tag+"v:"+name)
	}
	for _, key := range keys {
		pipe.Dump(b.Context(), key)
	}
	pipe.DBSize(b.Context())
	cmds, _ := pipe.Exec(b.Context()) // a key that is not there is an error
	var all []string
	for _, cmd := range cmds {
		all = append(all, fmt.Sprintf("%q", cmd.String()))
	}
	return all
}

// The short ways answer and write what the general ways do, whatever the records and the requests are, alone and in batches that ask for a name more than once.
func TestShortWaysAreTheGeneralOnes(t *testing.T) {
	short := newBench(t)
	opts := *short.client.Options()
	opts.DB = 1
	client := redis.NewClient(&opts)
	t.Cleanup(func() { client.Close() })
	general := bench{T: t, client: client, b: short.b}
	r := roll{rand.New(rand.NewPCG(shortWaysSeed, 7)), 1_700_000_000_000_000} //nolint:gosec // it is to be repeated
	holders := []string{"a", "b", "\x00\xff{", strings.Repeat("h", 255)}
	names := []string{"n\x00}", "o", "p"}
	for round := range 3000 {
		taking, watched := r.IntN(2) == 0, r.IntN(5) == 0
		records, states, last := map[string]string{}, map[string]bool{}, map[string][2]any{}
		for _, name := range names {
			holder, token := holders[r.IntN(len(holders))], float64(r.now)+float64(r.IntN(5)-2)
			if r.IntN(8) == 0 {
				token = []float64{exact - 1, exact, exact + 1, 1 << 60, 1, 0}[r.IntN(6)]
			}
			if r.IntN(6) > 0 {
				records[name] = r.record(holder, token)
			}
			states[name], last[name] = r.IntN(2) == 0, [2]any{holder, token}
		}
		var keys []string
		args := []any{short.b.tag, pick(r, "0", "1"), ""}
		for range pick(r, 1, 2, 3, 4, 5, 6) {
			name := names[r.IntN(len(names))]
			keys = append(keys, short.b.records+name)
			holder, token := last[name][0].(string), int64(last[name][1].(float64))
			args = append(args, pick(r, holder, holders...))
			if taking {
				args = append(args, pick(r, int64(1000), 1, 1<<50), pick(r, "", "", "5 0", "-1 0", "0 7"))
			} else {
				args = append(args, pick(r, token, token-1, exact),
					pick(r, "", "0 0 0 0", "7 0 0 0", "0 5 0 0", "0 0 1 0", "0 0 0 9", "0 0 0 inf"), pick(r, "", "", "s"))
			}
		}
		said := func(b bench, acquire, release script) string {
			pipe := b.client.Pipeline()
			pipe.FlushDB(t.Context())
			for name, record := range records {
				pipe.Set(t.Context(), b.b.records+name, record, 0)
				pipe.ZAdd(t.Context(), b.b.names, redis.Z{Member: name})
				if states[name] {
					pipe.Set(t.Context(), b.b.tag+"s:"+name, "state", 0)
				}
			}
			if watched {
				pipe.Set(t.Context(), b.b.watched, "1", 0)
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			with := release
			if taking {
				with = acquire
			}
			answer := b.run(with, r.now, keys, args...)
			return fmt.Sprintf("answers %q and leaves\n%s", answer, strings.Join(kept(b, names), "\n"))
		}
		one, other := said(short, aloneScripts.acquire, noted(aloneScripts.release)), said(general, generalAcquire, noted(generalRelease))
		if one != other {
			t.Fatalf("seed %d, round %d: the records %q, asked with %q of %q\n\nthe short way %s\n\nthe general way %s", shortWaysSeed, round, records, args, keys, one, other)
		}
	}
}
