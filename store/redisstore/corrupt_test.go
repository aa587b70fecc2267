package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// overwritten are ways to spoil a record: commands after its key, or what its key is to hold instead.
var overwritten = []string{
	"HDEL h", "HDEL r", "HDEL t", "HDEL m", "HDEL u", "HDEL g",
	"HSET h ", "HSET r 2", "HSET t abc", "HSET t 0", "HSET t -1", "HSET t 1.5", "HSET t nan", "HSET t 99999999999999999999", "HSET m 01", "HSET m -1",
	"HSET m 9223372036854775808", "HSET u abc", "HSET u ", "HSET u 1e15", "HSET g inf", "HSET g -5",
	"SET x", "RPUSH x", "SADD x",
	"HSET s " + strings.Repeat("x", store.MaxState+1), // only what reads the state cannot
}

const wholly = 1 // of those, the last do not spoil everything

// corrupting spoils the records that a client sees under a prefix.
func corrupting(t testing.TB, client redis.UniversalClient, prefix, name string, way int) string {
	t.Helper()
	key := "{" + prefix + ":0}:r:" + name
	words := strings.SplitN(overwritten[way], " ", 3)
	command := []any{words[0], key}
	for _, word := range words[1:] {
		command = append(command, word)
	}
	switch words[0] {
	case "SET", "RPUSH", "SADD":
		if err := client.Del(background, key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Do(background, command...).Err(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%.40s", overwritten[way])
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
		err := tried(background, s, name, "b")
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

// The counter of tokens, and what lines are made of, can be spoilt too. Nothing is granted then that could be wrong, or it is mended by itself.
func TestOtherKeysAreCorrupt(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	held := take(t, s, "name", "a")
	for _, value := range []string{"abc", "", "-1", "1.5", "nan", "99999999999999999999"} {
		if err := admin.Set(background, "{p:0}:token", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		var corrupt *redisstore.CorruptError
		if err := tried(background, s, "new", "a"); !errors.As(err, &corrupt) || corrupt.Key != "{p:0}:token" || isUnknown(err) {
			t.Errorf("counter %q: %v", value, err)
		}
		if err := extend(s, held); err != nil {
			t.Errorf("counter %q: extending: %v", value, err)
		}
	}
	if err := admin.Del(background, "{p:0}:token").Err(); err != nil {
		t.Fatal(err)
	}
	take(t, s, "new", "a")
	for _, line := range [][]any{{"SET", "{p:0}:w:name", "x"}, {"SET", "{p:0}:v:name", "x"}, {"HSET", "{p:0}:v:name", "b", "nonsense"}} {
		name := held.Name
		if err := errors.Join(admin.HSet(background, "{p:0}:r:"+name, "w", "1").Err(), admin.Do(background, line...).Err(),
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
	if err := admin.HSet(background, "{p:0}:r:name", "d", "abc", "e", "abc").Err(); err != nil {
		t.Fatal(err)
	}
	held.Retain = 0
	if err := release(s, held); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(background, 10); n != 1 || err != nil {
		t.Errorf("a sweep of a record with other bookkeeping forgot %d, %v", n, err)
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
	if err := admin.HSet(background, "{p:0}:r:name0", "t", "abc").Err(); err != nil {
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
