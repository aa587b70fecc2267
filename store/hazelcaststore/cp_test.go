//go:build linux

package hazelcaststore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/failover"
	"github.com/soloist-dev/soloist/test/servers"
)

// trio is three members with the CP Subsystem, which all tests share. No test ends one for good.
var trio = servers.Shared(func(t servers.Test) *servers.HazelcastCluster { return servers.NewHazelcastCP(t) })

// reach returns how to connect to members of a cluster, all of them if none is named.
func reach(c *servers.HazelcastCluster, members ...int) hazelcast.Config {
	var addrs []string
	for i, m := range c.Members {
		if len(members) == 0 || i == members[0] {
			addrs = append(addrs, m.Addr)
		}
	}
	return config(addrs...)
}

func openCP(t testing.TB, client hazelcast.Config, of string) *hazelcaststore.Store {
	t.Helper()
	return open(t, client, hazelcaststore.Config{Map: of, CP: true})
}

// TestConformanceCP: the CP Subsystem of three members passes the suite.
func TestConformanceCP(t *testing.T) {
	c := trio(t)
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) store.Store {
			of := fresh()
			return handle{openCP(t, reach(c), of), of}
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			of := s.(handle).of
			return handle{openCP(t, reach(c, 1), of), of}
		},
		Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
			return corruptReference(t, s.(handle).Store, name, way)
		},
		Fail: func(t testing.TB, s store.Store, fate func() storetest.Fate) store.Store {
			p, of := newProxy(t, c.Members[0].Addr), s.(handle).of
			p.each = fate
			return handle{openCP(t, p.config(), of), of}
		},
		TTL:   time.Second,
		Names: 300,
	})
}

// corruptReference writes over a reference.
func corruptReference(t testing.TB, s *hazelcaststore.Store, name string, way int) string {
	t.Helper()
	ways := []struct {
		what  string
		value func(text string) []byte
	}{
		{"no text", func(string) []byte { return []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 0, 0, 0, 0, 7} }}, // the number 7
		{"a text of another length", func(string) []byte { return append(hazelcaststore.TextData("held"), 'x') }},
		{"no JSON", func(string) []byte { return hazelcaststore.TextData("held") }},
		{"something after the record", func(text string) []byte { return hazelcaststore.TextData(text + text) }},
		{"a token of 0", func(text string) []byte {
			return hazelcaststore.TextData(strings.Replace(text, `"token":`, `"token":0,"mark":`, 1))
		}},
	}
	if way >= len(ways) {
		return ""
	}
	items, err := hazelcaststore.Backend(s).Read(background, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	text := items[0].Version
	if done, err := hazelcaststore.Overwrite(background, s, name, text, ways[way].value(text)); err != nil || !done {
		t.Fatalf("%s: %t, %v", ways[way].what, done, err)
	}
	return ways[way].what
}

// TestSplitCP shows what each side of a cluster that is cut in two answers, with the CP Subsystem and with a map of the same cluster.
func TestSplitCP(t *testing.T) {
	servers.Long(t)
	c, of := trio(t), fresh()
	small, large, both := openCP(t, reach(c, 0), of), openCP(t, reach(c, 1), of), openCP(t, reach(c), of)
	one := func(i int) hazelcast.Config {
		client := reach(c, i)
		client.Cluster.Unisocket = true
		return client
	}
	smallMap, largeMap := open(t, one(0), hazelcaststore.Config{Map: of}), open(t, one(1), hazelcaststore.Config{Map: of})
	grants := func(s *hazelcaststore.Store, name, holder string) (grant store.Grant) {
		t.Helper()
		again(t, name+" for "+holder, func(ctx context.Context) (err error) { grant, err = acquireFor(ctx, s, name, holder); return err })
		return grant
	}
	before := grants(small, "before", "x")
	grants(both, "warm", "x")
	again(t, "a connection of the map's stores", func(ctx context.Context) error { return errors.Join(smallMap.Ping(ctx), largeMap.Ping(ctx)) })

	c.Cut(0)
	defer c.Heal()

	// The side of two grants; a client that knows all members gets there.
	granted := grants(large, "name", "large")
	grants(both, "other", "both")

	// The side of one grants and extends nothing, and says of no lease that it is lost.
	for i := range 3 {
		name := "name"
		if i == 1 {
			name = "other"
		} else if i == 2 {
			name = "free"
		}
		if grant, err := attempt(func(ctx context.Context) (store.Grant, error) { return acquireFor(ctx, small, name, "small") }); err == nil || errors.Is(err, store.ErrHeld) {
			t.Errorf("the side of one claims %q: %+v, %v; want an error that says nothing of the name", name, grant, err)
		}
	}
	if _, err := attempt(func(ctx context.Context) (int, error) { return 0, extend(ctx, small, "before", before.Token) }); err == nil || errors.Is(err, store.ErrLost) {
		t.Errorf("the side of one extends: %v, want an error that is no loss", err)
	}

	// A map of the same cluster grants on both sides, once they have noticed, with the same token.
	left, right := grants(smallMap, "split", "small"), store.Grant{}
	servers.Wait(t, "the map to be split", func() bool {
		err := soon(func(ctx context.Context) (err error) {
			right, err = acquireFor(ctx, largeMap, "split", "large")
			return err
		})
		return err == nil
	})
	if left.Token != right.Token {
		t.Errorf("the sides granted the tokens %d and %d of the map, want the same", left.Token, right.Token)
	}

	// When the sides meet again there is one holder, and the lease of the side of one goes on, or is free: nothing was granted there.
	c.Heal()
	again(t, "the extension", func(ctx context.Context) error { return extend(ctx, small, "before", before.Token) })
	var held *store.HeldError
	servers.Wait(t, "the side of one to see the holder", func() bool {
		err := soon(func(ctx context.Context) error { _, err := acquireFor(ctx, small, "name", "small"); return err })
		return errors.As(err, &held)
	})
	if held.Record.Holder != "large" || held.Record.Token != granted.Token {
		t.Errorf("got %+v, want the holder large with the token %d", held.Record, granted.Token)
	}
	servers.Wait(t, "the map to be whole", func() bool { return c.Members[0].Safe(3) && c.Members[1].Safe(3) && c.Members[2].Safe(3) })
}

// attempt tries something for a moment.
func attempt[T any](do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(background, 3*time.Second)
	defer cancel()
	return do(ctx)
}

// TestNoMajorityCP: without a majority nothing is granted and extended, and no lease is said to be lost; with the others the same leases go on.
func TestNoMajorityCP(t *testing.T) {
	servers.Long(t)
	c, of := trio(t), fresh()
	s := openCP(t, reach(c), of)
	var grant store.Grant
	again(t, "a lease", func(ctx context.Context) (err error) { grant, err = acquire(ctx, s, "kept"); return err })
	c.Members[1].Pause()
	c.Members[2].Pause()
	defer c.Members[1].Resume()
	defer c.Members[2].Resume()
	if g, err := attempt(func(ctx context.Context) (store.Grant, error) { return acquire(ctx, s, "new") }); err == nil || errors.Is(err, store.ErrHeld) {
		t.Errorf("a claim without a majority: %+v, %v", g, err)
	}
	if _, err := attempt(func(ctx context.Context) (int, error) { return 0, extend(ctx, s, "kept", grant.Token) }); err == nil || errors.Is(err, store.ErrLost) {
		t.Errorf("an extension without a majority: %v", err)
	}
	c.Members[1].Resume()
	c.Members[2].Resume()
	again(t, "the extension", func(ctx context.Context) error { return extend(ctx, s, "kept", grant.Token) })
	again(t, "the claim", func(ctx context.Context) error { _, err := acquire(ctx, s, "new"); return err })
}

// A cpMember is a member of the CP Subsystem, which an operator makes one again when it was started again.
type cpMember struct {
	*servers.HazelcastServer
	t testing.TB
	c *servers.HazelcastCluster
}

func (m cpMember) Start() {
	m.HazelcastServer.Start()
	servers.Wait(m.t, "the member to be one of the CP Subsystem again", func() bool { return m.c.Replace(m.HazelcastServer, hazelcaststore.GroupName) })
}

// TestOneAwayCP: a fleet goes on while one member of three is killed or paused. When all members have ended, everything is forgotten, and tokens go on growing.
func TestOneAwayCP(t *testing.T) {
	servers.Long(t)
	c := servers.NewHazelcastCP(t)
	s := openCP(t, reach(c), "away")
	again(t, "a connection", s.Ping)
	cluster := failover.Cluster{Open: func(int) store.Store { return openCP(t, reach(c), "away") }}
	for _, m := range c.Members {
		cluster.Servers = append(cluster.Servers, cpMember{m, t, c})
	}
	failover.OneAway(t, cluster)

	var before, after store.Grant
	again(t, "a lease", func(ctx context.Context) (err error) { before, err = acquire(ctx, s, "last"); return err })
	for _, m := range c.Members {
		m.Kill()
	}
	for _, m := range c.Members {
		m.Start()
	}
	servers.Wait(t, "the loss to be seen", func() bool {
		return errors.Is(soon(func(ctx context.Context) error { return extend(ctx, s, "last", before.Token) }), store.ErrLost)
	})
	other := openCP(t, reach(c), "away")
	again(t, "a new lease", func(ctx context.Context) (err error) { after, err = acquireFor(ctx, other, "last", "y"); return err })
	if after.Token <= before.Token {
		t.Errorf("the token %d after %d: a cluster that has forgotten its tokens repeats them", after.Token, before.Token)
	}
}

// TestMembersWithoutCP: a member without the CP Subsystem is refused with what to change, and nothing is granted by it: one of 5.4, whose structures work without it; one that
// has joined a cluster with it; and one of 5.5, which has it only with a license.
func TestMembersWithoutCP(t *testing.T) {
	servers.Long(t)
	refuses := func(client hazelcast.Config, text string) {
		t.Helper()
		s := openCP(t, client, "refused")
		if grant, err := acquire(background, s, "a"); !errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrUnknown) || !says(err, text) {
			t.Errorf("got %+v, %v, want that it cannot be used and %q", grant, err, text)
		}
		if can, err := s.Capabilities(background); err == nil {
			t.Errorf("it promises %+v", can)
		}
		if client, err := soloist.New(s, soloist.Config{RequireFencing: true}); err == nil {
			_ = client.Close()
			t.Error("a client that requires fencing was made")
		}
	}
	refuses(config(servers.HazelcastUnsafe(t).Addr), "set cp-member-count to 3")
	refuses(config(shared(t).Addr), "use 5.4, install a license")

	c := trio(t)
	stranger := c.Join(t)
	refuses(config(stranger.Addr), "set cp-member-count to 3")
	s := openCP(t, config(stranger.Addr, c.Members[0].Addr), fresh())
	again(t, "a lease by the members that have it", func(ctx context.Context) error { _, err := acquire(ctx, s, "a"); return err })
}

// TestWritesCP: a write whose reply is lost has an unknown outcome, and a caller that repeats it gets what the first request did.
func TestWritesCP(t *testing.T) {
	c := trio(t)
	for rule, f := range map[string]fate{
		"its connection breaks before it arrives":        {},
		"its connection breaks after it was carried out": {forward: true},
		"the member replies with an error":               {refuse: 46},
	} {
		t.Run(rule, func(t *testing.T) {
			p := newProxy(t, c.Members[0].Addr)
			s := openCP(t, p.config(), fresh())
			meets := func(what string, do func(context.Context) error) {
				t.Helper()
				again(t, "a connection", s.Ping)
				p.next.Store(&f)
				if err := do(background); !errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: got %v, want an unknown outcome", what, err)
				}
				again(t, what, do)
			}
			var grant store.Grant
			again(t, "the floor", s.Ping)
			meets("acquire", func(ctx context.Context) (err error) { grant, err = acquire(ctx, s, "a"); return err })
			meets("extend", func(ctx context.Context) error { return extend(ctx, s, "a", grant.Token) })
			meets("release", func(ctx context.Context) error { return release(ctx, s, "a", grant.Token) })
			if got := p.met.Load(); got != 3 {
				t.Errorf("%d messages met the fate, want 3", got)
			}
		})
	}
}

// TestRepeatedWritesCP: the members repeat a write among themselves when their leader ends, and the repetition is refused. The caller learns what the first one did.
func TestRepeatedWritesCP(t *testing.T) {
	c, of := trio(t), fresh()
	p := newProxy(t, c.Members[0].Addr)
	s, other := openCP(t, p.config(), of), openCP(t, reach(c), of)
	again(t, "a connection", s.Ping)
	twice := func(between func()) { p.next.Store(&fate{forward: true, twice: between}) }
	twice(func() {})
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatalf("a new name: %+v, %v, want the grant", grant, err)
	}
	twice(func() {})
	if err := extend(background, s, "a", grant.Token); err != nil {
		t.Errorf("an extension: %v", err)
	}
	twice(func() {
		if g, err := acquireFor(background, other, "a", "y"); err != nil || g.Token <= grant.Token {
			t.Errorf("after the release: %+v, %v", g, err)
		}
	})
	if err := release(background, s, "a", grant.Token); err != nil {
		t.Errorf("a release after which somebody else was granted the name: %v, want nil", err)
	}
	if got := p.met.Load(); got != 3 {
		t.Errorf("%d messages were sent twice, want 3", got)
	}
}

// TestReadsCP: a read that a member does not answer, or answers with an error, is sent again.
func TestReadsCP(t *testing.T) {
	p := newProxy(t, trio(t).Members[0].Addr)
	s := openCP(t, p.config(), fresh())
	if _, err := acquire(background, s, "a"); err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]fate{"an error": {refuse: 46}, "a connection that breaks": {}, "silence": {forward: true, silent: true}} {
		p.nextRead.Store(&f)
		if _, err := acquireFor(background, s, "a", "y"); !errors.Is(err, store.ErrHeld) {
			t.Errorf("%s: got %v, want that it was read again and the name is held", what, err)
		}
	}
	if got := p.met.Load(); got != 3 {
		t.Errorf("%d reads met their fate, want 3", got)
	}
}

// TestSlowMemberCP: when a member does not answer, further requests take another connection, and only the outcome of the one that is not answered is unknown.
func TestSlowMemberCP(t *testing.T) {
	p := newProxy(t, trio(t).Members[0].Addr)
	s := openCP(t, p.config(), fresh())
	again(t, "a connection", s.Ping)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	p.next.Store(&fate{forward: true, silent: true})
	failed := make(chan error, 1)
	go func() { _, err := acquire(ctx, s, "a"); failed <- err }()
	servers.Wait(t, "the write", func() bool { return p.met.Load() == 1 })
	again(t, "another name", func(ctx context.Context) error { _, err := acquire(ctx, s, "b"); return err })
	select {
	case err := <-failed:
		t.Errorf("the request that is not answered: %v, before its context has ended", err)
	default:
	}
	cancel()
	if err := <-failed; !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled and the outcome is unknown", err)
	}
	again(t, "the name", func(ctx context.Context) error { _, err := acquire(ctx, s, "a"); return err })
}

// TestRequestsCP: what each verb costs is what the documentation says.
func TestRequestsCP(t *testing.T) {
	of := fresh()
	p := newProxy(t, trio(t).Members[0].Addr)
	s, other, third := openCP(t, p.config(), of), openCP(t, p.config(), of), openCP(t, p.config(), of)
	var token int64
	claim := func(s *hazelcaststore.Store, name, holder string, want error) func() {
		return func() {
			grant, err := acquireFor(background, s, name, holder)
			if !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			if err == nil {
				token = grant.Token
			}
		}
	}
	done := func(do func(context.Context, *hazelcaststore.Store, string, int64) error, name string) func() {
		return func() {
			if err := do(background, s, name, token); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range []*hazelcaststore.Store{s, other, third} { // the floor is read once
		again(t, "a connection", func(ctx context.Context) error { _, err := acquire(ctx, s, fmt.Sprintf("%p", s)); return err })
	}
	for _, step := range []struct {
		verb          string
		do            func()
		writes, reads int64
	}{
		{"acquire a new name", claim(s, "a", "x", nil), 1, 1}, // the floor is read
		{"be refused a name that this process has not seen", claim(other, "a", "y", store.ErrHeld), 1, 1},
		{"be refused a name that it has seen", claim(other, "a", "y", store.ErrHeld), 0, 1},
		{"extend", done(extend, "a"), 1, 0},
		{"release", done(release, "a"), 1, 0},
		{"acquire the name that this process released last", claim(s, "a", "x", nil), 1, 0},
		{"release it again", done(release, "a"), 1, 0},
		{"acquire a free name that this process has not seen", claim(third, "a", "y", nil), 2, 1},
	} {
		writes, reads := p.writes.Load(), p.reads.Load()
		step.do()
		if writes, reads = p.writes.Load()-writes, p.reads.Load()-reads; writes != step.writes || reads != step.reads {
			t.Errorf("to %s took %d writes and %d reads; want %d and %d", step.verb, writes, reads, step.writes, step.reads)
		}
	}
}

// TestPromisesCP: fencing is promised, and durability is not.
func TestPromisesCP(t *testing.T) {
	c, of := trio(t), fresh()
	s := openCP(t, reach(c), of)
	can, err := s.Capabilities(background)
	if err != nil || can.Fencing.Answer != store.Yes || can.Durable.Answer != store.No || can.Waiting.Answer != store.No || can.Backend != "Hazelcast 5.4.0, CP group soloist, map "+of {
		t.Errorf("got %+v, %v", can, err)
	}
	client, err := soloist.New(s, soloist.Config{RequireFencing: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if _, err := acquire(background, s, "a"); err != nil {
		t.Fatal(err)
	}
	findings, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]store.Finding{}
	for _, f := range findings {
		found[f.Subject] = f
	}
	if f := found["names"]; f.Level != store.LevelOK || !strings.HasPrefix(f.Found, "2 were used") { // the floor is one
		t.Errorf("got %+v", f)
	}
	if f := found["durability"]; f.Level != store.LevelWarning {
		t.Errorf("got %+v", f)
	}
}

// TestFloorCP: a group without a floor of tokens gets one, from which tokens go on growing when a cluster has forgotten everything.
func TestFloorCP(t *testing.T) {
	before := time.Now().UnixMicro()
	s := openCP(t, reach(trio(t)), fresh())
	grant, err := acquire(background, s, "a")
	if err != nil || grant.Token <= before || grant.Token > time.Now().Add(time.Hour).UnixMicro() {
		t.Errorf("the first token is %d, %v, want one of now", grant.Token, err)
	}
	_, chosen, err := openCP(t, reach(trio(t)), fresh()).Choose(background, []string{"a"}, store.Claim{Holder: "x", TTL: time.Hour})
	if err != nil || chosen.Token <= before {
		t.Errorf("the first token of a name that was chosen is %d, %v, want one of now", chosen.Token, err)
	}
	items, err := hazelcaststore.Backend(s).Read(background, []string{casstore.FloorName, "never"})
	if err != nil || items[0].Record.Token >= grant.Token || items[0].Version == "" || items[1].Version != "" {
		t.Errorf("got %+v, %v", items, err)
	}
}

// TestConnectionsCP: what is wrong with a connection is told with what to change.
func TestConnectionsCP(t *testing.T) {
	c := trio(t)
	fails := func(client hazelcast.Config, is error, text string) {
		t.Helper()
		client.Cluster.ConnectionStrategy.Timeout = types.Duration(2 * time.Second)
		err := openCP(t, client, fresh()).Ping(background)
		if err == nil || errors.Is(err, store.ErrUnknown) || is != nil && !errors.Is(err, is) || !says(err, text) {
			t.Errorf("got %v, want an error with %q", err, text)
		}
	}
	named := reach(c, 0)
	named.Cluster.Name = "other"
	fails(named, nil, `the cluster "other"`)
	fails(config("127.0.0.1:1"), nil, "check the port")
	secret := reach(c, 0)
	secret.Cluster.Network.SSL.Enabled = true
	fails(secret, nil, "the wrong kind of TLS")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
		}
	}()
	fails(config(l.Addr().String()), nil, "does not speak the protocol")

	addr, ca := servers.Encrypted(t, c.Members[0].Addr, "")
	s, err := hazelcaststore.OpenURL(background, fmt.Sprintf("hazelcast://%s/%s?cp=true&tls=true&cafile=%s&dialtimeout=5m&cluster=%s", addr, fresh(), ca, servers.HazelcastName))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := acquire(background, s, "a"); err != nil {
		t.Errorf("with TLS: %v", err)
	}
}

// TestCloseCP: Close ends a request that is under way, whose outcome is unknown, and calls after it say so.
func TestCloseCP(t *testing.T) {
	p := newProxy(t, trio(t).Members[0].Addr)
	s := openCP(t, p.config(), fresh())
	again(t, "a connection", s.Ping)
	p.next.Store(&fate{forward: true, silent: true})
	failed := make(chan error, 1)
	go func() { _, err := acquire(background, s, "a"); failed <- err }()
	servers.Wait(t, "the write", func() bool { return p.met.Load() == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if _, err := acquire(background, s, "a"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestRightsCP: a request that a member refuses for want of a right has had no effect, and says what is missing.
func TestRightsCP(t *testing.T) {
	p := newProxy(t, trio(t).Members[0].Addr)
	s := openCP(t, p.config(), fresh())
	again(t, "a connection", s.Ping)
	p.next.Store(&fate{refuse: 64, class: "java.security.AccessControlException"})
	if _, err := acquire(background, s, "a"); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that it is not permitted", err)
	}
}
