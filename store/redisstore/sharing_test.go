package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// held returns the refusal.
func held(t testing.TB, s store.Store, name, holder string) store.Record {
	t.Helper()
	var h *store.HeldError
	if err := acquire(t, s, name, holder).Err; !errors.As(err, &h) {
		t.Fatalf("%v; want held", err)
	}
	return h.Record
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pttl(t testing.TB, c *redis.Client, key string) time.Duration {
	t.Helper()
	d, err := c.PTTL(background, key).Result()
	must(t, err)
	return d
}

// What ShedLock's Redis providers send, command by command.
func TestShedLock(t *testing.T) {
	url, env := shared(t).URL, prefix()
	java := plainClient(t, url)
	s := open(t, fresh(t, url, "share=job-lock:"+env+":*"))
	key := "job-lock:" + env + ":report"

	r := take(t, s, "lock/report", "go-1")
	if taken, _ := java.SetNX(background, key, "ADDED:x@host:uuid", time.Minute).Result(); taken {
		t.Fatal("Java has taken what we have")
	}
	if v := java.Get(background, key).Val(); !strings.HasPrefix(v, "ADDED:20") || !strings.HasSuffix(v, "Z@go-1") {
		t.Errorf("the value is %q", v)
	}
	begin := time.Now()
	must(t, extend(s, r))
	if left := pttl(t, java, key); !remains(left, time.Minute, begin) {
		t.Errorf("after an extension by a minute %v are left", left)
	}
	// One by less than what is left leaves Java's key as it leaves ours.
	errs, err := s.Extend(background, []store.Extension{{Name: r.Name, Holder: r.Holder, Token: r.Token, TTL: time.Second}})
	must(t, errors.Join(append(errs, err)...))
	if left := pttl(t, java, key); !remains(left, time.Minute, begin) {
		t.Errorf("after an extension by a second %v of a minute are left", left)
	}
	must(t, release(s, r))
	if java.Exists(background, key).Val() != 0 {
		t.Error("the key is there after the release")
	}

	// A job of the same name is the same lock to Java.
	begin = time.Now()
	must(t, java.Set(background, key, "ADDED:x@host:uuid", time.Hour).Err())
	for _, name := range []string{"lock/report", "job/report"} {
		if rec := held(t, s, name, "go-2"); rec.Holder != "ADDED:x@host:uuid" || !remains(rec.Left, time.Hour, begin) {
			t.Errorf("%s: %+v", name, rec)
		}
	}
	if _, _, err := s.Choose(background, []string{"lock/report", "lock/report2"}, store.Claim{Holder: "go", TTL: time.Minute}); err != nil {
		t.Error(err)
	} else if java.Exists(background, key+"2").Val() != 1 {
		t.Error("a chosen lock is not shared")
	}
	take(t, s, "other/report", "go-2") // is not shared

	// Java tells nobody that it unlocks; a watch is woken all the same.
	w := watched(t, s, "lock/report")
	drain([]<-chan struct{}{w})
	must(t, java.Del(background, key).Err())
	if !woken(w) {
		t.Error("not woken by Java's unlock")
	}

	// Java deletes without asking whose it is: we notice.
	r = take(t, s, "lock/report", "go-3")
	must(t, java.Del(background, key).Err())
	must(t, java.Set(background, key, "ADDED:y@host:uuid", time.Minute).Err())
	if err := extend(s, r); !errors.Is(err, store.ErrLost) {
		t.Errorf("extend: %v", err)
	}
	if err := release(s, r); !errors.Is(err, store.ErrLost) {
		t.Errorf("release: %v", err)
	}
	if java.Get(background, key).Val() != "ADDED:y@host:uuid" {
		t.Error("Java's key is gone")
	}

	// A linger is Java's lockAtLeastFor; a key without an end does not make waiters spin.
	r = take(t, s, "lock/daily", "go-4")
	r.Linger = time.Hour
	begin = time.Now()
	must(t, release(s, r))
	if left := pttl(t, java, "job-lock:"+env+":daily"); !remains(left, time.Hour, begin) {
		t.Errorf("the linger has %v left", left)
	}
	must(t, java.Set(background, "job-lock:"+env+":endless", "x", 0).Err())
	if rec := held(t, s, "lock/endless", "go-5"); rec.Left < 500*time.Millisecond {
		t.Errorf("%+v", rec)
	}
}

// compareAndExpire is what bare locks in Redis are extended with.
var compareAndExpire = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`)

// What redsync, redislock, redis-py and node-redlock send: the key is the name, or has something before and after it. Neither side ends what the
// other holds.
func TestStringIsShared(t *testing.T) {
	url := shared(t).URL
	theirs := plainClient(t, url)
	for mode, key := range map[string]func(name string) string{
		"share=*":           func(name string) string { return name },
		"share=app:{*}:mux": func(name string) string { return "app:{" + name + "}:mux" },
	} {
		t.Run(mode, func(t *testing.T) {
			s, name := open(t, fresh(t, url, mode)), prefix()
			key := key(name)
			lock := func(value string) bool {
				taken, err := theirs.SetNX(background, key, value, time.Hour).Result()
				must(t, err)
				return taken
			}
			script := func(script *redis.Script, more ...any) bool {
				n, err := script.Run(background, theirs, []string{key}, more...).Int()
				must(t, err)
				return n == 1
			}

			r := take(t, s, "lock/"+name, "go-1")
			if lock("theirs") || script(compareAndDelete, "theirs") || script(compareAndExpire, "theirs", 1) {
				t.Error("they take, release or extend what we hold")
			}
			must(t, extend(s, r))
			must(t, release(s, r))
			long := strings.Repeat("x", 5000) // such as metadata of redislock
			if !lock(long) {
				t.Fatal("they do not get what we have released")
			}
			if rec := held(t, s, "lock/"+name, "go-2"); rec.Holder != long[:255] || rec.Left > time.Hour+time.Second {
				t.Errorf("%+v", rec)
			}
			held(t, s, "job/"+name, "go-2")
			if script(compareAndDelete, long+"y") || !script(compareAndExpire, long, time.Minute.Milliseconds()) || !script(compareAndDelete, long) {
				t.Error("their own release or extension does not work")
			}
			must(t, release(s, take(t, s, "job/"+name, "go-3")))
			if n := theirs.Exists(background, key).Val(); n != 0 {
				t.Error("the key is there after our release")
			}
		})
	}
}

// Where a key is the name alone, a list shows what others hold of the names that it knows, and no other strings. No name leads to the store's own keys.
func TestSharedNamesAreNotAllStrings(t *testing.T) {
	url := servers.Redis(t).URL // of its own: it is about all keys
	theirs := plainClient(t, url)
	at := fresh(t, url, "share=*")
	s := open(t, at)
	must(t, theirs.Set(background, "session:1", "a secret", time.Hour).Err())
	must(t, theirs.Set(background, "a-new", "theirs", time.Hour).Err())
	must(t, release(s, take(t, s, "lock/b-known", "before")))
	must(t, theirs.Set(background, "b-known", "theirs", time.Hour).Err())
	must(t, release(s, take(t, s, "job/c-known", "before"))) // of a job the list tells what soloist knows
	must(t, theirs.Set(background, "c-known", "theirs", time.Hour).Err())
	list := func() (string, error) {
		var listed []string
		var last error
		for r, err := range s.List(background, "") {
			if last = err; err == nil {
				listed = append(listed, r.Name+" "+r.Holder)
			}
		}
		return strings.Join(listed, ", "), last
	}
	if got, err := list(); got != "job/c-known , lock/b-known theirs" || err != nil {
		t.Errorf("listed: %s, %v", got, err)
	}
	_, prefix, _ := strings.Cut(at, "prefix=")
	prefix, _, _ = strings.Cut(prefix, "&")
	must(t, theirs.SetRange(background, "{"+prefix+":0}:r:job/c-known", 0, "\x02").Err())
	take(t, s, "lock/a-spoilt", "h")
	must(t, theirs.SetRange(background, "{"+prefix+":0}:r:lock/a-spoilt", 0, "\x02").Err())
	if got, err := list(); got != "lock/b-known theirs" || !errors.As(err, new(*store.UnreadableError)) {
		t.Errorf("listed where some cannot be read: %s, %v", got, err)
	}
	take(t, s, "lock/{"+prefix+":0}:due", "h")
	take(t, s, "lock/another", "h")
	_, err := s.Sweep(background, 10)
	must(t, err)
}

// The scripts of Redisson's RLock and RFencedLock, as far as they matter here.
var (
	redissonLock = redis.NewScript(`if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
		redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); redis.call('incr', KEYS[2]); return -1 end
		return redis.call('pttl', KEYS[1])`)
	redissonUnlock = redis.NewScript(`if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
		redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], '0'); return 1`)
)

func TestRedisson(t *testing.T) {
	url, name := shared(t).URL, prefix()
	java := plainClient(t, url)
	s := open(t, fresh(t, url, "redisson=true"))
	token, channel := "redisson_lock_token:{"+name+"}", "redisson_lock__channel:{"+name+"}"
	lock := func() int64 {
		n, err := redissonLock.Run(background, java, []string{name, token}, time.Hour.Milliseconds(), "uuid:1").Int64()
		must(t, err)
		return n
	}
	unlock := func() {
		n, err := redissonUnlock.Run(background, java, []string{name, channel}, "uuid:1").Int64()
		if err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}

	begin := time.Now()
	r := take(t, s, "lock/"+name, "go-1")
	if left := lock(); !remains(time.Duration(left)*time.Millisecond, time.Minute, begin) {
		t.Fatalf("Java's lock answers %d", left)
	}
	if all := java.HGetAll(background, name).Val(); len(all) != 2 || all["go-1"] != "1" || all["mode"] != "write" {
		t.Errorf("the hash is %v", all)
	}
	if n, _ := java.Get(background, token).Int(); n != 1 {
		t.Errorf("Redisson's token is %d", n)
	}
	sub := java.Subscribe(background, channel)
	defer sub.Close()
	if _, err := sub.Receive(background); err != nil {
		t.Fatal(err)
	}
	must(t, extend(s, r))
	must(t, release(s, r))
	ctx, cancel := context.WithTimeout(background, servers.Patience)
	defer cancel()
	if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "0" {
		t.Fatalf("Java's waiters hear %v, %v", m, err)
	}

	begin = time.Now()
	if n := lock(); n != -1 {
		t.Fatalf("Java's lock of a free name answers %d", n)
	}
	if rec := held(t, s, "lock/"+name, "go-2"); rec.Holder != "uuid:1" || !remains(rec.Left, time.Hour, begin) {
		t.Errorf("%+v", rec)
	}
	take(t, s, "job/"+name, "go-2") // jobs are not shared with Redisson
	w := watched(t, s, "lock/"+name)
	drain([]<-chan struct{}{w})
	must(t, java.Publish(background, channel, "0").Err()) // who only looks at the key now and then does not hear that
	if !woken(w) {
		t.Error("not woken by what Redisson publishes")
	}
	drain([]<-chan struct{}{w})
	unlock()
	if !woken(w) {
		t.Error("not woken by Java's unlock")
	}
	r = take(t, s, "lock/"+name, "go-3")
	if n, _ := java.Get(background, token).Int(); n != 3 {
		t.Errorf("Redisson's token is %d after three grants", n)
	}
	must(t, java.Del(background, name).Err()) // forceUnlock
	if n := lock(); n != -1 {
		t.Fatal(n)
	}
	if err := extend(s, r); !errors.Is(err, store.ErrLost) {
		t.Errorf("extend: %v", err)
	}
	if err := release(s, r); !errors.Is(err, store.ErrLost) {
		t.Errorf("release: %v", err)
	}
	if java.HExists(background, name, "uuid:1").Val() != true {
		t.Error("Java's lock is gone")
	}

	// A name with braces gets no more of them.
	braced := "{" + name + "}x"
	must(t, release(s, take(t, s, "lock/"+braced, "go")))
	if n, _ := java.Get(background, "redisson_lock_token:"+braced).Int(); n != 1 {
		t.Errorf("the token of %s is %d", braced, n)
	}
}

// The scripts of Redisson's RReadWriteLock, as far as they matter here: what has no mode is not locked, to both.
var (
	redissonWrite = redis.NewScript(`local mode = redis.call('hget', KEYS[1], 'mode')
		if mode == false then redis.call('hset', KEYS[1], 'mode', 'write'); redis.call('hset', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return -1 end
		if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[2]) == 1 then return -1 end
		return redis.call('pttl', KEYS[1])`)
	redissonRead = redis.NewScript(`local mode = redis.call('hget', KEYS[1], 'mode')
		if mode == false then redis.call('hset', KEYS[1], 'mode', 'read'); redis.call('hset', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return -1 end
		if mode == 'read' or mode == 'write' and redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 1 then return -1 end
		return redis.call('pttl', KEYS[1])`)
)

func TestRedissonsReadWriteLockIsKeptOut(t *testing.T) {
	url := shared(t).URL
	java := plainClient(t, url)
	s := open(t, fresh(t, url, "redisson=true"))
	for kind, script := range map[string]*redis.Script{"write": redissonWrite, "read": redissonRead} {
		name := prefix()
		enter := func(owner string) int64 {
			n, err := script.Run(background, java, []string{name}, time.Hour.Milliseconds(), owner).Int64()
			must(t, err)
			return n
		}
		r := take(t, s, "lock/"+name, "go-1")
		if n := enter("uuid:1"); n < 0 {
			t.Errorf("%s: Java enters while we hold the lock", kind)
		}
		must(t, extend(s, r))
		must(t, release(s, r))
		if n := enter("uuid:1"); n != -1 {
			t.Errorf("%s: Java gets %d after our release", kind, n)
		}
		if rec := held(t, s, "lock/"+name, "go-2"); rec.Holder != "uuid:1" {
			t.Errorf("%s: %+v", kind, rec)
		}
		w := watched(t, s, "lock/"+name) // its unlock publishes elsewhere
		drain([]<-chan struct{}{w})
		must(t, java.Del(background, name).Err())
		if !woken(w) {
			t.Errorf("%s: not woken by Java's unlock", kind)
		}
	}
}

// What Java holds is listed, and released by force by the holder and the token that the list shows: for a JVM that died.
func TestWhatJavaHoldsIsListedAndReleasedByForce(t *testing.T) {
	url := servers.Redis(t).URL // of its own: all keys are scanned
	java := plainClient(t, url)
	const owner = "0f0f0f0f-1111-2222-3333-444444444444:77"
	for mode, c := range map[string]struct {
		key  func(name string) string
		lock func(key string) error
		by   string
	}{
		"share=job-lock:e?v:*": {func(name string) string { return "job-lock:e?v:" + name },
			func(key string) error { return java.Set(background, key, "ADDED:x@host:uuid", time.Hour).Err() }, "ADDED:x@host:uuid"},
		"redisson=true": {func(name string) string { return name },
			func(key string) error {
				return errors.Join(java.HSet(background, key, owner, "1").Err(), java.PExpire(background, key, time.Hour).Err())
			}, owner},
	} {
		t.Run(mode, func(t *testing.T) {
			ours := prefix()
			s := open(t, url+"?prefix="+ours+"&"+mode)
			must(t, java.HSet(background, "application", "a", "b").Err())
			must(t, java.Set(background, "job-lock:env:other", "ADDED:x@host:uuid", time.Hour).Err())
			must(t, release(s, take(t, s, "lock/b-known", "before")))
			take(t, s, "lock/c-ours", "us")
			for _, name := range []string{"a-new", "b-known", "d-last"} {
				must(t, c.lock(c.key(name)))
			}
			listed := map[string]store.Record{}
			var order []string
			for r, err := range s.List(background, "lock/") {
				must(t, err)
				listed[r.Name], order = r, append(order, r.Name)
			}
			if got := strings.Join(order, " "); got != "lock/a-new lock/b-known lock/c-ours lock/d-last" {
				t.Fatalf("listed: %s", got)
			}
			for i, name := range order {
				var after []string
				for r, err := range s.ListAfter(background, "lock/", name) {
					must(t, err)
					after = append(after, r.Name)
				}
				if !slices.Equal(after, order[i+1:]) {
					t.Errorf("listed after %s: %q; want %q", name, after, order[i+1:])
				}
			}
			for _, name := range []string{"lock/a-new", "lock/b-known", "lock/d-last"} {
				r := listed[name]
				if r.Holder != c.by || r.Token <= 0 || r.Left < 59*time.Minute || held(t, s, name, "other").Token != r.Token {
					t.Errorf("%s is listed as %+v", name, r)
				}
				for _, wrong := range []store.Release{{Name: name, Holder: r.Holder, Token: r.Token + 1}, {Name: name, Holder: "another", Token: r.Token}} {
					if err := release(s, wrong); !errors.Is(err, store.ErrLost) {
						t.Errorf("%+v: %v", wrong, err)
					}
				}
				w := watched(t, s, name)
				drain([]<-chan struct{}{w})
				sub := java.Subscribe(background, "redisson_lock__channel:{"+c.key(strings.TrimPrefix(name, "lock/"))+"}")
				if _, err := sub.Receive(background); err != nil {
					t.Fatal(err)
				}
				own := java.Subscribe(background, "{"+ours+":0}:c:"+name) // a watch need not wait until the key is looked at
				if _, err := own.Receive(background); err != nil {
					t.Fatal(err)
				}
				must(t, release(s, store.Release{Name: name, Holder: r.Holder, Token: r.Token}))
				ctx, cancel := context.WithTimeout(background, servers.Patience)
				if _, err := own.ReceiveMessage(ctx); err != nil {
					t.Errorf("%s: soloist's waiters are not told: %v", name, err)
				}
				if mode == "redisson=true" { // others of its clients sleep until they are told
					if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "0" {
						t.Errorf("%s: Redisson's waiters hear %v, %v", name, m, err)
					}
				}
				cancel()
				_ = errors.Join(sub.Close(), own.Close())
				if !woken(w) {
					t.Errorf("%s: nobody is woken", name)
				}
				if g := take(t, s, name, "after"); g.Token <= r.Token {
					t.Errorf("%s: token %d after %d", name, g.Token, r.Token)
				}
			}
			if java.Exists(background, "application", "job-lock:env:other").Val() != 2 {
				t.Error("other keys are gone")
			}
			must(t, java.FlushAll(background).Err())
		})
	}
}

// Who waits for any of several locks that another library holds is woken when one of them is free.
func TestWatchOfSeveralSharedLocks(t *testing.T) {
	url, env := shared(t).URL, prefix()
	java := plainClient(t, url)
	s := open(t, fresh(t, url, "share=job-lock:"+env+":*"))
	for _, name := range []string{"one", "two"} {
		must(t, java.Set(background, "job-lock:"+env+":"+name, "ADDED:x@host:uuid", time.Hour).Err())
	}
	w, err := s.Watch(t.Context(), []string{"lock/one", "lock/two"})
	must(t, err)
	drain([]<-chan struct{}{w})
	must(t, java.Del(background, "job-lock:"+env+":two").Err())
	if !woken(w) {
		t.Error("nobody is woken")
	}
}

// A scheduled time that ShedLock is running is done, and not only held.
func TestWhatShedLockRunsIsDone(t *testing.T) {
	url, env := shared(t).URL, prefix()
	java := plainClient(t, url)
	s := open(t, fresh(t, url, "share=job-lock:"+env+":*"))
	scheduled := time.Now().Truncate(time.Millisecond)
	attempt := func(at time.Time) error {
		outs, err := s.Acquire(background, []store.Claim{{Name: "job/report", Holder: "go", TTL: time.Minute, Mark: at.UnixMilli()}})
		must(t, err)
		return outs[0].Err
	}
	lock := func(at time.Time) {
		must(t, java.Set(background, "job-lock:"+env+":report", "ADDED:"+at.UTC().Format("2006-01-02T15:04:05.000Z")+"@host:uuid", time.Hour).Err())
	}
	for begun, want := range map[time.Duration]error{0: store.ErrDone, -400 * time.Millisecond: store.ErrDone, -time.Minute: store.ErrHeld} {
		lock(scheduled.Add(begun))
		if err := attempt(scheduled); !errors.Is(err, want) {
			t.Errorf("Java has begun %v from the scheduled time: %v, want %v", begun, err, want)
		}
	}
	lock(scheduled.Add(24 * time.Hour)) // by a clock that is wrong
	if err := attempt(scheduled.Add(time.Hour)); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a JVM whose clock is ahead: %v", err)
	}
}

// A key that is no lock, where Java's lock would be, is refused for what it is, and its name alone.
func TestForeignKeyWhereJavasLockWouldBe(t *testing.T) {
	url, name := shared(t).URL, prefix()
	java := plainClient(t, url)
	for mode, put := range map[string]func() error{
		"redisson=true":                 func() error { return java.Set(background, name, "x", 0).Err() },
		"share=job-lock:" + name + ":*": func() error { return java.HSet(background, "job-lock:"+name+":"+name, "a", "b").Err() },
	} {
		s := open(t, fresh(t, url, strings.Split(mode, "&")...))
		must(t, put())
		outs, err := s.Acquire(background, []store.Claim{{Name: "lock/" + name, Holder: "h", TTL: time.Minute}, {Name: "lock/other" + name, Holder: "h", TTL: time.Minute}})
		must(t, err)
		var corrupt *redisstore.CorruptError
		if !errors.As(outs[0].Err, &corrupt) || errors.Is(outs[0].Err, store.ErrUnknown) || !strings.Contains(outs[0].Err.Error(), "it should be a lock") {
			t.Errorf("%s: %v", mode, outs[0].Err)
		} else if text := outs[0].Err.Error(); strings.Contains(text, "DEL") || !strings.Contains(text, "use another name") {
			t.Errorf("%s: it is told to delete what belongs to something else: %s", mode, text)
		}
		if outs[1].Err != nil {
			t.Errorf("%s: another name: %v", mode, outs[1].Err)
		}
	}
}

// Replicas that know of the sharing and replicas that do not, for the time of a change, do no harm to each other's leases.
func TestSharingIsTurnedOn(t *testing.T) {
	at := fresh(t, shared(t).URL)
	alone, sharing := open(t, at), open(t, at+"&share=job-lock:"+prefix()+":*")
	r := take(t, sharing, "lock/a", "h")
	held(t, alone, "lock/a", "other")
	must(t, extend(alone, r))
	must(t, release(alone, r))
	r = take(t, alone, "lock/a", "i")
	held(t, sharing, "lock/a", "other")
	must(t, extend(sharing, r))
	must(t, release(sharing, r))
	if n := count(t, alone); n != 1 {
		t.Errorf("%d records", n)
	}
}

// remains reports whether that much can be left of a time that began after an instant. Redis counts in ms, and lets an hour that has not begun be a
// little longer than one.
func remains(left, of time.Duration, begin time.Time) bool {
	return left <= of+time.Second && left >= of-time.Since(begin)-time.Second
}

// Who has lost a lock because another library has deleted its key is granted it anew, with a greater token, and the
// key is there again. Others wait until the lease would have ended, for its holder may not know that yet.
func TestLockWhoseKeyWasDeletedIsGrantedAnew(t *testing.T) {
	url := shared(t).URL
	java := plainClient(t, url)
	for _, mode := range []string{"redisson=true", "share=theirs:*"} {
		name := prefix()
		s, peer := open(t, fresh(t, url, mode)), name
		if mode != "redisson=true" {
			peer = "theirs:" + name
		}
		lost := take(t, s, "lock/"+name, "go-1")
		must(t, java.Del(background, peer).Err())
		if rec := held(t, s, "lock/"+name, "go-2"); rec.Holder != "go-1" || rec.Token != lost.Token || rec.Left <= 0 {
			t.Errorf("%s: another is refused with %+v", mode, rec)
		}
		if n := java.Exists(background, peer).Val(); n != 0 {
			t.Errorf("%s: a refused claim has made the key", mode)
		}
		again := take(t, s, "lock/"+name, "go-1")
		if again.Token <= lost.Token || java.Exists(background, peer).Val() != 1 {
			t.Errorf("%s: granted %+v after %+v", mode, again, lost)
		}
		for what, err := range map[string]error{"extended": extend(s, lost), "released": release(s, lost)} {
			if !errors.Is(err, store.ErrLost) {
				t.Errorf("%s: the lease that was lost is %s: %v", mode, what, err)
			}
		}
		must(t, extend(s, again))
		must(t, release(s, again))
		if n := java.Exists(background, peer).Val(); n != 0 {
			t.Errorf("%s: the key stays after the release", mode)
		}
	}
}

// Who waits for a lock that another library holds is woken each time it goes, and not at each look.
func TestWatchOfASharedLockIsWokenEachTime(t *testing.T) {
	url, env := shared(t).URL, prefix()
	java, client := plainClient(t, url), plainClient(t, url)
	looks := make(looker)
	client.AddHook(looks)
	s, err := redisstore.New(client, redisstore.Config{Prefix: env, Share: env + ":*"})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	// The first look of a watch wakes if the lock is free then.
	must(t, java.Set(background, env+":name", "theirs", time.Hour).Err())
	w := watched(t, s, "lock/name")
	quiet := func(what string) { // of the looks before the last
		t.Helper()
		for range 5 { // a connection that was lost, as when all stands still for some seconds, wakes once
			for range 3 {
				<-looks
			}
			select {
			case <-w:
			default:
				return
			}
		}
		t.Errorf("woken again and again while %s", what)
	}
	for range 2 {
		must(t, java.Set(background, env+":name", "theirs", time.Hour).Err())
		quiet("the lock is held")
		must(t, java.Del(background, env+":name").Err())
		if !woken(w) {
			t.Fatal("not woken by the unlock")
		}
		quiet("the lock is free")
	}
}

// A list of what other libraries hold has what may be a lock, whatever else there is, ends wherever it is left, and
// still has all that can be read if something cannot.
func TestListOfForeignLocks(t *testing.T) {
	url := servers.Redis(t).URL // of its own: all keys are scanned
	java := plainClient(t, url)
	const owner = "0f0f0f0f-1111-2222-3333-44444444444%d:7"
	lock := func(name string, holders int) {
		for i := range holders {
			must(t, java.HSet(background, name, fmt.Sprintf(owner, i%10)+fmt.Sprint(i), "1").Err())
		}
		must(t, java.PExpire(background, name, time.Hour).Err())
	}
	s := open(t, url+"?prefix=p&redisson=true")
	for _, name := range []string{"lock/b", "lock/d", "job/d"} {
		take(t, s, name, "us")
	}
	for _, name := range []string{"a", "c", "e"} {
		lock(name, 1)
	}
	lock("most", 64)
	lock("too many", 65)
	lock("{p:0}:own", 1)
	lock(strings.Repeat("n", store.MaxName), 1) // there is no name for it
	must(t, java.HSet(background, "data", "field", "value").Err())
	must(t, java.HSet(background, "more data", "x"+fmt.Sprintf(owner, 0), "value").Err())
	for prefix, want := range map[string]string{
		"":       "job/d us, lock/a, lock/b us, lock/c, lock/d us, lock/e, lock/most",
		"l":      "lock/a, lock/b us, lock/c, lock/d us, lock/e, lock/most",
		"lock/":  "lock/a, lock/b us, lock/c, lock/d us, lock/e, lock/most",
		"lock/c": "lock/c",
		"lock/m": "lock/most",
		"lock/d": "lock/d us",
		"job/":   "job/d us",
		"x":      "",
	} {
		var all []string
		for r, err := range s.List(background, prefix) {
			must(t, err)
			all = append(all, strings.TrimSuffix(r.Name+" "+map[bool]string{true: "us"}[r.Holder == "us"], " "))
		}
		if got := strings.Join(all, ", "); got != want {
			t.Errorf("listed of %q: %s; want %s", prefix, got, want)
		}
		for most := range all { // a list that goes on after that panics
			n := 0
			for range s.List(background, prefix) {
				if n++; n > most {
					break
				}
			}
		}
	}
	must(t, java.SetRange(background, "{p:0}:r:lock/b", 0, "\x02").Err())
	var names []string
	var last error
	for r, err := range s.List(background, "lock/") {
		if last = err; err == nil {
			names = append(names, r.Name)
		}
	}
	got, want := strings.Join(names, ", "), "lock/a, lock/c, lock/d, lock/e, lock/most"
	if got != want || !errors.As(last, new(*redisstore.CorruptError)) {
		t.Errorf("listed where one cannot be read: %s, then %v; want %s", got, last, want)
	}
}
