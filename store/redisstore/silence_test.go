package redisstore_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A strait lets connections through, until those that there are fall silent: they stay, and nothing comes or goes.
type strait struct {
	listener net.Listener
	server   string
	lost     chan struct{} // has a value when something has been lost

	mu    sync.Mutex
	stale *bool // shared by the connections that fall silent together
	conns []net.Conn
}

func newStrait(t testing.TB, server string) *strait {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &strait{listener: l, server: server, lost: make(chan struct{}, 1), stale: new(bool)}
	go s.serve()
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.conns {
			c.Close()
		}
	})
	return s
}

func (s *strait) serve() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", s.server)
		if err != nil {
			client.Close()
			continue
		}
		s.mu.Lock()
		stale := s.stale
		s.conns = append(s.conns, client, server)
		s.mu.Unlock()
		go s.pass(client, server, stale)
		go s.pass(server, client, stale)
	}
}

func (s *strait) pass(from, to net.Conn, stale *bool) {
	defer to.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		silent := *stale
		s.mu.Unlock()
		if silent {
			select {
			case s.lost <- struct{}{}:
			default:
			}
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// silence makes the connections that there are fall silent. New ones are let through.
func (s *strait) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.stale, s.stale = true, new(bool)
}

// A subscription whose connection has died without a word is noticed: the one that waits is woken once, for a release may have been missed,
// and by releases again.
func TestSilentSubscriptionIsNoticed(t *testing.T) {
	server := shared(t)
	s := newStrait(t, server.Addr)
	direct := fresh(t, server.URL)
	_, prefix, _ := strings.Cut(direct, "?")
	waiting, holder := open(t, "redis://"+s.listener.Addr().String()+"?"+prefix), open(t, direct)
	wake, err := waiting.Watch(t.Context(), []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	s.silence()
	begin := time.Now()
	select {
	case <-wake:
	case <-time.After(servers.Patience):
		t.Fatal("nobody has noticed that the subscription is dead")
	}
	t.Logf("noticed after %v", time.Since(begin).Round(time.Millisecond))
	held := take(t, holder, "x", "h")
	if err := release(holder, held); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wake:
	case <-time.After(servers.Patience):
		t.Fatal("a release woke nobody")
	}
}

// A watch that has just begun is not woken for nothing: that would cost a request each.
func TestWatchBeginsQuietly(t *testing.T) {
	s := open(t, fresh(t, shared(t).URL))
	wake, err := s.Watch(t.Context(), []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-wake:
		t.Error("woken without a release")
	case <-time.After(50 * time.Millisecond):
	}
}

// A looker tells when a client asks whether keys are there.
type looker chan struct{}

func (looker) DialHook(next redis.DialHook) redis.DialHook { return next }
func (looker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l looker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		if c.Name() == "exists" {
			select {
			case l <- struct{}{}:
			default:
			}
		}
		return next(ctx, c)
	}
}

// A store that looks at shared keys for those who wait can be closed while the server hangs, also if its client has no bound of its own.
func TestSilentServerDoesNotHoldUpClose(t *testing.T) {
	server := servers.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true, ReadTimeout: -1, MaxRetries: -1})
	defer client.Close()
	looks := make(looker)
	client.AddHook(looks)
	s, err := redisstore.New(client, redisstore.Config{Share: "*"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(background, []string{"lock/x"}); err != nil {
		t.Fatal(err)
	}
	defer server.Resume()
	server.Pause()
	<-looks
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(servers.Patience):
		t.Error("Close waits for a server that hangs")
	}
}
