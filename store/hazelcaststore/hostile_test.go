package hazelcaststore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client/hzerrors"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

func acquireFor(ctx context.Context, s *hazelcaststore.Store, name, holder string) (store.Grant, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: name, Holder: holder, TTL: time.Hour}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

// acquire claims one name for the holder x.
func acquire(ctx context.Context, s *hazelcaststore.Store, name string) (store.Grant, error) {
	return acquireFor(ctx, s, name, "x")
}

func extend(ctx context.Context, s *hazelcaststore.Store, name string, token int64) error {
	errs, err := s.Extend(ctx, []store.Extension{{Name: name, Holder: "x", Token: token, TTL: time.Hour, Mark: 5}})
	return errors.Join(append(errs, err)...)
}

func release(ctx context.Context, s *hazelcaststore.Store, name string, token int64) error {
	errs, err := s.Release(ctx, []store.Release{{Name: name, Holder: "x", Token: token, Mark: 7, Retain: store.Forever}})
	return errors.Join(append(errs, err)...)
}

// soon does something with a deadline. The client may never reply to a request that it sends while its connection breaks.
func soon(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(background, 20*time.Second)
	defer cancel()
	return do(ctx)
}

// again repeats what has an unknown outcome, or fails while the store connects anew.
func again(t testing.TB, what string, do func(context.Context) error) {
	t.Helper()
	servers.Wait(t, what, func() bool {
		err := soon(do)
		if err != nil && !errors.Is(err, store.ErrUnknown) && !says(err, "connecting") && !says(err, "reading") {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

func says(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// TestWhatBecomesOfWrites: a write whose reply is lost has an unknown outcome, and a caller that repeats it gets what the first request did.
func TestWhatBecomesOfWrites(t *testing.T) {
	m := shared(t)
	for rule, f := range map[string]fate{
		"its connection breaks before it arrives":        {},
		"its connection breaks after it was carried out": {forward: true},
	} {
		t.Run(rule, func(t *testing.T) {
			p := newProxy(t, m.Addr)
			s := open(t, p.config(), hazelcaststore.Config{Map: fresh()})
			meets := func(what string, do func(context.Context) error) {
				t.Helper()
				again(t, "a connection", s.Ping)
				p.next.Store(&f)
				if err := soon(do); !errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: got %v, want an unknown outcome", what, err)
				}
				again(t, "the second "+what, do)
			}
			var grant store.Grant
			meets("claim", func(ctx context.Context) (err error) { grant, err = acquire(ctx, s, "a"); return err })
			if grant.Token != 1 {
				t.Errorf("got token %d, want that of the first claim", grant.Token)
			}
			meets("extension", func(ctx context.Context) error { return extend(ctx, s, "a", grant.Token) })
			meets("release", func(ctx context.Context) error { return release(ctx, s, "a", grant.Token) })
			if got := p.met.Load(); got != 3 {
				t.Errorf("%d messages met the fate, want 3", got)
			}
		})
	}
}

// TestRepeatedWrites: the members repeat a write whose reply they have lost, and the repetition is refused. The caller learns what the first one did, even if somebody
// else has written in between.
func TestRepeatedWrites(t *testing.T) {
	m := shared(t)
	p, cfg := newProxy(t, m.Addr), hazelcaststore.Config{Map: fresh()}
	s, other := open(t, p.config(), cfg), open(t, config(m.Addr), cfg)
	twice := func(between func()) {
		t.Helper()
		p.next.Store(&fate{forward: true, twice: between})
	}
	nothing := func() {}
	again(t, "a connection", s.Ping)

	twice(nothing)
	grant, err := acquire(background, s, "a")
	if err != nil || grant.Token != 1 {
		t.Fatalf("a new name: %+v, %v, want the grant", grant, err)
	}
	twice(nothing)
	if err := extend(background, s, "a", grant.Token); err != nil {
		t.Errorf("an extension: %v", err)
	}
	twice(nothing)
	if err := release(background, s, "a", grant.Token); err != nil {
		t.Errorf("a release: %v", err)
	}
	twice(nothing)
	if grant, err = acquire(background, s, "a"); err != nil || grant.Token != 2 {
		t.Fatalf("a name that is free: %+v, %v, want the grant", grant, err)
	}
	twice(func() {
		if grant, err := acquireFor(background, other, "a", "y"); err != nil || grant.Token != 3 {
			t.Errorf("after the release: %+v, %v", grant, err)
		}
	})
	if err := release(background, s, "a", grant.Token); err != nil {
		t.Errorf("a release after which somebody else was granted the name: %v, want nil", err)
	}
	if got := p.met.Load(); got != 5 {
		t.Errorf("%d messages were sent twice, want 5", got)
	}
}

// TestNoRepetitionBehindTheStore: the client library repeats no request, whatever the cluster replies with. It would send the same message again, which a connection that
// has broken may still be writing. The store sends reads again, as new messages; the outcome of a write is unknown.
func TestNoRepetitionBehindTheStore(t *testing.T) {
	p := newProxy(t, shared(t).Addr)
	s := open(t, p.config(), hazelcaststore.Config{Map: fresh()})
	for name, code := range map[string]int32{
		"io": 22, "instance not active": 19, "member left": 33, "partition migrating": 39, "retryable": 46, "retryable io": 47,
		"target not member": 53, "wrong target": 62,
	} {
		t.Run(name, func(t *testing.T) {
			again(t, "a connection", s.Ping)
			if _, err := acquire(background, s, name); err != nil {
				t.Fatal(err)
			}
			reads := p.reads.Load()
			p.nextRead.Store(&fate{refuse: code})
			if _, err := acquireFor(background, s, name, "y"); !errors.Is(err, store.ErrHeld) {
				t.Errorf("a read: got %v, want that it was sent again and the name is held", err)
			}
			if n := p.reads.Load() - reads; n != 2 {
				t.Errorf("a read was sent %d times, want 2", n)
			}
			writes := p.writes.Load()
			p.next.Store(&fate{refuse: code})
			if _, err := acquire(background, s, name+" again"); !errors.Is(err, store.ErrUnknown) {
				t.Errorf("a write: got %v, want an unknown outcome", err)
			}
			if n := p.writes.Load() - writes; n != 1 {
				t.Errorf("a write was sent %d times, want once", n)
			}
		})
	}
}

// TestRefusedReads: a read that the cluster refuses again and again ends with its context.
func TestRefusedReads(t *testing.T) {
	p := newProxy(t, shared(t).Addr)
	s := open(t, p.config(), hazelcaststore.Config{Map: fresh()})
	grant, err := acquire(background, s, "a")
	if err != nil || grant.Token != 1 {
		t.Fatal(grant, err)
	}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	reads := p.reads.Load()
	p.refuseReads.Store(39)
	failed := make(chan error, 1)
	go func() {
		_, err := acquireFor(ctx, s, "a", "y")
		failed <- err
	}()
	servers.Wait(t, "the read to be sent again", func() bool { return p.reads.Load() >= reads+2 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

// TestReadOfALostCluster: a read that fails is not made again with a client that has lost the cluster. The next one
// connects anew.
func TestReadOfALostCluster(t *testing.T) {
	s := open(t, config(shared(t).Addr), hazelcaststore.Config{Map: fresh()})
	times, err := hazelcaststore.ReadOfALostCluster(background, s)
	if times != 1 || !errors.Is(err, hzerrors.ErrRetryableIO) {
		t.Errorf("it was made %d times, and got %v; want that it fails at once", times, err)
	}
	if err := s.Ping(background); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// TestForgottenRepetition: if too many others have written since, the outcome is unknown, and not lost.
func TestForgottenRepetition(t *testing.T) {
	m := shared(t)
	p, cfg := newProxy(t, m.Addr), hazelcaststore.Config{Map: fresh()}
	s, other := open(t, p.config(), cfg), open(t, config(m.Addr), cfg)
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	p.next.Store(&fate{forward: true, twice: func() {
		for range 5 {
			grant, err := acquire(background, other, "a")
			if err == nil {
				err = release(background, other, "a", grant.Token)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}})
	if err := release(background, s, "a", grant.Token); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if err := release(background, s, "a", grant.Token); !errors.Is(err, store.ErrLost) {
		t.Errorf("the second release: %v, want that the lease is lost", err)
	}
}

// TestRepetitionOfAForgottenRelease: a release that took effect is not told as one of a lost lease when the name was forgotten, and perhaps made anew, before the members
// repeated it.
func TestRepetitionOfAForgottenRelease(t *testing.T) {
	m := shared(t)
	p, cfg := newProxy(t, m.Addr), hazelcaststore.Config{Map: fresh()}
	s, other := open(t, p.config(), cfg), open(t, config(m.Addr), cfg)
	for name, again := range map[string]bool{"a": false, "b": true} {
		grant, err := acquire(background, s, name)
		if err != nil {
			t.Fatal(err)
		}
		p.next.Store(&fate{forward: true, twice: func() {
			if n, err := other.Sweep(background, 10); n != 1 || err != nil {
				t.Errorf("the sweep forgot %d, %v, want the released name", n, err)
			}
			if !again {
				return
			}
			if _, err := acquireFor(background, other, name, "y"); err != nil {
				t.Error(err)
			}
		}})
		errs, err := s.Release(background, []store.Release{{Name: name, Holder: "x", Token: grant.Token}})
		if err := errors.Join(append(errs, err)...); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("made anew %t: got %v, want an unknown outcome", again, err)
		}
	}
}

// TestRepeatedWriteThatCannotBeRead: a write may have taken effect before its repetition was refused. If nobody can read what is there, for whatever reason, the outcome is unknown.
func TestRepeatedWriteThatCannotBeRead(t *testing.T) {
	p := newProxy(t, shared(t).Addr)
	s := open(t, p.config(), hazelcaststore.Config{Map: fresh()})
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	const denied = 64 // AccessControlException
	for what, code := range map[string]int32{"for want of a right": denied, "for another reason": 0x7fff} {
		if err := extend(background, s, "a", grant.Token); err != nil { // nothing else is read
			t.Fatal(err)
		}
		p.next.Store(&fate{forward: true, twice: func() { p.nextRead.Store(&fate{refuse: code, class: "java.security.AccessControlException"}) }})
		if err := extend(background, s, "a", grant.Token); !errors.Is(err, store.ErrUnknown) || errors.Is(err, fs.ErrPermission) != (code == denied) {
			t.Errorf("%s: got %v, want an unknown outcome", what, err)
		}
		if err := extend(background, s, "a", grant.Token); err != nil {
			t.Errorf("%s: once more: %v", what, err)
		}
	}
	if got := p.met.Load(); got != 4 {
		t.Errorf("%d messages met their fate, want 4", got)
	}
}

// TestEntriesOfOthers: an entry that expires in a map whose entries do not, and a key that is no text, harm no other name: not the leases of a process that has read
// them, no list and no sweep. Who wants the name of such an entry, who lists and who sweeps is told of it.
func TestEntriesOfOthers(t *testing.T) {
	m := shared(t)
	cfg := hazelcaststore.Config{Map: fresh()}
	s, entries := open(t, config(m.Addr), cfg), m.entries(t, cfg.Map)
	tokens := map[string]int64{}
	for _, name := range []string{"a", "b", "c"} {
		grant, err := acquire(background, s, name)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = grant.Token
	}
	text, err := entries.Get(background, "b")
	if err == nil {
		err = entries.SetWithTTL(background, "b", text, time.Hour)
	}
	if err == nil {
		err = entries.Set(background, int64(7), "x")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquireFor(background, s, "b", "y"); !errors.Is(err, store.ErrUnusable) || !says(err, `the entry of "b"`) {
		t.Errorf("the name whose entry expires: %v, want an error that says so", err)
	}
	var names []string
	for r, err := range s.List(background, "") {
		if err == nil {
			names = append(names, r.Name)
		} else if !says(err, `the entry of "b"`) || !says(err, "a key that is a int64") {
			t.Errorf("the list ends with %v, want what it left out", err)
		}
	}
	if strings.Join(names, " ") != "a c" {
		t.Errorf("the list has %q, want a and c", names)
	}
	newcomer := open(t, config(m.Addr), cfg)
	if _, err := acquireFor(background, newcomer, "b", "y"); !errors.Is(err, store.ErrHeld) { // it does not read the entry, but meets it
		t.Errorf("the name whose entry expires: %v", err)
	}
	if _, err := acquireFor(background, newcomer, "b", "y"); !errors.Is(err, store.ErrUnusable) {
		t.Errorf("the name whose entry expires, by a process that has written nothing: %v", err)
	}
	if _, err := acquireFor(background, newcomer, "d", "y"); err != nil {
		t.Errorf("another name, by that process: %v", err)
	}
	if err := extend(background, s, "a", tokens["a"]); err != nil {
		t.Errorf("a lease of another name cannot be extended: %v", err)
	}
	if errs, err := s.Release(background, []store.Release{{Name: "c", Holder: "x", Token: tokens["c"]}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if n, err := s.Sweep(background, 10); n != 1 || !says(err, `the entry of "b"`) || !says(err, "a key that is a int64") {
		t.Errorf("a sweep forgot %d, %v; want one name, and an error that tells of the others", n, err)
	}
}

// TestMembersLeaveBeforeTheWrite: a lease is neither begun nor extended if too few members are left when the write is sent, however many there were before. A release is
// sent still.
func TestMembersLeaveBeforeTheWrite(t *testing.T) {
	m := shared(t)
	s := open(t, config(m.Addr), hazelcaststore.Config{Map: fresh(), MinMembers: 1})
	if err := s.Ping(background); err != nil {
		t.Fatal(err)
	}
	if err := hazelcaststore.LoseMembers(background, s); err != nil {
		t.Fatal(err)
	}
	lease := casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Write: "w"}
	free := lease
	free.Released = true
	results, err := hazelcaststore.Backend(s).Write(background, []casstore.Change{{Name: "a", Record: &lease}, {Name: "b", Record: &free}})
	if err != nil {
		t.Fatal(err)
	}
	var few *hazelcaststore.FewMembersError
	if err := results[0].Err; !errors.As(err, &few) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("the lease: %v, want that there are too few members", err)
	}
	if err := results[1].Err; err != nil {
		t.Errorf("the release: %v", err)
	}
}

// TestEveryVerbNeedsEnoughMembers: with too few members the verbs that grant or extend say so before they look who has a name: that may be old.
func TestEveryVerbNeedsEnoughMembers(t *testing.T) {
	m := shared(t)
	s := open(t, config(m.Addr), hazelcaststore.Config{Map: fresh(), MinMembers: 1})
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := hazelcaststore.LoseMembers(background, s); err != nil {
		t.Fatal(err)
	}
	for verb, do := range map[string]func() error{
		"Acquire": func() error { _, err := acquireFor(background, s, "a", "y"); return err },
		"Choose": func() error {
			_, _, err := s.Choose(background, []string{"a"}, store.Claim{Holder: "y", TTL: time.Hour})
			return err
		},
		"Extend": func() error { return extend(background, s, "a", grant.Token) },
		"Ping":   func() error { return s.Ping(background) },
	} {
		err := do()
		var few *hazelcaststore.FewMembersError
		if !errors.As(err, &few) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrLost) != (verb == "Extend") {
			t.Errorf("%s: %v, want that there are too few members", verb, err)
		}
	}
}

// TestSilence: a request that nobody responds to ends with its context, and its outcome is unknown.
func TestSilence(t *testing.T) {
	m := shared(t)
	p, cfg := newProxy(t, m.Addr), hazelcaststore.Config{Map: fresh()}
	s, direct := open(t, p.config(), cfg), open(t, config(m.Addr), cfg)
	again(t, "a connection", s.Ping)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	p.next.Store(&fate{forward: true, silent: true})
	failed := make(chan error, 1)
	go func() {
		_, err := acquire(ctx, s, "a")
		failed <- err
	}()
	servers.Wait(t, "the write to be carried out", func() bool {
		for range direct.List(background, "a") {
			return true
		}
		return false
	})
	cancel()
	if err := <-failed; !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled and the outcome is unknown", err)
	}
	if grant, err := acquire(background, direct, "a"); err != nil || grant.Token != 1 {
		t.Errorf("got %+v, %v, want the grant that nobody responded with", grant, err)
	}
}

// TestMemberRestarts: a cluster that is started again has forgotten everything, which the store reports: it promises neither durability nor fencing.
func TestMemberRestarts(t *testing.T) {
	m := servers.Hazelcast(t)
	s := open(t, config(m.Addr), hazelcaststore.Config{})
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	m.Kill()
	ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	if err := extend(ctx, s, "a", grant.Token); err == nil || errors.Is(err, store.ErrLost) {
		t.Errorf("without the member: %v, want an error that is not a loss", err)
	}
	m.Start()
	servers.Wait(t, "the loss to be seen", func() bool {
		return errors.Is(soon(func(ctx context.Context) error { return extend(ctx, s, "a", grant.Token) }), store.ErrLost)
	})
}

// TestPausedMember: what is asked of a member that is paused is unknown at the deadline, and settled when it goes on. A holder keeps its lease.
func TestPausedMember(t *testing.T) {
	m := servers.Hazelcast(t)
	s := open(t, config(m.Addr), hazelcaststore.Config{})
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	m.Pause()
	ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	if err := extend(ctx, s, "a", grant.Token); err == nil || errors.Is(err, store.ErrLost) {
		t.Errorf("while the member is paused: %v, want an error that is not a loss", err)
	}
	m.Resume()
	again(t, "the extension", func(ctx context.Context) error { return extend(ctx, s, "a", grant.Token) })
}

// TestExpiringEntries: a map whose entries expire is refused aloud, before the first lease, and nothing is left in it. What others have left there makes no difference.
func TestExpiringEntries(t *testing.T) {
	m := shared(t)
	refuses := func(s *hazelcaststore.Store) {
		t.Helper()
		if _, err := acquire(background, s, "b"); !errors.Is(err, store.ErrUnusable) || !says(err, "time-to-live-seconds") {
			t.Errorf("got %v, want that the map cannot be used", err)
		}
	}
	if err := m.entries(t, "expiring").Clear(background); err != nil { // of a run before, with -count
		t.Fatal(err)
	}
	s := open(t, config(m.Addr), hazelcaststore.Config{Map: "expiring"})
	if _, err := acquire(background, s, "a"); !errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrUnknown) || !says(err, "time-to-live-seconds") {
		t.Errorf("the first lease: %v, want that the map cannot be used", err)
	}
	if n, err := m.entries(t, "expiring").Size(background); n != 0 || err != nil {
		t.Errorf("%d entries are left, %v", n, err)
	}
	refuses(s)
	refuses(open(t, config(m.Addr), hazelcaststore.Config{Map: "idling"}))
	elsewhere := fresh()
	other := open(t, config(m.Addr), hazelcaststore.Config{Map: elsewhere})
	grant, err := acquire(background, other, "b")
	if err == nil {
		err = release(background, other, "b", grant.Token)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.entries(t, elsewhere).Get(background, "b")
	if err == nil {
		err = m.entries(t, "expiring").Set(background, "b", text)
	}
	if err != nil {
		t.Fatal(err)
	}
	refuses(open(t, config(m.Addr), hazelcaststore.Config{Map: "expiring"}))
	s = open(t, config(m.Addr), hazelcaststore.Config{Map: "expiring"})
	n := 0
	for _, err := range s.List(background, "") {
		n++
		if !errors.Is(err, store.ErrUnusable) {
			t.Errorf("a list: %v, want that the map cannot be used", err)
		}
	}
	if n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	refuses(s)
}

// TestPromises: nothing is promised that a map cannot keep, and a client that needs fencing does not start.
func TestPromises(t *testing.T) {
	m := shared(t)
	s := open(t, config(m.Addr), hazelcaststore.Config{Map: fresh()})
	c, err := s.Capabilities(background)
	if err != nil || c.Fencing.Answer != store.No || c.Durable.Answer != store.No || c.Waiting.Answer != store.No || !strings.HasPrefix(c.Backend, "Hazelcast 5.5.0, ") {
		t.Errorf("got %+v, %v", c, err)
	}
	if client, err := soloist.New(s, soloist.Config{RequireFencing: true}); err == nil {
		_ = client.Close()
		t.Error("a client that requires fencing was made")
	} else if !says(err, "both sides grant a name") {
		t.Errorf("got %v, want the reason", err)
	}
}

// TestExamine: an operator learns what is not as it should be.
func TestExamine(t *testing.T) {
	m := shared(t)
	cfg := hazelcaststore.Config{Map: fresh()}
	find := func(cfg hazelcaststore.Config, subject string) store.Finding {
		t.Helper()
		findings, err := open(t, config(m.Addr), cfg).Examine(background)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Subject == subject {
				return f
			}
		}
		t.Fatalf("nothing is said of %s in %+v", subject, findings)
		return store.Finding{}
	}
	if f := find(cfg, "members"); f.Level != store.LevelWarning || !strings.Contains(f.Fix, "three members") {
		t.Errorf("got %+v", f)
	}
	if f := find(cfg, "expiry"); f.Level != store.LevelUnknown {
		t.Errorf("got %+v", f)
	}
	if f := find(cfg, "minmembers"); f.Level != store.LevelWarning || f.Fix != "set it to 1, more than half of the members" {
		t.Errorf("got %+v", f)
	}
	if _, err := acquire(background, open(t, config(m.Addr), cfg), "a"); err != nil {
		t.Fatal(err)
	}
	if f := find(cfg, "expiry"); f.Level != store.LevelOK {
		t.Errorf("got %+v", f)
	}
	if err := m.entries(t, cfg.Map).Set(background, int64(7), "x"); err != nil {
		t.Fatal(err)
	}
	if f := find(cfg, "keys"); f.Level != store.LevelError || !strings.Contains(f.Found, "a key that is a int64") {
		t.Errorf("got %+v", f)
	}
	if f := find(cfg, "expiry"); f.Level != store.LevelOK {
		t.Errorf("beside a key of something else: got %+v", f)
	}
	cfg.MinMembers = 1
	if f := find(cfg, "minmembers"); f.Level != store.LevelOK {
		t.Errorf("got %+v", f)
	}
	cfg.MinMembers = 2
	if f := find(cfg, "minmembers"); f.Level != store.LevelError {
		t.Errorf("got %+v", f)
	}
}

// TestWrongCluster: a cluster of another name refuses the client, and the store says so.
func TestWrongCluster(t *testing.T) {
	m := shared(t)
	c := config(m.Addr)
	c.Cluster.Name = "other"
	c.Cluster.ConnectionStrategy.Timeout = types.Duration(time.Second)
	s := open(t, c, hazelcaststore.Config{})
	if _, err := acquire(background, s, "a"); !errors.Is(err, fs.ErrPermission) && !says(err, `the cluster "other"`) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that it cannot connect, and nothing unknown", err)
	}
}

// TestExclusionByEffect: processes that add one to a plain number under a lock lose no addition.
func TestExclusionByEffect(t *testing.T) {
	const processes, each = 4, 25
	m, cfg := shared(t), hazelcaststore.Config{Map: fresh()}
	number, tokens := 0, []int64(nil) // guarded by the lock alone
	done := make(chan error, processes)
	for p := range processes {
		s := open(t, config(m.Addr), cfg)
		go func() {
			done <- func() error {
				for i := range each {
					claim := store.Claim{Name: "number", Holder: fmt.Sprintf("%d/%d", p, i), TTL: time.Hour}
					var grant store.Grant
					for {
						outcomes, err := s.Acquire(background, []store.Claim{claim})
						if err == nil {
							grant, err = outcomes[0].Grant, outcomes[0].Err
						}
						if err == nil {
							break
						}
						if !errors.Is(err, store.ErrHeld) && !errors.Is(err, store.ErrUnknown) {
							return err
						}
						time.Sleep(time.Millisecond)
					}
					number++
					tokens = append(tokens, grant.Token)
					errs, err := s.Release(background, []store.Release{{Name: "number", Holder: claim.Holder, Token: grant.Token, Retain: store.Forever}})
					if err := errors.Join(append(errs, err)...); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range processes {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if number != processes*each {
		t.Errorf("counted to %d, want %d", number, processes*each)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Fatalf("token %d after %d", tokens[i], tokens[i-1])
		}
	}
}

// TestRemovalOfAChangedRecord: a record that was written since it was read is not removed: what wrote it may hold the name.
func TestRemovalOfAChangedRecord(t *testing.T) {
	s := open(t, config(shared(t).Addr), hazelcaststore.Config{Map: fresh()})
	records := hazelcaststore.Backend(s)
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	read := func() string {
		items, err := records.Read(background, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		return items[0].Version
	}
	remove := func(version string) error {
		results, err := records.Write(background, []casstore.Change{{Name: "a", Version: version}})
		if err != nil {
			t.Fatal(err)
		}
		return results[0].Err
	}
	before := read()
	if err := extend(background, s, "a", grant.Token); err != nil {
		t.Fatal(err)
	}
	if err := remove(before); !errors.Is(err, casstore.ErrConflict) {
		t.Errorf("removing what is not there any more: %v, want a conflict", err)
	}
	if err := extend(background, s, "a", grant.Token); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if err := remove(read()); err != nil {
		t.Errorf("removing what is there: %v", err)
	}
}

// TestExpiringEntriesAtOnce: no name of a batch, and no process of several, is granted one in a map whose entries expire, whatever is removed by another one between two looks. A lease whose entry could not be looked at is not told as granted.
func TestExpiringEntriesAtOnce(t *testing.T) {
	m := shared(t)
	entries := m.entries(t, "expiring")
	empty := func() {
		t.Helper()
		if err := entries.Clear(background); err != nil {
			t.Fatal(err)
		}
	}
	empty()
	t.Cleanup(empty)
	claims := make([]store.Claim, 200)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprint("name ", i), Holder: "x", TTL: time.Hour}
	}
	outcomes, err := open(t, config(m.Addr), hazelcaststore.Config{Map: "expiring"}).Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if !errors.Is(o.Err, store.ErrUnusable) || errors.Is(o.Err, store.ErrUnknown) {
			t.Fatalf("%s, which is one of many: %+v, want that the map cannot be used", claims[i].Name, o)
		}
	}
	if n, err := entries.Size(background); n != 0 || err != nil {
		t.Errorf("%d entries are left, %v", n, err)
	}

	const messages = 5 // the entry is written and read, and one is written, read and removed to see what becomes of all
	for nth := int64(1); nth <= messages; nth++ {
		for _, key := range []string{"\x01expiry", "a"} {
			empty()
			p, sent := newProxy(t, m.Addr), atomic.Int64{}
			p.each = func() storetest.Fate {
				if sent.Add(1) == nth {
					if _, err := entries.Remove(background, key); err != nil {
						t.Error(err)
					}
				}
				return storetest.Carried
			}
			grant, err := acquire(background, open(t, p.config(), hazelcaststore.Config{Map: "expiring"}), "a")
			if err == nil {
				t.Errorf("granted %+v, while the entry %q was removed before message %d", grant, key, nth)
			}
			if n := sent.Load(); n < nth {
				t.Errorf("%d messages were sent, want at least %d", n, nth)
			}
			if n, err := entries.Size(background); n != 0 || err != nil {
				t.Errorf("%d entries are left, %v, when the entry %q was removed before message %d", n, err, key, nth)
			}
		}
	}

	empty()
	p, sent := newProxy(t, m.Addr), atomic.Int64{}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	p.each = func() storetest.Fate {
		if sent.Add(1) == 2 { // the look at the entry
			cancel()
		}
		return storetest.Carried
	}
	if grant, err := acquire(ctx, open(t, p.config(), hazelcaststore.Config{Map: "expiring"}), "a"); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v, want that it is not known: the entry could not be looked at", grant, err)
	}
}
