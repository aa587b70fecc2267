package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// overwritten are ways to spoil a record: what becomes of its bytes, or a command that puts something else there.
var overwritten = []struct {
	how   string
	spoil func(record []byte) []byte
}{
	{"SET", func([]byte) []byte { return []byte("x") }},
	{"SET", func([]byte) []byte { return nil }},
	{"SET", func(r []byte) []byte { return r[:len(r)-1] }},
	{"SET", func(r []byte) []byte { return append(r, 'x') }},
	{"SET", at(0, 2)},    // another version
	{"SET", at(1, 2)},    // a flag
	{"SET", at(44, 0)},   // no holder
	{"SET", at(44, 255)}, // a longer holder
	{"SET", func(r []byte) []byte { r[len(r)-1] = 'x'; return r }}, // the mark
	{"SET", double(4, 0)}, {"SET", double(4, -1)}, {"SET", double(4, 1.5)}, {"SET", double(4, math.NaN())}, {"SET", double(4, 1<<53)}, // the token
	{"SET", double(12, math.NaN())}, {"SET", double(12, -1)}, {"SET", double(12, math.Inf(1))}, // until
	{"SET", double(20, math.NaN())}, {"SET", double(20, -5)}, {"SET", double(20, math.Inf(1))}, // granted
	{"SET", double(28, math.NaN())}, {"SET", double(36, math.NaN())}, // kept, due
	{"RPUSH", nil}, {"SADD", nil}, {"HSET", nil},
	{"SET", at(3, 1)}, // a state that is not there: only what reads the state cannot
}

const wholly = 1 // of those, the last do not spoil everything

func at(i int, value byte) func([]byte) []byte {
	return func(r []byte) []byte {
		r[i] = value
		return r
	}
}

func double(i int, value float64) func([]byte) []byte {
	return func(r []byte) []byte {
		binary.LittleEndian.PutUint64(r[i:], math.Float64bits(value))
		return r
	}
}

// corrupting spoils the records that a client sees under a prefix.
func corrupting(t testing.TB, client redis.UniversalClient, prefix, name string, way int) string {
	t.Helper()
	key := "{" + prefix + ":0}:r:" + name
	record, err := client.Get(background, key).Bytes()
	if err == nil {
		err = client.Del(background, key).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	how := overwritten[way]
	command := []any{how.how, key, "x"}
	switch how.how {
	case "SET":
		command[2] = how.spoil(record)
	case "HSET":
		command = append(command, "y")
	}
	if err := client.Do(background, command...).Err(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("way %d: %.20q…", way, command[2:])
}

// peeked reads a record with its state, as a claim that is always refused does.
func peeked(s store.Store, name string) error {
	outs, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "b", TTL: time.Minute, Mark: -1}})
	if err != nil {
		return err
	}
	return outs[0].Err
}

// A corrupt record is told with its key, what is wrong with it, and what to do; and that mends it.
func TestCorruptRecordIsExplainedAndMended(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	for way := range overwritten {
		name := fmt.Sprint("name", way)
		before := take(t, s, name, "a")
		how := corrupting(t, admin, "p", name, way)
		err := peeked(s, name)
		var corrupt *redisstore.CorruptError
		key := "{p:0}:r:" + name
		if !errors.As(err, &corrupt) || corrupt.Key != key || corrupt.Name != name || isUnknown(err) || !strings.Contains(err.Error(), "DEL the key") {
			t.Errorf("%s: %v", how, err)
		}
		if err := admin.Del(background, key).Err(); err != nil {
			t.Fatal(err)
		}
		if after := take(t, s, name, "b"); after.Token <= before.Token {
			t.Errorf("%s: token %d after %d", how, after.Token, before.Token)
		}
	}
}

// A corrupt record of the longest name, whose key is longer than any holder, harms that name alone: it is told as corrupt, and lists and sweeps go on. So do
// lists if something that is too long for a name was written into the index.
func TestCorruptRecordOfTheLongestName(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	name := strings.Repeat("n", store.MaxName)
	for _, r := range []store.Release{take(t, s, "o", "a"), take(t, s, name, "a")} {
		r.Retain = 0
		must(t, release(s, r))
	}
	take(t, s, "p", "a")
	how := corrupting(t, admin, "p", name, 0)
	must(t, admin.ZAdd(background, "{p:0}:names", redis.Z{Member: name + "n"}).Err())
	var corrupt *redisstore.CorruptError
	if err := peeked(s, name); !errors.As(err, &corrupt) || corrupt.Key != "{p:0}:r:"+name || isUnknown(err) {
		t.Errorf("%s: claimed: %v", how, err)
	}
	var listed []string
	var last error
	for r, err := range s.List(background, "") {
		if last = err; err == nil {
			listed = append(listed, r.Name)
		}
	}
	if fmt.Sprint(listed) != "[o p]" || !errors.As(last, new(*store.UnreadableError)) || !errors.As(last, &corrupt) || corrupt.Name != name {
		t.Errorf("%s: listed %q, then %v", how, listed, last)
	}
	if n, err := s.Sweep(background, 10); n != 1 || !errors.As(err, &corrupt) || corrupt.Key != "{p:0}:r:"+name {
		t.Errorf("%s: a sweep forgot %d, then %v", how, n, err)
	}
}

// The floor of tokens, and what lines are made of, can be spoilt too. Nothing is granted then that could be wrong, or it is mended by itself.
func TestOtherKeysAreCorrupt(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	held := take(t, s, "name", "a")
	for _, value := range []string{"abc", "", "-1", "1.5", "nan", "99999999999999999999"} {
		if err := admin.Set(background, "{p:0}:floor", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		var corrupt *redisstore.CorruptError
		if err := tried(background, s, "new", "a"); !errors.As(err, &corrupt) || corrupt.Key != "{p:0}:floor" || isUnknown(err) {
			t.Errorf("floor %q: %v", value, err)
		}
		if err := extend(s, held); err != nil {
			t.Errorf("floor %q: extending: %v", value, err)
		}
	}
	if err := admin.Del(background, "{p:0}:floor").Err(); err != nil {
		t.Fatal(err)
	}
	take(t, s, "new", "a")
	for _, line := range [][]any{{"SET", "{p:0}:w:name", "x"}, {"SET", "{p:0}:v:name", "x"}, {"HSET", "{p:0}:v:name", "b", "nonsense"}} {
		name := held.Name
		if err := errors.Join(admin.SetRange(background, "{p:0}:r:"+name, 2, "\x01").Err(), admin.Do(background, line...).Err(),
			admin.ZAdd(background, "{p:0}:w:name2", redis.Z{Score: 1, Member: "b"}).Err()); err != nil {
			t.Fatal(err)
		}
		if err := release(s, held); err != nil && !isUnknown(err) {
			t.Errorf("%v: %v", line, err)
		}
		if err := release(s, held); err != nil {
			t.Errorf("%v: released again: %v", line, err)
		}
		if err := admin.Del(background, "{p:0}:w:name", "{p:0}:v:name").Err(); err != nil {
			t.Fatal(err)
		}
		held = take(t, s, name, "a")
	}
	held.Retain = 0
	if err := release(s, held); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(background, 10); n != 1 || err != nil {
		t.Errorf("a sweep forgot %d, %v", n, err)
	}
}

// Sweeps leave a record that cannot be read, report it, and look at it again later: it does not stand in the way of others.
func TestSweepPassesByWhatIsCorrupt(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	for i := range 3 {
		r := take(t, s, fmt.Sprint("name", i), "a")
		r.Retain = 0
		if err := release(s, r); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			time.Sleep(2 * time.Millisecond) // it is the first that a sweep looks at
		}
	}
	if err := admin.SetRange(background, "{p:0}:r:name0", 0, "\x02").Err(); err != nil {
		t.Fatal(err)
	}
	total, told := 0, 0
	for range 4 {
		n, err := s.Sweep(background, 1)
		total += n
		var corrupt *redisstore.CorruptError
		if errors.As(err, &corrupt) && corrupt.Key == "{p:0}:r:name0" {
			told++
		} else if err != nil {
			t.Error(err)
		}
	}
	if total != 2 || told != 1 {
		t.Errorf("forgotten %d, told %d times; want the 2 others, and told once", total, told)
	}
}

// A record whose key somebody has deleted is not listed, and the others are.
func TestDeletedRecordIsNotListed(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	for _, name := range []string{"a", "b", "c"} {
		take(t, s, name, "x")
	}
	if err := admin.Del(background, "{p:0}:r:b").Err(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r, err := range s.List(background, "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "a c" {
		t.Errorf("listed: %q; want a and c", got)
	}
}

// What a part has in common can be overwritten with something of another type. The error says which keys it can be; what does not need them goes on.
func TestSharedKeysOfAnotherType(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	for n, key := range []string{"names", "due", "floor"} {
		p := fmt.Sprint("p", n)
		s := open(t, server.URL+"?prefix="+p)
		lease := take(t, s, "name", "a")
		whole := "{" + p + ":0}:" + key
		must(t, errors.Join(admin.Del(background, whole).Err(), admin.HSet(background, whole, "x", "y").Err()))
		must(t, extend(s, lease))
		held(t, s, "name", "b")
		err := tried(background, s, "new", "a")
		if key == "due" { // a claim does not need it
			err = release(s, lease)
		}
		if err == nil || !strings.Contains(err.Error(), "{"+p+":N}:"+key) || !strings.Contains(err.Error(), "DEL") {
			t.Errorf("%s: %v", key, err)
		}
		must(t, admin.Del(background, whole).Err())
		must(t, release(s, lease))
		take(t, s, "new2", "a")
	}
}

// A record whose key somebody has deleted leaves the indexes with a sweep, which comes to an end although it forgets
// nothing.
func TestSweepOfADeletedRecord(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	r := take(t, s, "name", "a")
	r.Retain = 0
	must(t, release(s, r))
	must(t, admin.Del(background, "{p:0}:r:name").Err())
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	if n, err := s.Sweep(ctx, 1); n != 0 || err != nil {
		t.Errorf("a sweep forgot %d, %v; want none", n, err)
	}
	if keys, err := admin.Keys(background, "*").Result(); len(keys) != 0 || err != nil {
		t.Errorf("left behind: %q, %v", keys, err)
	}
}
