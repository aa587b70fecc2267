package etcdstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A watching server begins each watch that it is asked for, and sends what the test gives it. There is no network to it.
type watching struct {
	ctx     context.Context
	begun   int64
	replies chan *etcdserverpb.WatchResponse
	silent  atomic.Bool   // the watches that are asked for from then on do not begin
	ignored chan struct{} // each of those
}

func (s *watching) open(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s.ctx = ctx
	return s, nil
}

func (s *watching) Header() (metadata.MD, error) { return nil, nil }
func (s *watching) Trailer() metadata.MD         { return nil }
func (s *watching) CloseSend() error             { return nil }
func (s *watching) Context() context.Context     { return s.ctx }

func (s *watching) SendMsg(request any) error {
	if request.(*etcdserverpb.WatchRequest).GetCreateRequest() != nil { //nolint:forcetypeassert // of the only stream
		if s.silent.Load() {
			s.ignored <- struct{}{}
			return nil
		}
		s.replies <- &etcdserverpb.WatchResponse{WatchId: s.begun, Created: true}
		s.begun++
	}
	return nil
}

func (s *watching) RecvMsg(reply any) error {
	select {
	case next := <-s.replies:
		r := reply.(*etcdserverpb.WatchResponse) //nolint:forcetypeassert // of the only stream
		r.Header = &etcdserverpb.ResponseHeader{Revision: 1}
		r.WatchId, r.Created, r.Canceled, r.CancelReason = next.WatchId, next.Created, next.Canceled, next.CancelReason
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// store returns a store and its client, whose watches the server replies to.
func (s *watching) store(t *testing.T) (*clientv3.Client, *Store) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(s.open)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	made, err := New(client, Config{Prefix: "test/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return client, made
}

// TestWatchEndsWithTheServers: when etcd ends the watch of one name, or that of the sessions, the watch of all the names that a caller waits for is lost, and nothing is left of it.
func TestWatchEndsWithTheServers(t *testing.T) {
	for id, what := range []string{"the sessions", "a name"} {
		t.Run(what, func(t *testing.T) {
			server := &watching{replies: make(chan *etcdserverpb.WatchResponse, 10)}
			_, s := server.store(t)
			ended, err := s.Watch(t.Context(), []string{"a", "b"})
			if err != nil {
				t.Fatal(err)
			}
			server.replies <- &etcdserverpb.WatchResponse{WatchId: int64(id), Canceled: true, CancelReason: "a test"}
			servers.Wait(t, "the end of the watch", func() bool {
				select {
				case _, open := <-ended:
					return !open
				default:
					return false
				}
			})
			s.watches.mu.Lock()
			defer s.watches.mu.Unlock()
			if n := len(s.watches.names); n > 0 {
				t.Errorf("%d names are still watched, and nobody waits for them", n)
			}
		})
	}
}

// A pausing client lets a test go first, each time when a store asks for it.
type pausing struct {
	given
	first func()
}

func (p *pausing) get(ctx context.Context) (*clientv3.Client, error) {
	p.first()
	return p.given.get(ctx)
}

// TestWatchOfSessionsEndsBeforeThereIsAName: a watch of a name that begins just when etcd has ended the watch of the sessions is lost, too: it would hear of no lease that expires.
func TestWatchOfSessionsEndsBeforeThereIsAName(t *testing.T) {
	server := &watching{replies: make(chan *etcdserverpb.WatchResponse, 10)}
	client, s := server.store(t)
	<-client.Watch(clientv3.WithRequireLeader(t.Context()), "another", clientv3.WithCreatedNotify()) // which keeps their stream open
	asked, first := 0, func() {}
	s.clients = &pausing{given{client}, func() { asked++; first() }}
	before, err := s.Watch(t.Context(), []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	asked, first = 0, func() {
		if asked == 2 { // the watch of the sessions was seen to run, and the name is not there yet
			server.replies <- &etcdserverpb.WatchResponse{WatchId: 1, Canceled: true, CancelReason: "a test"}
			for range before { // until its end
			}
		}
	}
	ended, err := s.Watch(t.Context(), []string{"b"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case _, open := <-ended:
		if open {
			t.Error("the watch has a value")
		}
	default:
		t.Error("the watch goes on, and nothing reports the ends of sessions")
	}
}

// TestLateEvents: what a watch reports later than a reply has shown it, or something after it, changes nothing in what is known of a name.
func TestLateEvents(t *testing.T) {
	value := func(holder, session string) []byte {
		text, err := record{Holder: holder, TTL: time.Hour, Session: session}.encode()
		if err != nil {
			t.Fatal(err)
		}
		return []byte(text)
	}
	s := &Store{}
	s.sights.see("a", pairOf("a", []*mvccpb.KeyValue{{Value: value("x", "1.x"), ModRevision: 7}}, presence{all: true, there: map[string]bool{"1.x": true}}))
	event := func(kind mvccpb.Event_EventType, holder, session string, revision int64) (pair, bool) {
		freed := s.changed("a", []*clientv3.Event{{Type: kind, Kv: &mvccpb.KeyValue{Value: value(holder, session), ModRevision: revision}}})
		p, _ := s.sights.of("a")
		return p, freed
	}
	for _, revision := range []int64{5, 7} {
		for _, kind := range []mvccpb.Event_EventType{mvccpb.PUT, mvccpb.DELETE} {
			if p, _ := event(kind, "y", "", revision); p.record.Holder != "x" || p.revision != 7 || !p.taken {
				t.Errorf("after a %v at the revision %d the name is known as %+v, want it as the reply at the revision 7 has shown it", kind, revision, p)
			}
		}
	}
	if p, freed := event(mvccpb.PUT, "x", "", 8); p.taken || p.record.Holder != "x" || !freed {
		t.Errorf("after a release at the revision 8 the name is known as %+v, and waiters are told: %v", p, freed)
	}
	if p, freed := event(mvccpb.PUT, "y", "2.y", 9); !p.taken || p.record.Holder != "y" || p.revision != 9 || freed {
		t.Errorf("after a grant at the revision 9 it is known as %+v, and waiters are told: %v", p, freed)
	}
	s.vanished("3.z") // each watch reports in its own order
	if p, freed := event(mvccpb.PUT, "z", "3.z", 8); p.revision != 9 || !freed {
		t.Errorf("after a grant in a session that has ended the name is known as %+v, and waiters are told: %v", p, freed)
	}
	s.vanished("2.y")
	if p, _ := s.sights.of("a"); p.taken {
		t.Errorf("after the end of the holder's session it is known as %+v", p)
	}
	if p := s.sights.see("a", pairOf("a", []*mvccpb.KeyValue{{Value: value("y", "2.y"), ModRevision: 9}}, presence{})); p.taken || p.unsure {
		t.Errorf("a reply from before that end, which comes after it, makes the name %+v", p)
	}
}

// A watch that etcd's client ends without a reason before it began has not been cancelled by anybody, and its error does not say so.
func TestWatchThatEndsBeforeItBegan(t *testing.T) {
	replies := make(chan clientv3.WatchResponse)
	close(replies)
	all := &watches{names: map[string]*watched{}}
	of := &watched{cancel: func() {}, begun: make(chan struct{})}
	all.follow("name", of, replies, func([]*clientv3.Event) bool { return false })
	<-of.begun
	if of.err == nil || errors.Is(of.err, context.Canceled) {
		t.Errorf("got %v", of.err)
	}
}

// TestIdleNameThatIsWatchedAgain: a name that nobody waits for is watched for a while. If somebody waits for it again meanwhile, its watch does not end with that while.
func TestIdleNameThatIsWatchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{ctx: t.Context(), clients: given{}}
		s.turns.idle = idleTurns
		begun := 0
		by := func(ctx context.Context, _ *clientv3.Client, name string, of *watched) {
			begun++
			replies := make(chan clientv3.WatchResponse, 1)
			replies <- clientv3.WatchResponse{Created: true}
			context.AfterFunc(ctx, func() { close(replies) })
			s.turns.follow(name, of, replies, func([]*clientv3.Event) bool { return false })
		}
		first, stop := context.WithCancel(t.Context())
		if _, err := s.watch(first, &s.turns, by, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		stop()
		time.Sleep(idleTurns / 2)
		again, stop := context.WithCancel(t.Context())
		woken, err := s.watch(again, &s.turns, by, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * idleTurns)
		select {
		case <-woken:
			t.Error("the watch has ended, and somebody waits for the name")
		default:
		}
		stop()
		time.Sleep(2 * idleTurns)
		s.work.Wait()
		s.turns.mu.Lock()
		defer s.turns.mu.Unlock()
		if begun != 1 || len(s.turns.names) != 0 || s.turns.idling != 0 {
			t.Errorf("%d watches were begun, want one; %d names are watched and %d are idle, although nobody waits", begun, len(s.turns.names), s.turns.idling)
		}
	})
}

// TestLostWatchIsNotOpen: those who are told that a watch was lost find that it does not run, and so does everybody who begins to wait from then on.
func TestLostWatchIsNotOpen(t *testing.T) {
	server := &watching{replies: make(chan *etcdserverpb.WatchResponse, 10)}
	client, s := server.store(t)
	w := standing{opening: make(chan struct{}, 1)}
	told := make(chan bool, 1)
	err := s.begin(t.Context(), client, &w, watcher{from: "a", lost: func() { told <- w.isOpen() }})
	if err != nil || !w.isOpen() {
		t.Fatalf("the watch runs: %v, %v", w.isOpen(), err)
	}
	server.replies <- &etcdserverpb.WatchResponse{Canceled: true, CancelReason: "a test"}
	select {
	case open := <-told:
		if open {
			t.Error("a waiter that begins while the others are told that the watch was lost believes that it is watched")
		}
	case <-time.After(servers.Patience):
		t.Error("nobody is told that the watch was lost")
	}
}

// TestBegunWatchIsOpen: who is told that a standing watch has begun finds it open, and does not begin another one.
func TestBegunWatchIsOpen(t *testing.T) {
	server := &watching{replies: make(chan *etcdserverpb.WatchResponse, 10)}
	client, s := server.store(t)
	ctx, cancel := context.WithCancel(t.Context())
	w, begun, ended := standing{opening: make(chan struct{}, 1)}, make(chan error, 1), make(chan struct{})
	defer func() { cancel(); <-ended }()
	w.mu.Lock() // it cannot be set open
	go func() {
		defer close(ended)
		w.run(ctx, client, watcher{from: "a", lost: func() {}}, begun)
	}()
	select {
	case <-begun:
		w.mu.Unlock()
		t.Fatal("somebody is told that the watch has begun before it is open")
	case <-time.After(late): // nothing else shows that nobody is told
	}
	w.mu.Unlock()
	if err := <-begun; err != nil || !w.isOpen() {
		t.Errorf("the watch is open: %v, %v", w.isOpen(), err)
	}
	short, stop := context.WithTimeout(ctx, 10*time.Second) // another one would have to wait for that
	defer stop()
	if err := s.begin(short, client, &w, watcher{from: "a", lost: func() {}}); err != nil || server.begun != 1 {
		t.Errorf("%d watches were begun, %v, want one", server.begun, err)
	}
}

// Scripted watches of one name begin at once, and end when the test ends them.
type scripted struct {
	s       *Store
	replies []chan clientv3.WatchResponse // of each watch
}

func (w *scripted) follow(_ context.Context, _ *clientv3.Client, name string, of *watched) {
	replies := make(chan clientv3.WatchResponse, 1)
	replies <- clientv3.WatchResponse{Created: true}
	w.replies = append(w.replies, replies)
	w.s.turns.follow(name, of, replies, func([]*clientv3.Event) bool { return false })
}

// watch watches the name, until stop is called.
func (w *scripted) watch(t *testing.T) (woken <-chan struct{}, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	woken, err := w.s.watch(ctx, &w.s.turns, w.follow, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	return woken, func() { cancel(); synctest.Wait() }
}

func ended(woken <-chan struct{}) bool {
	synctest.Wait()
	select {
	case _, open := <-woken:
		return !open
	default:
		return false
	}
}

// TestWatchesThatEnd: the end of a watch is that of all who wait on it, and of nobody who waits on the next one for the same name.
func TestWatchesThatEnd(t *testing.T) {
	begin := func(t *testing.T, idle time.Duration) *scripted {
		w := &scripted{s: &Store{ctx: t.Context(), clients: given{}}}
		w.s.turns.idle = idle
		return w
	}
	t.Run("two wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := begin(t, 0)
			one, stopOne := w.watch(t)
			two, stopTwo := w.watch(t)
			defer stopOne()
			defer stopTwo()
			close(w.replies[0])
			if len(w.replies) != 1 || !ended(one) || !ended(two) {
				t.Errorf("after the end of one of %d watches somebody waits on it still", len(w.replies))
			}
		})
	})
	t.Run("late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := begin(t, 0)
			_, stop := w.watch(t)
			stop() // the client of etcd ends the watch a while later
			next, stop := w.watch(t)
			defer stop()
			close(w.replies[0])
			if ended(next) {
				t.Error("it ends the next one")
			}
			if w.s.turns.lost(); !ended(next) {
				t.Error("the next one goes on although all are lost")
			}
			close(w.replies[1])
		})
	})
	t.Run("while it was idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := begin(t, idleTurns)
			_, stop := w.watch(t)
			stop()
			close(w.replies[0])
			synctest.Wait()
			next, stop := w.watch(t)
			defer stop()
			time.Sleep(2 * idleTurns)
			w.s.turns.mu.Lock()
			if len(w.s.turns.names) != 1 || w.s.turns.idling != 0 {
				t.Errorf("%d names are watched and %d are idle, want only the one that is waited for", len(w.s.turns.names), w.s.turns.idling)
			}
			w.s.turns.mu.Unlock()
			if w.s.turns.lost(); !ended(next) {
				t.Error("the next one goes on although all are lost")
			}
			close(w.replies[1])
		})
	})
}

// TestWatchThatDoesNotBegin: who waits for the watch of a name, or for that of the sessions, to begin waits for it no
// longer than there is time, and no longer than the store is open. Nothing is left of the watch, and no other one
// begins on a store that is closed.
func TestWatchThatDoesNotBegin(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		for _, closes := range []bool{false, true} {
			server := &watching{replies: make(chan *etcdserverpb.WatchResponse, 10), ignored: make(chan struct{}, 10)}
			client, s := server.store(t)
			if !sessions { // their watch has begun
				ctx, cancel := context.WithCancel(t.Context())
				before, err := s.Watch(ctx, []string{"before"})
				if err != nil {
					t.Fatal(err)
				}
				cancel()
				for range before { // until its end
				}
			}
			server.silent.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed, want := make(chan error, 1), context.Canceled
			go func() { _, err := s.Watch(ctx, []string{"a", "b"}); failed <- err }()
			<-server.ignored
			if closes {
				want = store.ErrClosed
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				cancel()
			}
			if err := <-failed; !errors.Is(err, want) || errors.Is(err, store.ErrClosed) != closes {
				t.Errorf("of the sessions: %v, the store is closed: %v: got %v, want %v", sessions, closes, err, want)
			}
			s.watches.mu.Lock()
			if n := len(s.watches.names); n > 0 || s.vanish.isOpen() != (!sessions && !closes) {
				t.Errorf("of the sessions: %v, and closed: %v: %d names are watched still, and the sessions: %v",
					sessions, closes, n, s.vanish.isOpen())
			}
			s.watches.mu.Unlock()
			if !closes {
				continue
			}
			if err := s.begin(t.Context(), client, &standing{opening: make(chan struct{}, 1)}, watcher{from: "a",
				lost: func() {}}); !errors.Is(err, store.ErrClosed) {
				t.Errorf("a standing watch of a store that is closed: %v", err)
			}
			if _, err := s.subscribe(client, &s.watches, s.follow, &wake{names: []string{"a"}}); !errors.Is(err,
				store.ErrClosed) || len(s.watches.names) > 0 {
				t.Errorf("a watch of a name of a store that is closed: %v, and %d are watched", err,
					len(s.watches.names))
			}
		}
	}
}

// TestWatchThatAnotherBegins: who waits until somebody else has begun a standing watch waits no longer than there is
// time.
func TestWatchThatAnotherBegins(t *testing.T) {
	server := &watching{replies: make(chan *etcdserverpb.WatchResponse, 10)}
	client, s := server.store(t)
	w := standing{opening: make(chan struct{}, 1)}
	w.opening <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.begin(ctx, client, &w, watcher{from: "a", lost: func() {}}); !errors.Is(err, context.Canceled) ||
		w.isOpen() || server.begun > 0 {
		t.Errorf("%v, %d watches were begun, want that its time is over", err, server.begun)
	}
	<-w.opening
	if err := s.begin(t.Context(), client, &w, watcher{from: "a", lost: func() {}}); err != nil || !w.isOpen() {
		t.Errorf("the next one: %v, it is open: %v", err, w.isOpen())
	}
}
