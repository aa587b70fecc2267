package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A stumble is how a request fails. The code is one for which the client of etcd does not repeat it.
type stumble struct {
	how     string
	carried bool // it is carried out, and the reply is lost
	err     error
	is      error // what the error of the operation is then; nil if it only is one
}

var stumbles = []stumble{
	{"is lost", false, status.Error(codes.Unknown, "lost"), nil},
	{"has no reply", true, status.Error(codes.Unknown, "the reply is lost"), nil},
	{"is too late", true, status.Error(codes.DeadlineExceeded, "too late"), context.DeadlineExceeded},
	{"is cancelled", false, status.Error(codes.Canceled, "cancelled"), context.Canceled},
	{"is not allowed", false, status.Error(codes.PermissionDenied, "etcdserver: permission denied"), fs.ErrPermission},
}

// A stumbling client lets one of its next requests fail: a call, the opening of a stream, or a message of one.
type stumbling struct {
	*clientv3.Client
	left atomic.Int64 // requests until then
	as   atomic.Pointer[stumble]
}

func (s *server) stumbling(t testing.TB) *stumbling {
	t.Helper()
	c := &stumbling{}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.URL}, DialTimeout: servers.Patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
				as := c.next()
				if as == nil {
					return invoke(ctx, method, request, reply, conn, options...)
				}
				if as.carried {
					if err := invoke(ctx, method, request, reply, conn, options...); err != nil {
						return err
					}
				}
				return as.err
			}),
			grpc.WithChainStreamInterceptor(func(ctx context.Context, of *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
				if as := c.next(); as != nil && !as.carried {
					return nil, as.err
				}
				stream, err := open(ctx, of, conn, method, options...)
				if err != nil {
					return nil, err
				}
				return &stumblingStream{ClientStream: stream, of: c, sends: strings.HasSuffix(method, "/LeaseKeepAlive")}, nil
			}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c.Client = client
	return c
}

// next returns how the request that is about to be sent fails, nil if it does not.
func (c *stumbling) next() *stumble {
	if as := c.as.Load(); as != nil && c.left.Add(-1) == 0 {
		c.as.Store(nil)
		return as
	}
	return nil
}

// A stumblingStream is one whose messages count as requests.
type stumblingStream struct {
	grpc.ClientStream
	of     *stumbling
	sends  bool // what is sent counts, too: nobody is receiving then
	broken atomic.Pointer[stumble]
}

// SendMsg fails as that of gRPC does: the reason is the error of RecvMsg.
func (s *stumblingStream) SendMsg(m any) error {
	var as *stumble
	if s.sends {
		as = s.of.next()
	}
	if as == nil {
		return s.ClientStream.SendMsg(m)
	}
	if as.carried {
		if err := s.ClientStream.SendMsg(m); err != nil {
			return err
		}
	}
	s.broken.Store(as)
	return io.EOF
}

func (s *stumblingStream) RecvMsg(m any) error {
	if as := s.broken.Load(); as != nil {
		return as.err
	}
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if as := s.of.next(); as != nil {
		return as.err
	}
	return nil
}

// An errand is an operation on a name, whose requests fail one after the other.
type errand struct {
	what   string
	before func(f *field)
	do     func(f *field) error // can be repeated
	done   func(f *field) bool  // as etcd has it; nil for what changes nothing
	after  func(f *field)       // checks what has come of it
	once   bool                 // it cannot be repeated when it was done
}

// A field is where an errand is tried.
type field struct {
	*testing.T
	server   *server
	below    string
	s, other *etcdstore.Store
	grant    store.Grant // of x
	heir     <-chan store.Outcome
	woken    <-chan struct{}
	missing  *etcdstore.Missing // the client of s, which can be that
}

func (f *field) take() {
	grant, err := acquire(background, f.s, "a", time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.grant = grant
}

// record returns the record of the name, as the other handle reads it.
func (f *field) record() (found store.Record) {
	for r, err := range f.other.List(background, "a") {
		if err != nil {
			f.Fatal(err)
		}
		found = r
	}
	return found
}

func (f *field) held() bool { r := f.record(); return r.Holder == "x" && !r.Free() }

func (f *field) extension(ttl time.Duration, mark int64) error {
	errs, err := f.s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: f.grant.Token, TTL: ttl, Mark: mark}})
	return errors.Join(append(errs, err)...)
}

func (f *field) releases(linger time.Duration) error {
	errs, err := f.s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: f.grant.Token, Linger: linger, Retain: 1}})
	return errors.Join(append(errs, err)...)
}

// keeps checks that x has the lease still.
func (f *field) keeps() {
	if !f.held() {
		f.Errorf("the lease is gone: %+v", f.record())
	}
}

// covered checks that etcd keeps what is held for as long as the store holds it.
func (f *field) covered() {
	if names := f.s.Uncovered(); len(names) > 0 {
		f.Errorf("held for longer than etcd keeps them: %q", names)
	}
}

// inLine waits until some wait for the name.
func (f *field) inLine(n int64) {
	servers.Wait(f, "a place in the queue", func() bool { return f.server.inQueue(f, f.below, "a") == n })
}

// deleted deletes the record of the name by hand, while by has it, and a key tells those who wait for it when its session ends.
func (f *field) deleted(by *etcdstore.Store) {
	if _, err := claimed(f, by, "a"); err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(background)
	waits := waiting(ctx, by, "a", "z")
	f.inLine(1)
	stop()
	<-waits
	if _, err := by.Leave(background, "a", "z"); err != nil {
		f.Fatal(err)
	}
	if _, err := f.server.client.Delete(background, f.below+"n/a\trecord"); err != nil {
		f.Fatal(err)
	}
}

// stand has x stand in the queue of the name until its context ends, which may be before etcd's reply has come: then it calls again, and its error is of all calls.
func (f *field) stand() (all error) {
	for within := 50 * time.Millisecond; ; within *= 2 {
		ctx, cancel := context.WithTimeout(background, within)
		_, _, err := f.s.Queue(ctx, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
		early := ctx.Err() != nil && within < servers.Patience
		cancel()
		switch {
		case errors.Is(err, store.ErrHeld):
			return nil
		case !early:
			return errors.Join(all, err)
		}
		all = errors.Join(all, err)
	}
}

var errands = []errand{
	{"a claim", nil, func(f *field) error { _, err := acquire(background, f.s, "a", time.Hour); return err }, (*field).held, nil, false},
	{"a claim after a release", func(f *field) {
		f.take()
		if err := f.releases(0); err != nil {
			f.Fatal(err)
		}
	}, func(f *field) error { _, err := acquire(background, f.s, "a", 3*time.Hour); return err }, (*field).held, nil, false},
	{"a choice", nil, func(f *field) error {
		_, _, err := f.s.Choose(background, []string{"a"}, store.Claim{Holder: "x", TTL: time.Hour})
		return err
	}, (*field).held, nil, false},
	{"a place in front", nil, func(f *field) error {
		_, _, err := f.s.Queue(background, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
		return err
	}, (*field).held, nil, false},
	{"an extension", (*field).take, func(f *field) error { return f.extension(time.Hour, 0) }, nil, (*field).keeps, false},
	{"an extension with a mark", (*field).take, func(f *field) error { return f.extension(time.Hour, 7) }, func(f *field) bool { return f.record().Mark == 7 }, (*field).keeps, false},
	{"an extension to more", (*field).take, func(f *field) error { return f.extension(9*time.Hour, 0) }, func(f *field) bool { return f.record().Left > 8*time.Hour }, (*field).keeps, false},
	{"a claim after a suspend", func(f *field) {
		if _, err := acquire(background, f.s, "b", time.Hour); err != nil {
			f.Fatal(err)
		}
		f.s.Suspend()
	}, func(f *field) error { _, err := acquire(background, f.s, "a", time.Hour); return err }, (*field).held, nil, false},
	{"an extension after a suspend", func(f *field) {
		f.take()
		f.s.Suspend()
	}, func(f *field) error { return f.extension(time.Hour, 0) }, nil, (*field).keeps, false},
	{"an extension after another suspend", func(f *field) {
		f.take()
		f.s.Suspend()
		if err := f.extension(time.Hour, 0); err != nil {
			f.Fatal(err)
		}
		f.s.Suspend()
	}, func(f *field) error { return f.extension(time.Hour, 7) }, func(f *field) bool { return f.record().Mark == 7 }, (*field).keeps, false},
	{"a name that was handed over before a suspend", func(f *field) {
		grant, err := claimed(f, f.other, "a")
		if err == nil {
			err = f.stand()
		}
		if err != nil {
			f.Fatal(err)
		}
		releaseOf(f, f.other, "a", "y", grant.Token)
		f.s.Suspend()
	}, func(f *field) (err error) {
		for err = store.ErrHeld; errors.Is(err, store.ErrHeld); { // with another TTL the call itself needs another session
			_, _, err = f.s.Queue(background, store.Claim{Name: "a", Holder: "x", TTL: 3 * time.Hour})
		}
		return err
	}, nil, (*field).keeps, false},
	{"a release", (*field).take, func(f *field) error { return f.releases(0) }, func(f *field) bool { return f.record().Free() }, nil, false},
	{"a release that lingers", (*field).take, func(f *field) error { return f.releases(time.Hour) }, func(f *field) bool { return f.record().Holder == "" }, nil, false},
	{"a release that hands over", func(f *field) {
		f.take()
		ctx, cancel := context.WithCancel(background)
		f.Cleanup(cancel)
		f.heir = waiting(ctx, f.other, "a", "heir")
		f.inLine(1)
	}, func(f *field) error { return f.releases(0) }, func(f *field) bool { return f.record().Holder == "heir" }, func(f *field) { served(f, f.heir) }, true},
	{"a place behind another", func(f *field) {
		if _, err := claimed(f, f.other, "a"); err != nil {
			f.Fatal(err)
		}
	}, (*field).stand, func(f *field) bool { return f.server.inQueue(f, f.below, "a") == 1 }, nil, false},
	{"a place in front after a deleted record", func(f *field) { f.deleted(f.other) }, func(f *field) error {
		_, _, err := f.s.Queue(background, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
		return err
	}, func(f *field) bool { return f.held() || f.server.inQueue(f, f.below, "a") == 1 }, nil, false},
	{"a place behind another after a deleted record", func(f *field) {
		f.deleted(f.server.open(f, f.below))
		if _, err := claimed(f, f.other, "a"); err != nil {
			f.Fatal(err)
		}
	}, (*field).stand, func(f *field) bool { return f.server.inQueue(f, f.below, "a") == 1 }, nil, false},
	{"leaving", func(f *field) {
		if _, err := claimed(f, f.other, "a"); err != nil {
			f.Fatal(err)
		}
		if err := f.stand(); err != nil {
			f.Fatal(err)
		}
	}, func(f *field) error { _, err := f.s.Leave(background, "a", "x"); return err }, func(f *field) bool { return f.server.inQueue(f, f.below, "a") == 0 }, nil, false},
	{"a watch", (*field).take, func(f *field) (err error) {
		ctx, cancel := context.WithCancel(background)
		f.Cleanup(cancel)
		if f.woken, err = f.s.Watch(ctx, []string{"a"}); err == nil && f.woken == nil {
			err = errWrong
		}
		return err
	}, nil, func(f *field) {
		if err := f.releases(0); err != nil {
			f.Error(err)
		}
		select {
		case <-f.woken:
		case <-time.After(servers.Patience):
			f.Error("the release has not woken who watches")
		}
	}, false},
	{"a sweep", func(f *field) {
		f.take()
		if err := f.releases(0); err != nil {
			f.Fatal(err)
		}
	}, func(f *field) error { _, err := f.s.Sweep(background, 10); return err }, func(f *field) bool { return f.record().Name == "" }, nil, false},
	{"a list", (*field).take, func(f *field) error {
		n := 0
		for r, err := range f.s.List(background, "a") {
			switch {
			case err != nil:
				return err
			case r.Free() || r.Holder != "x":
				return fmt.Errorf("%+v: %w", r, errWrong)
			}
			n++
		}
		if n != 1 {
			return fmt.Errorf("%d records: %w", n, errWrong)
		}
		return nil
	}, nil, nil, false},
	{"a ping", nil, func(f *field) error { return f.s.Ping(background) }, nil, nil, false},
	{"what is promised", nil, func(f *field) error {
		c, err := f.s.Capabilities(background)
		if err == nil && c.Durable.Answer == store.No {
			err = errWrong
		}
		return err
	}, nil, nil, false},
	{"an examination", nil, func(f *field) error { _, err := f.s.Examine(background); return err }, nil, nil, false},
}

var errWrong = errors.New("a wrong result")

// TestEachRequestFails lets each request of each operation fail, one after the other, in each way. What is reported as done must be done, what is reported as neither done nor
// unknown must not be, no lease may be lost, etcd must keep for as long what the store holds, and the same handle can do it after that.
func TestEachRequestFails(t *testing.T) {
	server := shared(t)
	for _, e := range errands {
		t.Run(e.what, func(t *testing.T) {
			t.Parallel()
			for _, how := range stumbles {
				client := server.stumbling(t)
				for k, failed := int64(1), true; failed; k++ {
					t.Run(fmt.Sprintf("request %d %s", k, how.how), func(t *testing.T) {
						failed = e.try(t, server,
							client, how, breaks(client, how, k))
					})
					if k == 40 {
						t.Fatal("there are requests without an end")
					}
				}
			}
		})
	}
}

// breaks has the request k of a client fail from then on. What it returns reports whether that has happened.
func breaks(client *stumbling, how stumble, k int64) func(*field) func() bool {
	return func(*field) func() bool {
		client.left.Store(k)
		client.as.Store(&how)
		return func() bool { return client.as.Swap(nil) == nil }
	}
}

// TestEachLookForAClientFails lets a store not get a client for each request of each operation, one after the other.
// The same is promised as in TestEachRequestFails, and nothing of what was not asked for is made up.
func TestEachLookForAClientFails(t *testing.T) {
	server := shared(t)
	how := stumble{"has no client", false, errMissing, errMissing}
	for _, e := range errands {
		t.Run(e.what, func(t *testing.T) {
			t.Parallel()
			client := server.stumbling(t)
			for k, failed := int64(1), true; failed; k++ {
				t.Run(fmt.Sprintf("request %d %s", k, how.how), func(t *testing.T) {
					failed = e.try(t, server, client, how, func(f *field) func() bool { return f.missing.Miss(k) })
				})
				if k == 40 {
					t.Fatal("there are requests without an end")
				}
			}
		})
	}
}

var errMissing = errors.New("there is no client")

// try does an errand one request of which fails in a way that begins with fail. It reports false if there is no such
// request.
func (e errand) try(t *testing.T, server *server, client *stumbling, how stumble,
	fail func(*field) (has func() bool)) (failed bool) {
	below := prefix()
	f := &field{T: t, server: server, below: below, s: on(t, client.Client, below), other: server.open(t, below)}
	f.missing = f.s.CanMiss(errMissing)
	if e.before != nil {
		e.before(f)
	}
	has := fail(f)
	err := e.do(f)
	failed = has()
	done := e.done == nil || e.done(f)
	switch {
	case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrHeld), errors.Is(err, errWrong), err != nil && !failed:
		t.Errorf("got %v", err)
	case err == nil && !done:
		t.Error("it is reported as done, and is not")
	case err != nil && e.done != nil && done && !errors.Is(err, store.ErrUnknown):
		t.Errorf("it was done, and the error is not that its outcome is unknown: %v", err)
	case err != nil && how.is != nil && !errors.Is(err, how.is) && !says(err, "ended the watch before it began"): // where the client of etcd has lost the reason
		t.Errorf("got %v, want one that is %v", err, how.is)
	}
	if done && e.once {
		e.after(f)
		return failed
	}
	if err == nil {
		f.covered()
	}
	err = e.do(f)
	for says(err, "watching") { // the stream that has failed may have ended a moment later only
		err = e.do(f)
	}
	if err != nil {
		t.Errorf("again: %v", err)
	} else if e.done != nil && !e.done(f) {
		t.Error("again: it is reported as done, and is not")
	}
	if e.after != nil {
		e.after(f)
	}
	f.covered()
	return failed
}
