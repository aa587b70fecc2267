package zkstore_test

import (
	"bytes"
	"context"
	"errors"
	gopath "path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// again repeats what has an unknown outcome, or fails while the client connects anew.
func again(t testing.TB, what string, do func() error) {
	t.Helper()
	servers.Wait(t, what, func() bool {
		err := do()
		if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrHeld) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

// TestWhatBecomesOfWrites: a write during which the connection is lost has an unknown outcome, and a caller that repeats it gets what the first request did.
func TestWhatBecomesOfWrites(t *testing.T) {
	s := shared(t)
	for rule, f := range map[string]fate{
		"its connection breaks before it arrives":        {},
		"its connection breaks after it was carried out": {forward: true},
	} {
		t.Run(rule, func(t *testing.T) {
			p := newProxy(t, s.Addr)
			via := openURL(t, p.addr(), fresh())
			meets := func(what string, do func() error) {
				t.Helper()
				again(t, "a connection", func() error { return via.Ping(background) })
				p.next.Store(&f)
				if err := do(); !errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: got %v, want an unknown outcome", what, err)
				}
				again(t, "the second "+what, do)
			}
			grant, err := claim(background, via, "other", "x", time.Hour) // makes the bucket
			if err != nil {
				t.Fatal(err)
			}
			if err := release(background, via, "other", grant.Token); err != nil {
				t.Fatal(err)
			}
			meets("claim", func() (err error) { grant, err = claim(background, via, "other", "x", time.Hour); return err })
			if grant.Token != 2 {
				t.Errorf("got token %d, want 2, that of the first claim", grant.Token)
			}
			meets("extension", func() error { return extend(background, via, "other", grant.Token, time.Hour) })
			meets("release", func() error { return release(background, via, "other", grant.Token) })
			if got := p.met.Load(); got != 3 {
				t.Errorf("%d requests met the fate, want 3", got)
			}
		})
	}
}

// TestNoReply: a write whose reply does not come has an unknown outcome when the deadline passes.
func TestNoReply(t *testing.T) {
	s := shared(t)
	p, path := newProxy(t, s.Addr), fresh()
	via := openURL(t, p.addr(), path)
	again(t, "a connection", func() error { return via.Ping(background) })
	ctx, cancel := context.WithCancel(background)
	p.next.Store(&fate{forward: true, silent: true})
	go func() {
		for p.met.Load() == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := claim(ctx, via, "a", "x", time.Hour); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if _, err := claim(ctx, via, "a", "x", time.Hour); err == nil || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that nothing was sent", err)
	}
}

// TestReplyThatIsCutShort: a write whose reply cannot be read has an unknown outcome, though the client of ZooKeeper reports it as it does a request that
// does not fit its buffer and was not sent.
func TestReplyThatIsCutShort(t *testing.T) {
	s := shared(t)
	p, path := newProxy(t, s.Addr), fresh()
	via := openURL(t, p.addr(), path)
	again(t, "a connection", func() error { return via.Ping(background) })
	grant, err := claim(background, via, "a", "x", time.Hour) // makes the bucket
	if err != nil {
		t.Fatal(err)
	}
	p.next.Store(&fate{forward: true, short: true})
	if err := release(background, via, "a", grant.Token); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if got := p.met.Load(); got != 1 {
		t.Errorf("%d requests met the fate, want 1", got)
	}
	if _, err := claim(background, on(t, s.conn, path), "a", "y", time.Hour); err != nil {
		t.Errorf("the release was carried out, but then the name cannot be had: %v", err)
	}
}

// TestReplyThatIsOfAnotherWrite: a reply that cannot be that to a write does not say what became of it. The next one finds that out.
func TestReplyThatIsOfAnotherWrite(t *testing.T) {
	s := shared(t)
	p := newProxy(t, s.Addr)
	via := openURL(t, p.addr(), fresh())
	again(t, "a connection", func() error { return via.Ping(background) })
	grant, err := claim(background, via, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	p.next.Store(&fate{forward: true, other: true})
	if err := extend(background, via, "a", grant.Token, time.Hour); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if got := p.met.Load(); got != 1 {
		t.Errorf("%d requests met the fate, want 1", got)
	}
	if err := extend(background, via, "a", grant.Token, time.Hour); err != nil {
		t.Errorf("the second extension: %v", err)
	}
}

// TestSessionExpires: a lease outlives a session of ZooKeeper, the store gets a new one, and those who watch learn that their watch is lost.
func TestSessionExpires(t *testing.T) {
	s := shared(t)
	p, path := newProxy(t, s.Addr), fresh()
	via, other := openURL(t, p.addr(), path), on(t, s.conn, path)
	grant, err := claim(background, via, "held", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := via.Watch(background, []string{"held"})
	if err != nil {
		t.Fatal(err)
	}
	p.expire(t)
	for range lost { // until it is closed
	}
	if _, err := claim(background, other, "held", "y", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("after the session a claim of another holder: %v, want that it is held", err)
	}
	again(t, "an extension by the new session", func() error { return extend(background, via, "held", grant.Token, time.Hour) })
	wake, err := via.Watch(t.Context(), []string{"held"})
	if err != nil {
		t.Fatal(err)
	}
	if err := release(background, via, "held", grant.Token); err != nil {
		t.Error(err)
	}
	select {
	case _, open := <-wake:
		if !open {
			t.Error("the watch of the new session is lost, too")
		}
	case <-time.After(servers.Patience):
		t.Error("who watches in the new session is not woken")
	}
}

// TestWatchEndsWithItsConnection: those who watch learn that a connection was lost, although nothing is released. A client of ZooKeeper that connects again can miss a
// release that came in between.
func TestWatchEndsWithItsConnection(t *testing.T) {
	s := shared(t)
	p, path := newProxy(t, s.Addr), fresh()
	via, other := openURL(t, p.addr(), path), on(t, s.conn, path)
	grant, err := claim(background, other, "held", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	woken, err := via.Watch(background, []string{"held"})
	if err != nil {
		t.Fatal(err)
	}
	if err := extend(background, other, "held", grant.Token, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	again(t, "a connection", func() error { return via.Ping(background) })
	p.cut()
	for range woken { // until it is closed
	}
	if err := release(background, other, "held", grant.Token); err != nil {
		t.Fatal(err)
	}
	again(t, "the waiter's claim", func() error { _, err := claim(background, via, "held", "y", time.Hour); return err })
}

// TestRenewalsDoNotWake: a watch is silent about renewals, and who watches knows them: a lease that its holder does not renew any more has ended a TTL after the
// last renewal, and not a TTL after somebody has looked.
func TestRenewalsDoNotWake(t *testing.T) {
	s, path := shared(t), fresh()
	a, b := on(t, s.conn, path), on(t, newConn(t, s.Addr), path)
	grant, err := claim(background, a, "held", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	woken, err := b.Watch(background, []string{"held"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := extend(background, a, "held", grant.Token, time.Hour+time.Duration(i)); err != nil {
			t.Fatal(err)
		}
	}
	last := time.Hour + 4
	servers.Wait(t, "the last renewal to be known to who watches", func() bool { return b.Seen("held").Record.TTL == last })
	select {
	case <-woken:
		t.Error("a renewal has sent a value")
	default:
	}
	if err := release(background, a, "held", grant.Token); err != nil {
		t.Fatal(err)
	}
	if _, ok := <-woken; !ok {
		t.Error("the watch was lost")
	}
}

// TestNodeMadeAnew: a process that has seen a node does not change the one that was made in its place, although ZooKeeper gives both the same version.
func TestNodeMadeAnew(t *testing.T) {
	s, path := shared(t), fresh()
	slow, other := on(t, s.conn, path), on(t, s.conn, path)
	retain := func(in store.Store, token int64) error {
		errs, err := in.Release(background, []store.Release{{Name: "a", Holder: "x", Token: token}})
		return errors.Join(append(errs, err)...)
	}
	grant, err := claim(background, slow, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := retain(slow, grant.Token); err != nil { // slow knows the node as free, at version 1
		t.Fatal(err)
	}
	servers.Wait(t, "the record to be forgotten", func() bool {
		n, err := other.Sweep(background, 10)
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	held, err := claim(background, other, "a", "x", time.Hour)
	if err != nil || held.Token <= grant.Token {
		t.Fatalf("the new record: token %d after %d, %v", held.Token, grant.Token, err)
	}
	_, stat, err := s.conn.Get(s.node(t, path, "a"))
	for err == nil && stat.Version < 1 {
		if err = extend(background, other, "a", held.Token, time.Hour); err == nil {
			_, stat, err = s.conn.Get(s.node(t, path, "a"))
		}
	}
	if err != nil || stat.Version != 1 {
		t.Fatalf("the new node has version %d, want 1, which slow has seen of the old one: %v", stat.Version, err)
	}
	if got, err := claim(background, slow, "a", "y", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("got %+v, %v, want that it is held", got, err)
	}
	if err := extend(background, other, "a", held.Token, time.Hour); err != nil {
		t.Errorf("the holder: %v", err)
	}
}

// TestLostChild: a node whose child was deleted by something else is an error that says so, not a name that is held forever.
func TestLostChild(t *testing.T) {
	s, path := shared(t), fresh()
	a := on(t, s.conn, path)
	grant, err := claim(background, a, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	node := s.node(t, path, "a")
	children, _, err := s.conn.Children(node)
	if err != nil || len(children) != 1 {
		t.Fatalf("%q, %v, want one child", children, err)
	}
	if err := s.conn.Delete(node+"/"+children[0], -1); err != nil {
		t.Fatal(err)
	}
	if err := extend(background, a, "a", grant.Token, time.Hour); !says(err, "lost its child") || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that the child is gone", err)
	}
}

// TestForeignChild: a node to which something else has given a child can be written, and not removed. That harms its
// own name only, and its error names what is to be deleted; then it can be removed, too.
func TestForeignChild(t *testing.T) {
	s, path := shared(t), fresh()
	a := on(t, s.conn, path)
	names := []string{"a", "b", "c"}
	var releases []store.Release
	for _, name := range names {
		grant, err := claim(background, a, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, store.Release{Name: name, Holder: "x", Token: grant.Token})
	}
	foreign := s.node(t, path, "b") + "/foreign"
	if _, err := s.conn.Create(foreign, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	errs, err := a.Release(background, releases)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	forgotten := 0
	servers.Wait(t, "the others to be forgotten", func() bool {
		n, err := a.Sweep(background, 10)
		if forgotten += n; forgotten > 2 || !says(err, "another child") || !says(err, "/b") ||
			errors.Is(err, store.ErrUnknown) {
			t.Fatalf("forgotten: %d, %v, want that the child of b is in the way", forgotten, err)
		}
		return forgotten == 2
	})
	if _, _, err := s.conn.Get(s.node(t, path, "b")); err != nil {
		t.Error(err)
	}
	if err := s.conn.Delete(foreign, -1); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Sweep(background, 10); n != 1 || err != nil {
		t.Errorf("without the child: %d are forgotten, %v", n, err)
	}
}

// TestConflictsOfWhatIsNotThere: a node that another process had made, and has removed since, is no node that has lost
// its child: who was to make it may try again.
func TestConflictsOfWhatIsNotThere(t *testing.T) {
	s := shared(t)
	a := on(t, s.conn, fresh())
	for version, what := range map[string]string{"": "one that was to make it",
		"other.1": "one that was to change it"} {
		r := zkstore.ConflictSince(background, a, s.conn, s.conn.SessionID(), "a", version)
		if !errors.Is(r.Err, casstore.ErrConflict) || r.Current == nil || r.Current.Name != "a" ||
			r.Current.Version != "" {
			t.Errorf("%s: %+v, want a conflict with no node", what, r)
		}
	}
}

// TestForeignNodes: a node that no store has made harms its own name only. With a life that is as long as ZooKeeper lets it be, a write would be longer than the server reads, and it would end the
// connection, with all that is under way; an ephemeral node is deleted by the server, whoever holds the name.
func TestForeignNodes(t *testing.T) {
	s, path := shared(t), fresh()
	a := on(t, s.conn, path)
	names := []string{"a", "b", "c", "d"}
	bad := map[int]string{1: "its life cannot be", 2: "no persistent node"}
	var extensions []store.Extension
	for _, name := range names {
		grant, err := claim(background, a, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: grant.Token, TTL: time.Hour})
	}
	node := s.node(t, path, "b")
	data, _, err := s.conn.Get(node)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.conn.Set(node, bytes.Replace(data, []byte(`"life":"`), []byte(`"life":"`+strings.Repeat("x", 550_000)), 1), -1); err != nil {
		t.Fatal(err)
	}
	node = s.node(t, path, "c")
	data, _, err = s.conn.Get(node)
	if err != nil {
		t.Fatal(err)
	}
	children, _, err := s.conn.Children(node)
	if err != nil || len(children) != 1 {
		t.Fatalf("%q, %v, want one child", children, err)
	}
	if _, err := s.conn.Multi(&zk.DeleteRequest{Path: node + "/" + children[0], Version: -1}, &zk.DeleteRequest{Path: node, Version: -1},
		&zk.CreateRequest{Path: node, Data: data, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}); err != nil {
		t.Fatal(err)
	}
	for _, by := range []store.Store{a, a, on(t, s.conn, path)} {
		errs, err := by.Extend(background, extensions)
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range errs {
			if why, is := bad[i]; is != (err != nil) || is && (!says(err, why) || !says(err, `"`+names[i]+`"`) || errors.Is(err, store.ErrLost) || len(err.Error()) > 500) {
				t.Errorf("an extension of %s: %.500v, want one that says %q", names[i], err, why)
			}
		}
	}
	if err := s.conn.Delete(node, -1); err != nil {
		t.Error(err)
	}

	// A node in the bucket of other names is not that of its name.
	elsewhere := gopath.Dir(node) + "/a"
	if elsewhere == s.node(t, path, "a") {
		t.Fatal("two names are in one bucket")
	}
	if _, err := s.conn.Create(elsewhere, data, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	// Neither is one that is written in another way than its name.
	if _, err := s.conn.Create(gopath.Dir(s.node(t, path, "a"))+"/%61", data, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for r := range a.List(background, "") {
		times[r.Name]++
	}
	if times["a"] != 1 || times["d"] != 1 {
		t.Errorf("a is listed %d times, d %d times; want once each", times["a"], times["d"])
	}
}

// TestVersionsEnd: a node is replaced by a new one before ZooKeeper's versions of it come to their end, and nothing else is to be seen of that.
func TestVersionsEnd(t *testing.T) {
	s, path := shared(t), fresh()
	a, b := on(t, s.conn, path), on(t, s.conn, path)
	zkstore.SetLastVersion(a, 3)
	last := int64(0)
	for range 5 {
		grant, err := claim(background, a, "a", "x", time.Hour)
		if err != nil || grant.Token <= last {
			t.Fatalf("token %d after %d, %v", grant.Token, last, err)
		}
		last = grant.Token
		if err := extend(background, a, "a", last, time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := claim(background, b, "a", "y", time.Hour); !errors.Is(err, store.ErrHeld) {
			t.Fatalf("another process: %v, want that it is held", err)
		}
		if err := release(background, a, "a", last); err != nil {
			t.Fatal(err)
		}
		node := s.node(t, path, "a")
		children, stat, err := s.conn.Children(node)
		if err != nil || stat.Version > 3 || len(children) != 1 {
			t.Fatalf("version %d, children %q, %v; want at most 3, and one child", stat.Version, children, err)
		}
	}
}

// TestListsCatchUp: the server catches up with the leader before it is asked which names there are, and before their records are read.
func TestListsCatchUp(t *testing.T) {
	p := newProxy(t, shared(t).Addr)
	s := on(t, newConn(t, p.addr()), fresh())
	if _, err := claim(background, s, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	p.heardLast()
	for r, err := range s.List(background, "") {
		if err != nil || r.Name != "a" {
			t.Errorf("%q, %v", r.Name, err)
		}
	}
	if asked, want := p.heardLast(), []int32{opSync, opChildren, opSync, opGet}; !slices.Equal(asked, want) {
		t.Errorf("the requests were %v, want %v", asked, want)
	}
}

// TestSweepsThatAreCutOff: a sweep whose context ends while its requests are under way leaves what it returns alone. The race detector sees that it does.
func TestSweepsThatAreCutOff(t *testing.T) {
	s := on(t, shared(t).conn, fresh())
	if _, err := claim(background, s, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := s.Sweep(background, 100); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	cut := 0
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(background, took*time.Duration(i%100)/50)
		if _, err := s.Sweep(ctx, 100); errors.Is(err, context.DeadlineExceeded) {
			cut++
		}
		cancel()
	}
	if cut == 0 {
		t.Error("none was cut off")
	}
}

// TestReadsInOneSession: what a server was to catch up for is read from that server. A session may end in between, and the next one be at a server that lags behind: it could
// miss that tokens were forgotten.
func TestReadsInOneSession(t *testing.T) {
	s, path := shared(t), fresh()
	p := newProxy(t, s.Addr)
	conn := newConn(t, p.addr())
	via := on(t, conn, path)
	if _, err := claim(background, via, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	first, reads := conn.SessionID(), 0
	err := zkstore.CaughtUp(background, via, conn, func() error {
		if reads++; reads == 1 {
			p.expire(t)
			servers.Wait(t, "another session", func() bool { now := conn.SessionID(); return now != 0 && now != first })
		}
		return nil
	})
	if err != nil || reads != 2 {
		t.Errorf("%d reads, %v, want a second one in the other session", reads, err)
	}
	if r := zkstore.ConflictSince(background, via, conn, first, "a", "other.1"); !errors.Is(r.Err,
		casstore.ErrConflict) || r.Current != nil {
		t.Errorf("a change that was refused in the session before: %+v, want a conflict, after which the record is read anew", r)
	}
	if r := zkstore.ConflictSince(background, via, conn, conn.SessionID(), "a", "other.1"); !errors.Is(r.Err,
		casstore.ErrConflict) || r.Current == nil {
		t.Errorf("a change that was refused in this session: %+v, want the record as it is", r)
	}
}
