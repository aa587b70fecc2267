package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// The reply to each verb is lost: the outcome is unknown, and asking again settles it.
func TestLostReplies(t *testing.T) {
	server := servers.Redis(t)
	p := newProxy(t, server.Addr)
	s := open(t, fresh(t, p.url()))
	direct := plainClient(t, server.URL)
	// The replies are lost until the server has run the script, then the connection is.
	loses := func(what string, do func(context.Context) error) {
		t.Helper()
		before := changes(t, direct)
		p.lose(true)
		done := make(chan error, 1)
		go func() { done <- do(background) }()
		servers.Wait(t, what+" to reach the server", func() bool { return changes(t, direct) > before })
		p.cut()
		err := <-done
		p.lose(false)
		if !isUnknown(err) {
			t.Errorf("%s: %v; want an unknown outcome", what, err)
		}
	}
	warm := take(t, s, "warm", "up") // the server learns the scripts
	if err := errors.Join(extend(s, warm), release(s, warm)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Choose(background, []string{"warm"}, store.Claim{Holder: "up", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	name := store.Release{Name: "name", Holder: "a", Retain: time.Hour}
	loses("acquire", func(ctx context.Context) error { return tried(ctx, s, "name", "a") })
	out := acquire(t, s, "name", "a")
	if out.Err != nil || out.Grant.ExpiredAge != 0 {
		t.Fatalf("asking again: %+v", out)
	}
	name.Token = out.Grant.Token
	if err := tried(background, s, "name", "b"); !errors.Is(err, store.ErrHeld) {
		t.Fatal(err)
	}
	loses("extend", func(context.Context) error { return extend(s, name) })
	if err := extend(s, name); err != nil {
		t.Fatal(err)
	}
	loses("release", func(context.Context) error { return release(s, name) })
	if err := release(s, name); err != nil {
		t.Fatalf("releasing again: %v", err)
	}
	loses("choose", func(ctx context.Context) error {
		_, _, err := s.Choose(ctx, []string{"x", "y"}, store.Claim{Holder: "a", TTL: time.Minute})
		return err
	})
	if i, grant, err := s.Choose(background, []string{"y", "x"}, store.Claim{Holder: "a", TTL: time.Minute}); err != nil || i != 1 {
		t.Fatalf("choosing again: %d, %+v, %v", i, grant, err)
	}
}

// While a server says nothing, calls end at the deadlines of their contexts, as unknown; they succeed again when it goes on.
func TestPausedServer(t *testing.T) {
	server := servers.Redis(t)
	own := plainClient(t, server.URL+"?read_timeout=1h")
	for kind, s := range map[string]*redisstore.Store{"URL": open(t, fresh(t, server.URL, unbounded)), "New": newStore(t, own)} {
		t.Run(kind, func(t *testing.T) {
			r := take(t, s, "name", "a")
			defer server.Resume()
			for within := 500 * time.Millisecond; ; within *= 10 { // a slow machine may not have sent it by then
				server.Pause()
				ctx, cancel := context.WithTimeout(background, within)
				err := tried(ctx, s, "other", "b")
				pinged := s.Ping(ctx)
				cancel()
				if pinged == nil || isUnknown(pinged) {
					t.Errorf("ping: %v", pinged)
				}
				if isUnknown(err) {
					break
				}
				if within > servers.Patience {
					t.Fatalf("%v; want unknown", err)
				}
				server.Resume()
			}
			server.Resume()
			repeated(t, "extending", func() error { return extend(s, r) })
		})
	}
}

func newStore(t testing.TB, client redis.UniversalClient) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(client, redisstore.Config{Prefix: prefix()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A server that is gone was not asked: that is known. Of a cluster's client it is not known, for it repeats requests when it follows redirections.
func TestRefusedConnectionIsKnown(t *testing.T) {
	url := fmt.Sprintf("redis://127.0.0.1:%d", servers.FreePort(t))
	if err := tried(background, open(t, url), "name", "a"); err == nil || isUnknown(err) {
		t.Error(err)
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{strings.TrimPrefix(url, "redis://")}, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer c.Close()
	if err := tried(background, newStore(t, c), "name", "a"); !isUnknown(err) {
		t.Errorf("of a cluster: %v", err)
	}
	if err := tried(background, newStore(t, plainClient(t, url)), "name", "a"); err == nil || isUnknown(err) {
		t.Errorf("with a client that repeats nothing: %v", err)
	}
}

// A script whose reply is lost is not sent again by a cluster's client: the refusal of the second would be told for certain, though the first may have been carried out.
func TestAClusterIsAskedOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	var asked atomic.Int64 // connections with a script
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					request, err := readResp(r)
					if err != nil {
						return
					}
					switch word := strings.ToLower(request.of[0].text); word {
					case "cluster":
						at := l.Addr().(*net.TCPAddr)
						fmt.Fprintf(c, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%d\r\n", len(at.IP.String()), at.IP, at.Port)
					case "evalsha", "eval": // carried out, and the connection breaks
						asked.Add(1)
						return
					case "hello":
						fmt.Fprint(c, "-ERR unknown command 'HELLO'\r\n")
					case "command":
						fmt.Fprint(c, "*0\r\n")
					default:
						fmt.Fprint(c, "+OK\r\n")
					}
				}
			}()
		}
	}()
	s := open(t, fmt.Sprintf("redis+cluster://%v", l.Addr()))
	for what, n := range map[string]int{"one release": 1, "several scripts": 1500} {
		releases := make([]store.Release, n)
		for i := range releases {
			releases[i] = store.Release{Name: fmt.Sprint(i), Holder: "a", Token: 7, Mark: 5}
		}
		asked.Store(0)
		errs, err := s.Release(background, releases)
		if err == nil {
			err = errs[0]
		}
		if !isUnknown(err) || asked.Load() != 1 {
			t.Errorf("%s: %v after %d attempts; want one, and an unknown outcome", what, err, asked.Load())
		}
	}
}

// The server dies in the middle of batches and comes back, with its scripts forgotten. Nothing that was answered is lost.
func TestKilledServerKeepsWhatItAnswered(t *testing.T) {
	server := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, fresh(t, server.URL))
	var mu sync.Mutex
	granted := map[string]int64{}
	unknown := map[string]bool{}
	note := func(name string, out store.Outcome, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			err = out.Err
		}
		switch {
		case err == nil:
			if before := granted[name]; before != 0 && before != out.Grant.Token {
				t.Errorf("%s: token %d, then %d", name, before, out.Grant.Token)
			}
			granted[name] = out.Grant.Token
		case isUnknown(err):
			unknown[name] = true
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				claims := make([]store.Claim, 50)
				for i := range claims {
					claims[i] = store.Claim{Name: fmt.Sprintf("%d/%d/%d", g, n, i), Holder: "h", TTL: time.Hour}
				}
				outs, err := s.Acquire(background, claims)
				for i, c := range claims {
					var out store.Outcome
					if err == nil {
						out = outs[i]
					}
					note(c.Name, out, err)
				}
				if err != nil {
					time.Sleep(time.Millisecond) // nobody is there to ask
				}
			}
		})
	}
	for range 5 {
		mu.Lock()
		before := len(granted)
		mu.Unlock()
		servers.Wait(t, "some grants", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(granted) > before+200
		})
		server.Kill()
		server.Start()
	}
	close(stop)
	wg.Wait()
	t.Logf("%d grants, %d unknown outcomes", len(granted), len(unknown))
	repeated(t, "reaching the server again", func() error { return s.Ping(background) })
	for name, token := range granted {
		if err := extend(s, store.Release{Name: name, Holder: "h", Token: token}); err != nil {
			t.Fatalf("%s was answered, and is lost: %v", name, err)
		}
	}
	for name := range unknown { // whatever had become of it, the holder has it now
		out := acquire(t, s, name, "h")
		note(name, out, nil)
		if out.Err != nil {
			t.Fatalf("%s was unknown: %v", name, out.Err)
		}
	}
}

// Somebody removes all data: holders notice, and tokens go on to grow by the clock.
func TestFlushAllIsNoticed(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, fresh(t, server.URL))
	r := take(t, s, "name", "a")
	if err := plainClient(t, server.URL).FlushAll(background).Err(); err != nil {
		t.Fatal(err)
	}
	if err := extend(s, r); !errors.Is(err, store.ErrLost) {
		t.Errorf("extend: %v", err)
	}
	if err := release(s, r); !errors.Is(err, store.ErrLost) {
		t.Errorf("release: %v", err)
	}
	if next := take(t, s, "name", "b"); next.Token <= r.Token {
		t.Errorf("token %d after %d", next.Token, r.Token)
	}
}

// A server whose memory is full takes nothing new, and lets go of what it has.
func TestFullMemory(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, fresh(t, server.URL))
	leases := []store.Release{take(t, s, "a", "h"), take(t, s, "b", "h")}
	if err := admin.ConfigSet(background, "maxmemory", "1mb").Err(); err != nil { // less than it has by itself
		t.Fatal(err)
	}
	if err := tried(background, s, "c", "h"); err == nil || isUnknown(err) || !strings.Contains(err.Error(), "raise maxmemory") {
		t.Errorf("acquire: %v", err)
	}
	if err := tried(background, s, "a", "other"); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a refused claim: %v", err)
	}
	for _, r := range leases {
		if err := extend(s, r); err != nil {
			t.Errorf("extend: %v", err)
		}
		if err := release(s, r); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	if err := admin.ConfigSet(background, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	take(t, s, "c", "h")
}

func TestServersThatRefuse(t *testing.T) {
	const canary = "canary-5ecret"
	open0 := servers.Redis(t)
	locked := servers.Redis(t, "--requirepass", canary)
	replica := servers.Redis(t, "--replicaof", strings.Replace(open0.Addr, ":", " ", 1))
	admin := plainClient(t, open0.URL)
	for _, line := range []string{
		"ACL SETUSER nothing on >" + canary + " ~* &* +ping",
		"ACL SETUSER keyless on >" + canary + " &* +@all",
		"ACL SETUSER setless on >" + canary + " ~* &* +@all -set",
	} {
		if err := admin.Do(background, words(line)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user, addr string) string { return "redis://" + user + ":" + canary + "@" + addr }
	for _, c := range []struct {
		what, url, says     string
		permission, unknown bool
	}{
		{"wrong password", "redis://:wrong-" + canary + "@" + locked.Addr, "password is wrong", true, false},
		{"unknown user", as("nobody", open0.Addr), "password is wrong", true, false},
		{"no password", "redis://" + locked.Addr, "give a user and a password", true, false},
		{"no commands", as("nothing", open0.Addr), "lacks a right", true, false},
		{"no keys", as("keyless", open0.Addr), "lacks a right", true, false},
		{"no command of the script", as("setless", open0.Addr), "lacks a right", true, true},
		{"unknown database", open0.URL[:len(open0.URL)-2] + "/99", "DB index is out of range", false, false},
		{"read-only replica", replica.URL, "connect to the primary", false, false},
		{"wrong port for TLS", "rediss://" + open0.Addr + "?dialtimeout=5s", "TLS", false, false},
	} {
		s := open(t, c.url)
		err := tried(background, s, "name-of-"+prefix(), "a")
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, fs.ErrPermission) != c.permission || isUnknown(err) != c.unknown {
			t.Errorf("%s: %v; want %q, permission %t, unknown %t", c.what, err, c.says, c.permission, c.unknown)
		}
		for _, other := range []error{err, s.Ping(background), errOf(s.Capabilities(background)), errOf(s.Examine(background))} {
			if other != nil && strings.Contains(other.Error(), canary) {
				t.Errorf("%s: the password is told: %v", c.what, other)
			}
		}
	}
}

func errOf[A any](_ A, err error) error { return err }

// A script that is not allowed a command in its middle may have written before: that is unknown, and the holder's to settle.
func TestLeaseOfHalfAScript(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	if err := admin.Do(background, words("ACL SETUSER setless on >pw ~* &* +@all -set")...).Err(); err != nil {
		t.Fatal(err)
	}
	url := fresh(t, strings.Replace(server.URL, "redis://", "redis://setless:pw@", 1))
	if err := tried(background, open(t, url), "name", "a"); !isUnknown(err) {
		t.Fatal(err)
	}
	whole := open(t, strings.Replace(url, "setless:pw@", "", 1))
	out := acquire(t, whole, "name", "a")
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	if err := release(whole, store.Release{Name: "name", Holder: "a", Token: out.Grant.Token}); err != nil {
		t.Fatal(err)
	}
	take(t, whole, "name", "b")
}

// A server whose memory is full hands over, keeps what is left with a release, and forgets: these end something, or
// make room.
func TestFullMemoryIsMadeRoomIn(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	forgotten, kept := take(t, s, "forgotten", "a"), take(t, s, "kept", "a")
	forgotten.Retain, kept.Retain = 0, 0
	must(t, errors.Join(release(s, forgotten), release(s, kept)))
	kept = take(t, s, "kept", "a") // it is due for a sweep, and is to be kept
	must(t, release(s, kept))
	lined, leaves := take(t, s, "lined", "a"), take(t, s, "leaves", "a")
	heir := stand(t, admin, s, "{p:0}:w:lined", "lined", "b")
	must(t, admin.ConfigSet(background, "maxmemory", "1mb").Err())
	if err := tried(background, s, "new", "a"); err == nil || !strings.Contains(err.Error(), "raise maxmemory") {
		t.Fatalf("a claim where memory is full: %v", err)
	}
	must(t, release(s, lined))
	if w := served(s, heir, "lined", "b"); w.err != nil || w.grant.Token <= lined.Token {
		t.Errorf("handing over: %+v", w)
	}
	leaves.Mark, leaves.State = 7, []byte("the state")
	must(t, release(s, leaves))
	if n, err := s.Sweep(background, 10); n != 1 || err != nil {
		t.Errorf("a sweep forgot %d, %v; want the one that may be", n, err)
	}
	must(t, admin.ConfigSet(background, "maxmemory", "0").Err())
	out := acquire(t, s, "leaves", "c")
	if out.Err != nil || out.Grant.Mark != 7 || string(out.Grant.State) != "the state" {
		t.Errorf("what was left: %+v", out)
	}
	if next := take(t, s, "forgotten", "c"); next.Token <= forgotten.Token {
		t.Errorf("token %d after %d", next.Token, forgotten.Token)
	}
}
