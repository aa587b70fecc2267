package etcdstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/test/servers"
)

// A tardy server grants leases of ten seconds, keeps them alive, and replies late. There is no network to it.
type tardy struct {
	grpc.ClientStream
	ctx context.Context

	mu    sync.Mutex
	asked time.Time // when the last request arrived
	ttl   int64     // that was asked for last

	reads chan struct{}            // unless it is nil, each read is told here, and never answered
	txn   *etcdserverpb.TxnRequest // the last one

	lasting bool  // a lease is granted for as long as is asked for,
	less    int64 // or for so many seconds less, as if the reply was so late
	silent  bool  // nothing is kept alive, and not refused either
	ended   bool  // it has no lease any more
	off     int64 // by how much its replies about a lease that is kept alive name another one
	breaks  bool  // each stream, after its first reply
	replied bool  // on the latest stream
}

const (
	late    = 100 * time.Millisecond
	granted = 10
)

func (s *tardy) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
}

// call replies to a request that is no stream.
func (s *tardy) call(ctx context.Context, _ string, request, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	switch r := reply.(type) {
	case *etcdserverpb.LeaseGrantResponse:
		s.arrived()
		s.mu.Lock()
		s.ttl = request.(*etcdserverpb.LeaseGrantRequest).TTL //nolint:forcetypeassert // of the reply
		s.mu.Unlock()
		time.Sleep(late)
		r.Header, r.ID, r.TTL = &etcdserverpb.ResponseHeader{}, 1, granted
		if s.lasting {
			r.TTL = request.(*etcdserverpb.LeaseGrantRequest).TTL - s.less //nolint:forcetypeassert // of the reply
		}
	case *etcdserverpb.RangeResponse:
		if s.reads != nil {
			s.reads <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
	case *etcdserverpb.PutResponse:
		r.Header = &etcdserverpb.ResponseHeader{Revision: 2}
	case *etcdserverpb.TxnResponse:
		s.mu.Lock()
		s.txn, _ = request.(*etcdserverpb.TxnRequest)
		s.mu.Unlock()
		r.Header, r.Succeeded = &etcdserverpb.ResponseHeader{Revision: 2}, true
		for range s.txn.Success {
			r.Responses = append(r.Responses, &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: &etcdserverpb.RangeResponse{}}})
		}
	}
	return nil
}

func (s *tardy) open(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s.ctx, s.replied = ctx, false
	return s, nil
}

func (s *tardy) SendMsg(any) error {
	s.arrived()
	return nil
}

func (s *tardy) RecvMsg(reply any) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if s.silent {
		<-s.ctx.Done()
		return status.FromContextError(s.ctx.Err()).Err()
	}
	if s.breaks && s.replied {
		return status.Error(codes.Unavailable, "the connection is lost")
	}
	s.replied = true
	time.Sleep(late)
	r := reply.(*etcdserverpb.LeaseKeepAliveResponse) //nolint:forcetypeassert // of the only stream
	r.ID, r.TTL = 1+s.off, granted
	if s.ended {
		r.TTL = 0
	}
	return nil
}

// store returns a store of the server.
func (s *tardy) store(t testing.TB) *Store {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(s.call), grpc.WithChainStreamInterceptor(s.open)},
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := New(client, Config{Prefix: "test/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = made.Close(), client.Close() })
	return made
}

// session returns such a store with a session for a second, which nothing keeps alive in the background.
func (s *tardy) session(t testing.TB) (*Store, *session) {
	t.Helper()
	of := s.store(t)
	of.renewing = true
	now, err := of.session(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return of, now
}

// Until when etcd keeps a lease is counted from before the request, since etcd counts from when that arrives: it may reply much later.
func TestSessionsAreCountedFromTheRequest(t *testing.T) {
	server := &tardy{}
	s := server.store(t)
	check := func(what string, of *session) {
		t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		if end := server.asked.Add(granted * time.Second); of.bound.After(end) || of.wall.After(end) {
			t.Errorf("%s: it is counted on for %v longer than etcd keeps it", what, of.bound.Sub(end))
		}
	}
	s.renewing = true // nothing is kept alive in the background
	of, err := s.session(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	check("granted", of)
	if err := s.renew(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	check("kept alive", of)
}

// TestShorterSessionIsKeptAlive: a session that has to be kept alive sooner than those that were there before it is kept alive in time. Else a place in a queue that is attached to it would be lost.
func TestShorterSessionIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&tardy{lasting: true}).store(t)
		if _, err := s.session(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		short, err := s.session(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		s.attach(&place{}, short)
		for range 10 {
			time.Sleep(5 * time.Second)
			s.mu.Lock()
			if !short.lastsFor(0) {
				t.Error("the shorter session has ended, and a name waits in it")
			}
			s.mu.Unlock()
		}
	})
}

// TestSessionOfASlowServer: if etcd replies so late that a new lease is too short by then, a longer one is asked for.
func TestSessionOfASlowServer(t *testing.T) {
	server := &tardy{lasting: true, less: slackOf(1) + 1}
	s := server.store(t)
	if of, err := s.session(t.Context(), time.Second); err != nil || of.class != 1 || server.ttl <= 1+slackOf(1) {
		t.Errorf("got %+v, %v, after %d seconds were asked for", of, err, server.ttl)
	}
}

// TestSilentServerKeepsNothingAlive: a session that etcd does not say anything about is waited for no longer than the caller has time.
func TestSilentServerKeepsNothingAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &tardy{}
		s, of := server.session(t)
		if err := s.renew(t.Context(), of); err != nil { // opens the stream
			t.Fatal(err)
		}
		server.silent = true
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		begun := time.Now()
		if err := s.renew(ctx, of); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != patience {
			t.Errorf("after %v: %v, want that its time is over after %v", time.Since(begun), err, patience)
		}
		server.silent = false
		if err := s.renew(t.Context(), of); err != nil {
			t.Errorf("when it replies again: %v", err)
		}
	})
}

// TestStreamThatHasBroken: a stream over which leases of etcd were kept alive, and whose connection was lost since, is replaced by the request that finds that out: its lease
// is not reported as one that could not be kept.
func TestStreamThatHasBroken(t *testing.T) {
	s := (&tardy{breaks: true}).store(t)
	s.renewing = true // nothing is kept alive in the background
	of, err := s.session(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := s.renew(t.Context(), of); err != nil {
			t.Errorf("request %d: %v", i+1, err)
		}
	}
}

// TestReplyAboutAnotherLease: a reply that is about another lease of etcd than the request says nothing of how long the own one lasts.
func TestReplyAboutAnotherLease(t *testing.T) {
	server := &tardy{}
	s, of := server.session(t)
	before := of.bound
	server.off = 1
	if err := s.renew(t.Context(), of); err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) || of.gone || !of.bound.Equal(before) {
		t.Errorf("a lease is kept alive by the reply about another one for another %v: %v", of.bound.Sub(before), err)
	}
	server.off = 0
	if err := s.renew(t.Context(), of); err != nil || !of.bound.After(before) {
		t.Errorf("the next reply keeps it alive for another %v: %v", of.bound.Sub(before), err)
	}
}

// TestLingersAreCountedFromTheRequest: the same holds for the lease of etcd that lets a released name linger.
func TestLingersAreCountedFromTheRequest(t *testing.T) {
	server := &tardy{}
	s := server.store(t)
	l, err := s.linger(t.Context(), (granted-1)*time.Second+999*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if end := server.asked.Add(granted * time.Second); l.until.After(end) {
		t.Errorf("the linger is counted on for %v longer than etcd keeps its lease", l.until.Sub(end))
	}
}

// TestLingersByBothClocks: a suspend, in which the monotonic clock stands still and etcd's does not, has made a linger shorter: no other name gets it then. Nor
// does one get a linger that would last by the wall clock only, which somebody has set back.
func TestLingersByBothClocks(t *testing.T) {
	const d = 8 * time.Second
	for of, shorter := range map[string]struct{ until, wall time.Duration }{
		"a suspend":                 {0, 5 * time.Second},
		"a clock that was set back": {5 * time.Second, 0},
	} {
		server := &tardy{}
		s := server.store(t)
		linger := func() *linger {
			t.Helper()
			l, err := s.linger(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		before := linger()
		s.mu.Lock()
		end := time.Now().Add(d + sharing(d)) // however long that took
		before.until, before.wall = end.Add(-shorter.until), end.Round(0).Add(-shorter.wall)
		s.mu.Unlock()
		if linger() == before {
			t.Errorf("after %s a linger that etcd ends five seconds too soon is used again", of)
		}
	}
}

// TestLingersAreLongEnough: a name lingers for as long as it is to, also if the lease of etcd of a shorter linger is there, or etcd ends it.
func TestLingersAreLongEnough(t *testing.T) {
	server := &tardy{}
	s := server.store(t)
	for _, d := range []time.Duration{2600 * time.Millisecond, 5 * time.Second, 8600 * time.Millisecond} {
		begun := time.Now()
		l, err := s.linger(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		server.mu.Lock()
		if asked := time.Duration(server.ttl) * time.Second; l.until.Sub(begun) < d || asked < d {
			t.Errorf("a linger of %v ends after %v, and etcd was asked for %v", d, l.until.Sub(begun), asked)
		}
		server.mu.Unlock()
	}
}

// TestSweepsWaitNoLongerThanTheirTime: a sweep waits for another one of its process, which may have longer, no longer than its own time.
func TestSweepsWaitNoLongerThanTheirTime(t *testing.T) {
	server := &tardy{reads: make(chan struct{}, 9)}
	s := server.store(t)
	sweep := func(ctx context.Context) chan error {
		failed := make(chan error, 1)
		go func() {
			_, err := s.Sweep(ctx, 10)
			failed <- err
		}()
		return failed
	}
	long, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := sweep(long)
	<-server.reads
	short, cancelShort := context.WithTimeout(t.Context(), late)
	defer cancelShort()
	select {
	case err := <-sweep(short):
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that its time is over", err)
		}
	case <-time.After(servers.Patience):
		t.Error("a sweep whose time is over still waits for another one")
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first sweep: %v", err)
	}
}
