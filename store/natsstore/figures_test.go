package natsstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A meter counts the messages that a connection has sent and received.
type meter struct{ nc *nats.Conn }

func (m meter) count(f func()) (out, in uint64) {
	before := m.nc.Stats()
	f()
	after := m.nc.Stats()
	return after.OutMsgs - before.OutMsgs, after.InMsgs - before.InMsgs
}

// TestRequests: what each verb costs.
func TestRequests(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s, other := made(t, js, natsstore.Config{Bucket: bucket}), open(t, js, natsstore.Config{Bucket: bucket})
	for _, s := range []*natsstore.Store{s, other} { // they look at the bucket
		if err := s.Ping(background); err != nil {
			t.Fatal(err)
		}
	}
	m := meter{js.Conn()}
	var g store.Grant
	var err error
	for _, step := range []struct {
		what     string
		requests uint64
		do       func()
	}{
		{"a name that this process has not seen", 2, func() { g, err = acquire(background, s, "a", "x", time.Hour) }},
		{"a renewal", 1, func() { err = extend(background, s, "a", "x", g.Token, time.Hour) }},
		{"a release", 1, func() { err = release(background, s, "a", "x", g.Token) }},
		{"a name that was released here", 1, func() { g, err = acquire(background, s, "a", "y", time.Hour) }},
	} {
		out, in := m.count(step.do)
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if out != step.requests || in != step.requests {
			t.Errorf("%s: %d messages and %d replies, want %d", step.what, out, in, step.requests)
		}
	}
	written := sequence(t, js, bucket)
	for _, s := range []*natsstore.Store{s, other} {
		if out, in := m.count(func() { _, _ = acquire(background, s, "a", "z", time.Hour) }); out != 1 || in != 1 {
			t.Errorf("a refusal: %d messages and %d replies, want one", out, in)
		}
	}
	if now := sequence(t, js, bucket); now != written {
		t.Errorf("%d messages were written by refusals", now-written)
	}
}

// TestManyLeases: 10,001 leases are extended with eleven replies, ten of them for an atomic batch of a thousand
// messages each, and the next extension finds all of them as they are.
func TestManyLeases(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	const n = 10_001 // the last one is alone
	claims := make([]store.Claim, n)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprint(i), Holder: "x", TTL: time.Hour}
	}
	start := time.Now()
	outcomes, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	acquired := time.Since(start)
	extensions := make([]store.Extension, n)
	for i, o := range outcomes {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		extensions[i] = store.Extension{Name: claims[i].Name, Holder: "x", Token: o.Grant.Token, TTL: time.Hour}
	}
	for range 2 {
		start = time.Now()
		out, in := meter{js.Conn()}.count(func() {
			errs, err := s.Extend(background, extensions)
			if err != nil {
				t.Fatal(err)
			}
			for i, err := range errs {
				if err != nil {
					t.Fatalf("lease %d: %v", i, err)
				}
			}
		})
		t.Logf("acquired in %v, extended in %v with %d messages and %d replies", acquired, time.Since(start), out, in)
		if out != n || in != n/1000+1 {
			t.Errorf("%d leases were extended with %d messages and %d replies, want %d replies", n, out, in, n/1000+1)
		}
	}
}

// threeLeases takes the names a, b and c, and returns extensions of what it was granted.
func threeLeases(t *testing.T, s *natsstore.Store) []store.Extension {
	t.Helper()
	var extensions []store.Extension
	for _, name := range []string{"a", "b", "c"} {
		g, err := acquire(background, s, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: g.Token, TTL: time.Hour})
	}
	return extensions
}

// TestFewLeases: a server commits each atomic batch to its disk. Few changes are published one by one, unless each message is committed anyway.
func TestFewLeases(t *testing.T) {
	js := connect(t, shared(t).Addr)
	for synced, replies := range map[bool]uint64{false: 3, true: 1} {
		s := made(t, js, natsstore.Config{Bucket: fresh(), Synced: synced})
		extensions := threeLeases(t, s)
		var errs []error
		var err error
		out, in := meter{js.Conn()}.count(func() { errs, err = s.Extend(background, extensions) })
		if err = errors.Join(append(errs, err)...); err != nil || out != 3 || in != replies {
			t.Errorf("synced %v: %d messages and %d replies, %v; want 3 and %d", synced, out, in, err, replies)
		}
	}
}

// TestBucketWithoutBatches: where a bucket takes no atomic batches each lease is extended by itself, until Migrate has
// changed that.
func TestBucketWithoutBatches(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	made(t, js, natsstore.Config{Bucket: bucket})
	cfg := streamOf(t, js, bucket)
	cfg.AllowAtomicPublish = false
	if _, err := js.UpdateStream(background, cfg); err != nil {
		t.Fatal(err)
	}
	s := open(t, js, natsstore.Config{Bucket: bucket, Synced: true})
	extensions := threeLeases(t, s)
	for _, replies := range []uint64{3, 1} {
		var errs []error
		var err error
		out, in := meter{js.Conn()}.count(func() { errs, err = s.Extend(background, extensions) })
		if err = errors.Join(append(errs, err)...); err != nil || out != 3 || in != replies {
			t.Errorf("%d messages and %d replies, %v; want 3 and %d", out, in, err, replies)
		}
		if _, err := s.Migrate(background); err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(background); err != nil { // looks at the bucket
			t.Fatal(err)
		}
	}
}

// TestBatchWithAConflict: one lease that is lost does not keep others in its batch from being extended.
func TestBatchWithAConflict(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s, other := made(t, js, natsstore.Config{Bucket: bucket, Synced: true}), open(t, js, natsstore.Config{Bucket: bucket})
	extensions := threeLeases(t, s)
	if err := release(background, other, "b", "x", extensions[1].Token); err != nil {
		t.Fatal(err)
	}
	errs, err := s.Extend(background, extensions)
	if err != nil || errs[0] != nil || errs[1] != store.ErrLost || errs[2] != nil { //nolint:errorlint // it is that value
		t.Errorf("got %v, %v, want that b alone is lost", errs, err)
	}
	if errs, err = s.Extend(background, extensions[:1]); err != nil || errs[0] != nil {
		t.Errorf("then %v, %v", errs, err)
	}
}

// TestSubscriptions: a watch has two subscriptions for each name, and Close ends them.
func TestSubscriptions(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	before := js.Conn().NumSubscriptions()
	wake, err := s.Watch(t.Context(), []string{"a", "a"})
	if err != nil {
		t.Fatal(err)
	}
	if n := js.Conn().NumSubscriptions() - before; n != 3 {
		t.Errorf("a watch has %d subscriptions, want two of the name and one of the leader's election", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-wake; open {
		t.Error("a watch has sent a value when the store was closed")
	}
	if n := js.Conn().NumSubscriptions() - before; n != 0 {
		t.Errorf("after Close there are %d subscriptions more", n)
	}
}

// TestHandOver: a release wakes waiters of another process, and a renewal does not.
func TestHandOver(t *testing.T) {
	addr, bucket := shared(t).Addr, fresh()
	s, other := made(t, connect(t, addr), natsstore.Config{Bucket: bucket}), open(t, connect(t, addr), natsstore.Config{Bucket: bucket})
	g, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	wake, err := other.Watch(t.Context(), []string{"b", "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := extend(background, s, "a", "x", g.Token, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := release(background, s, "a", "x", g.Token); err != nil {
		t.Fatal(err)
	}
	woken(t, wake)
	if _, err := acquire(background, other, "a", "y", time.Hour); err != nil {
		t.Errorf("after the first value: %v", err)
	}
}

// TestEndedWatchIsNotDrawn: a watch whose context has ended before a release of the same process is not the one that the server chooses, however late it
// comes to its end: nobody would hear of the release before a while has passed.
func TestEndedWatchIsNotDrawn(t *testing.T) {
	addr, bucket := shared(t).Addr, fresh()
	s, other := made(t, connect(t, addr), natsstore.Config{Bucket: bucket}), open(t, connect(t, addr), natsstore.Config{Bucket: bucket})
	natsstore.OnlyDrawn(other)
	wake, err := other.Watch(t.Context(), []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	for range 30 { // the server chooses by chance
		g, err := acquire(background, s, "a", "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(background)
		for range 10 {
			if _, err := s.Watch(ctx, []string{"a"}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := release(background, s, "a", "x", g.Token); err != nil {
			t.Fatal(err)
		}
		woken(t, wake)
	}
}

// TestShorterLeaseWakes: who was not chosen, and hears that somebody has the name for a shorter time than the lease
// that it was refused by, looks at once when that can end.
func TestShorterLeaseWakes(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	holder := made(t, js, natsstore.Config{Bucket: bucket})
	s := open(t, connect(t, shared(t).Addr), natsstore.Config{Bucket: bucket})
	natsstore.OnlyDrawn(s)
	g, err := acquire(background, holder, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(background, s, "a", "y", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Fatal(err)
	}
	wake, err := s.Watch(t.Context(), []string{"b", "a"})
	if err != nil {
		t.Fatal(err)
	}
	subject, chosen := "soloist.stored."+bucket+".a", make(chan struct{}, 1)
	rival, err := js.Conn().QueueSubscribe(subject, "soloist", func(m *nats.Msg) {
		if m.Header.Get("Soloist-Released") != "" {
			chosen <- struct{}{}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rival.Unsubscribe() }()
	at := g.Token
	report := func(header, value string) { // as the server does
		at++
		m := nats.NewMsg(subject)
		m.Header.Set("Nats-Sequence", fmt.Sprint(at))
		m.Header.Set(header, value)
		if err := js.Conn().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for others := false; !others; { // the server chooses by chance
		report("Soloist-Released", "1")
		select {
		case <-chosen:
			others = true
		case <-wake:
		case <-time.After(servers.Patience):
			t.Fatal("the server has chosen nobody")
		}
	}
	report("Soloist-TTL", fmt.Sprint(int64(time.Minute)))
	woken(t, wake)
}

// TestElectionWakes: a new leader of the bucket may not have reported what the one before it has stored, so waiters look again.
func TestElectionWakes(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	wake, err := s.Watch(t.Context(), []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Publish("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.KV_"+bucket, []byte("{}")); err != nil { // as the server reports it
		t.Fatal(err)
	}
	woken(t, wake)
}

// TestLostConnectionEndsWatches: what was released while the connection was lost is not reported later, so a watch ends with it.
func TestLostConnectionEndsWatches(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	wake, err := s.Watch(t.Context(), []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	ended := false
	servers.Wait(t, "the watch to end", func() bool {
		select {
		case _, ok := <-wake:
			ended = ended || !ok
		default:
		}
		return ended
	})
}

// A hooked context lets a test go first, each time when somebody asks for its deadline.
type hooked struct {
	context.Context

	first func()
}

func (h hooked) Deadline() (time.Time, bool) {
	h.first()
	return h.Context.Deadline()
}

// TestConnectionLostWhileSubscribing: a watch whose connection is lost and made again before it has begun ends at once: what was released in between is not reported.
func TestConnectionLostWhileSubscribing(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	earlier, err := s.Watch(t.Context(), []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	before, lost := js.Conn().NumSubscriptions(), false
	ctx := hooked{t.Context(), func() {
		if lost || js.Conn().NumSubscriptions() == before {
			return // it has not subscribed
		}
		lost = true
		if err := js.Conn().ForceReconnect(); err != nil {
			t.Error(err)
		}
		for range earlier { // until the store has noticed
		}
	}}
	wake, err := s.Watch(ctx, []string{"a"})
	if err != nil || !lost {
		t.Fatalf("the connection was lost: %t, %v", lost, err)
	}
	for range 30 { // one that has ended may still pass on a value or two
		if err := js.Conn().Publish("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.KV_"+bucket, []byte("{}")); err != nil { // which wakes
			t.Fatal(err)
		}
		select {
		case _, open := <-wake:
			if !open {
				return
			}
		case <-time.After(servers.Patience):
			t.Fatal("the watch is silent, and has not ended")
		}
	}
	t.Error("the watch goes on")
}

// TestWatchThatFails: nothing is left of a watch that could not begin: the server would go on choosing it.
func TestWatchThatFails(t *testing.T) {
	l := newLiar(t, shared(t).Addr)
	js := connect(t, l.Addr().String())
	s := made(t, js, natsstore.Config{Bucket: fresh()})
	if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	before := js.Conn().NumSubscriptions()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	silent := func(payload []byte) []byte {
		if !bytes.Contains(payload, []byte("stream_msg_get_response")) {
			return payload
		}
		cancel()
		return nil
	}
	l.lie.Store(&silent)
	if _, err := s.Watch(ctx, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context has ended", err)
	}
	if n := js.Conn().NumSubscriptions() - before; n != 0 {
		t.Errorf("there are %d subscriptions more", n)
	}
}

// woken waits for a value of a watch.
func woken(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case _, ok := <-wake:
		if !ok {
			t.Fatal("the watch has ended")
		}
	case <-time.After(servers.Patience):
		t.Fatal("nobody was woken")
	}
}

// TestCrowd: what a change of the owner costs while sixteen processes wait for a name. It cost 27 messages when each release had all of them claim. Here nobody but the one that the
// server has chosen claims, however long that takes: so a release of which the chosen one did not hear, or for which the server chose one that has ended, would stop them all.
func TestCrowd(t *testing.T) {
	servers.Long(t)
	addr, bucket := shared(t).Addr, fresh()
	stores, meters := make([]store.Store, 16), make([]meter, 16)
	for i := range stores {
		js := connect(t, addr)
		of := open
		if i == 0 {
			of = made
		}
		s := of(t, js, natsstore.Config{Bucket: bucket})
		natsstore.OnlyDrawn(s)
		stores[i], meters[i] = s, meter{js.Conn()}
	}
	servers.CrowdCosts(t, stores, 300, 18, func() (messages float64) { // some six
		for _, m := range meters {
			messages += float64(m.nc.Stats().OutMsgs)
		}
		return messages
	})
}

// TestDrawn: a release wakes one of several processes, and another one when that one is gone, or does not claim the name.
func TestDrawn(t *testing.T) {
	addr, bucket := shared(t).Addr, fresh()
	s := made(t, connect(t, addr), natsstore.Config{Bucket: bucket})
	var all []<-chan struct{}
	links := make([]jetstream.JetStream, 3)
	for i := range links {
		links[i] = connect(t, addr)
		w, err := open(t, links[i], natsstore.Config{Bucket: bucket}).Watch(t.Context(), []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	g, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(background, s, "a", "x", g.Token); err != nil {
		t.Fatal(err)
	}
	first := 0
	select {
	case <-all[0]:
	case <-all[1]:
		first = 1
	case <-all[2]:
		first = 2
	case <-time.After(servers.Patience):
		t.Fatal("nobody was woken")
	}
	links[first].Conn().Close() // it dies before it claims
	for i, w := range all {
		if i != first {
			woken(t, w)
		}
	}
}
