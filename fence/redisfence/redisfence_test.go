package redisfence_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/redisfence"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { servers.Main(m) }

var shared = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t) })

// newGuard returns a guard whose marks are its own, and its client.
func newGuard(t *testing.T) (*redisfence.Guard, *redis.Client) {
	t.Helper()
	opts, err := redis.ParseURL(shared(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	g, err := redisfence.New(client, redisfence.Config{Prefix: "marks of " + t.Name() + ":"})
	if err != nil {
		t.Fatal(err)
	}
	return g, client
}

func TestGuardRefusesLowerTokens(t *testing.T) {
	g, _ := newGuard(t)
	for _, step := range []struct {
		resource string
		token    int64
		seen     int64 // when it is refused
	}{
		{"a", 5, 0}, {"a", 5, 0}, {"a", 4, 5}, {"a", 10, 0}, {"a", 9, 10}, {"b", 1, 0},
		{"a", 1<<53 + 1, 0}, {"a", 1 << 53, 1<<53 + 1}, {"a", math.MaxInt64, 0}, {"a", math.MaxInt64 - 1, math.MaxInt64},
	} {
		err := g.Claim(t.Context(), step.resource, step.token)
		var stale *fence.StaleError
		switch {
		case step.seen == 0 && err != nil:
			t.Errorf("%+v: %v", step, err)
		case step.seen > 0 && (!errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || stale.Seen != step.seen || stale.Token != step.token):
			t.Errorf("%+v: %v", step, err)
		}
	}
	for _, token := range []int64{0, -1} {
		var bad *fence.TokenError
		if err := g.Claim(t.Context(), "a", token); !errors.As(err, &bad) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	var invalid *store.InvalidError
	if err := g.Claim(t.Context(), "", 1); !errors.As(err, &invalid) {
		t.Errorf("no resource: %v", err)
	}
}

func TestGuardedWrite(t *testing.T) {
	g, client := newGuard(t)
	key := t.Name() + ":balance"
	const set = "return redis.call('SET', KEYS[1], ARGV[1])"
	if got, err := g.Write(t.Context(), "account", 7, set, []string{key}, "seven"); err != nil || got != "OK" {
		t.Fatalf("a write of the holder: %v, %v", got, err)
	}
	if _, err := g.Write(t.Context(), "account", 6, set, []string{key}, "six"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a write of a stale holder: %v", err)
	}
	if got, err := client.Get(t.Context(), key).Result(); got != "seven" {
		t.Errorf("written is %q, %v", got, err)
	}
	if got, err := g.Write(t.Context(), "account", 7, "return {KEYS[2] or 'no more', #ARGV}", []string{key}, 1, 2); err != nil || fmt.Sprint(got) != "[no more 2]" {
		t.Errorf("KEYS and ARGV of the write: %v, %v", got, err)
	}
	if got, err := g.Write(t.Context(), "account", 7, "return redis.call('GET', KEYS[1] .. 'nothing')", []string{key}); err != nil || got != nil {
		t.Errorf("a write that answers nothing: %v, %v", got, err)
	}
}

func TestGuardedWriteThatFails(t *testing.T) {
	g, _ := newGuard(t)
	if _, err := g.Write(t.Context(), "a", 3, "this is no Lua", nil); err == nil || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a script that does not compile: %v", err)
	}
	if err := g.Claim(t.Context(), "a", 2); err != nil {
		t.Errorf("a script that did not run has left a mark: %v", err)
	}
	if _, err := g.Write(t.Context(), "a", 3, "return redis.call('INCR', KEYS[1])", []string{t.Name() + ":no number"}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(t.Context(), "a", 5, "redis.call('LPUSH', KEYS[1], 1)", []string{t.Name() + ":no number"}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a script that stops in the middle: %v", err)
	}
	if _, err := g.Write(t.Context(), "a", 5, "return redis.error_reply('WRONG it is')", nil); err == nil || !strings.Contains(err.Error(), "WRONG it is") {
		t.Errorf("a script that answers an error: %v", err)
	}
	if err := g.Claim(t.Context(), "a", 4); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the token of a write that failed was not seen: %v", err)
	}
}

// A lossy connection loses the reply to the first script that it carries out, and calls then. It does not pass on the later scripts if then has returned an answer to
// them.
type lossy struct {
	net.Conn
	of     *losses
	script bool // one was sent, and its reply was not read yet
}

type losses struct {
	then   func() string
	sent   int // scripts
	answer string
}

func (l *losses) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	return &lossy{Conn: c, of: l}, err
}

func (c *lossy) Write(p []byte) (int, error) {
	if c.script = bytes.Contains(p, []byte("evalsha")); c.script {
		c.of.sent++
		if c.of.answer != "" {
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

func (c *lossy) Read(p []byte) (int, error) {
	if c.script && c.of.answer != "" {
		return copy(p, c.of.answer), nil
	}
	n, err := c.Conn.Read(p)
	if c.script && c.of.sent == 1 && err == nil {
		c.of.answer = c.of.then()
		return 0, io.EOF
	}
	return n, err
}

// clientOf returns a client of the shared server that repeats requests or not, as one server or as a cluster of it.
func clientOf(t *testing.T, cluster bool, again int, dial func(context.Context, string, string) (net.Conn, error)) redis.UniversalClient {
	t.Helper()
	addr := shared(t).Addr
	var client redis.UniversalClient
	if cluster {
		slots := []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}
		client = redis.NewClusterClient(&redis.ClusterOptions{MaxRedirects: again, Dialer: dial, Protocol: 2,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil }})
	} else {
		client = redis.NewClient(&redis.Options{Addr: addr, MaxRetries: again, Dialer: dial, Protocol: 2})
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// A client that repeats a write reports the last attempt only, so no refusal of it is certain: not that of a server that has become a replica meanwhile, and not
// that of a greater token. The refusals that a client is told which sends each request once are certain.
func TestWriteThatTheClientRepeats(t *testing.T) {
	const incr = "return redis.call('INCR', KEYS[1])"
	for _, cluster := range []bool{false, true} {
		for _, stale := range []bool{false, true} {
			t.Run(fmt.Sprintf("cluster %v stale %v", cluster, stale), func(t *testing.T) {
				direct := clientOf(t, cluster, -1, nil)
				key := rand.Text()
				cfg := redisfence.Config{Prefix: "mark of " + key + ":"}
				other, err := redisfence.New(direct, cfg)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.Write(t.Context(), "x", 7, incr, []string{key}); err != nil { // the script is cached now
					t.Fatal(err)
				}
				l := &losses{then: func() string {
					if stale {
						if err := other.Claim(t.Context(), "x", 8); err != nil {
							t.Error(err)
						}
						return ""
					}
					return "-READONLY You can't write against a read only replica.\r\n"
				}}
				g, err := redisfence.New(clientOf(t, cluster, 1, l.dial), cfg)
				if err != nil {
					t.Fatal(err)
				}
				_, err = g.Write(t.Context(), "x", 7, incr, []string{key})
				if n, trouble := direct.Get(t.Context(), key).Int(); n != 2 || l.sent != 2 || trouble != nil {
					t.Fatalf("the write was sent %d times and landed %d times, with the one before; %v, %v", l.sent, n, err, trouble)
				}
				if !errors.Is(err, store.ErrUnknown) || errors.Is(err, fence.ErrStale) != stale {
					t.Errorf("a write that was carried out, and sent again: %v", err)
				}
				if !stale {
					return
				}
				if _, err := other.Write(t.Context(), "x", 7, incr, []string{key}); !errors.Is(err, fence.ErrStale) || errors.Is(err, store.ErrUnknown) {
					t.Errorf("a stale write that was sent once: %v", err)
				}
				if err := g.Claim(t.Context(), "x", 7); !errors.Is(err, fence.ErrStale) || errors.Is(err, store.ErrUnknown) {
					t.Errorf("a stale claim, which writes nothing: %v", err)
				}
				if _, err := g.Write(t.Context(), "x", 9, "this is no Lua", nil); err == nil || errors.Is(err, store.ErrUnknown) {
					t.Errorf("a script that does not compile, which no attempt has run: %v", err)
				}
			})
		}
	}
}

// By effect: whatever the interleaving, no write of a lower token lands after one of a higher.
func TestGuardedWritesLandInTheOrderOfTheirTokens(t *testing.T) {
	g, client := newGuard(t)
	key := t.Name() + ":landed"
	var wg sync.WaitGroup
	for token := int64(1); token <= 16; token++ {
		wg.Go(func() {
			for range 20 {
				_, err := g.Write(context.Background(), "x", token, "redis.call('RPUSH', KEYS[1], ARGV[1])", []string{key}, token)
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var landed []int64
	if err := client.LRange(t.Context(), key, 0, -1).ScanSlice(&landed); err != nil || len(landed) == 0 {
		t.Fatal(landed, err)
	}
	for i := 1; i < len(landed); i++ {
		if landed[i] < landed[i-1] {
			t.Fatalf("%d landed after %d", landed[i], landed[i-1])
		}
	}
}

func TestNewChecksItsClient(t *testing.T) {
	for what, client := range map[string]redis.UniversalClient{"a ring": redis.NewRing(&redis.RingOptions{}), "nil": nil} {
		if _, err := redisfence.New(client, redisfence.Config{}); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
}

func TestGuardedTransaction(t *testing.T) {
	g, client := newGuard(t)
	key := t.Name() + ":balance"
	var guard fence.Guard = g
	set := func(value string) func(context.Context) error {
		return func(ctx context.Context) error { return redisfence.Tx(ctx).Set(ctx, key, value, 0).Err() }
	}
	if err := guard.Do(t.Context(), "account", 7, set("seven")); err != nil {
		t.Fatal(err)
	}
	if err := guard.Do(t.Context(), "account", 6, set("six")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a stale holder: %v", err)
	}
	// The successor claims the resource while a write of the holder is under way.
	overtaken := errors.New("not called")
	err := g.DoTx(t.Context(), "account", 7, func(tx redis.Pipeliner) error {
		overtaken = g.Claim(t.Context(), "account", 8)
		return tx.Set(t.Context(), key, "seven again", 0).Err()
	})
	if overtaken != nil || !errors.Is(err, fence.ErrStale) {
		t.Errorf("a write that was overtaken: %v, %v", overtaken, err)
	}
	failed := errors.New("failed")
	if err := guard.Do(t.Context(), "account", 9, func(ctx context.Context) error {
		_ = set("nine")(ctx)
		return failed
	}); !errors.Is(err, failed) {
		t.Errorf("a write that fails: %v", err)
	}
	if err := g.Claim(t.Context(), "account", 8); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the token of a write that failed was not seen: %v", err)
	}
	if got, err := client.Get(t.Context(), key).Result(); got != "seven" {
		t.Errorf("written is %q, %v", got, err)
	}
	if redisfence.Tx(t.Context()) != nil {
		t.Error("a transaction outside of Do")
	}
}

// A command that fails is told, also after one that found nothing, and as one whose outcome is unknown: the others have been carried out.
func TestTransactionWithACommandThatFails(t *testing.T) {
	for what, add := range map[string]func(ctx context.Context, tx redis.Pipeliner, key string){
		"a key of another type": func(ctx context.Context, tx redis.Pipeliner, key string) { tx.LPush(ctx, key, 1) },
		"a script that is not cached": func(ctx context.Context, tx redis.Pipeliner, _ string) {
			tx.EvalSha(ctx, strings.Repeat("0", 40), nil)
		},
		"a script that answers an error": func(ctx context.Context, tx redis.Pipeliner, key string) {
			tx.Eval(ctx, "redis.call('INCR', KEYS[1]) return redis.error_reply('BUSY it is')", []string{key})
		},
	} {
		for before, queue := range map[string]func(ctx context.Context, tx redis.Pipeliner, key string){
			"alone":         func(context.Context, redis.Pipeliner, string) {},
			"after a write": func(ctx context.Context, tx redis.Pipeliner, key string) { tx.Incr(ctx, key) },
			"after a read":  func(ctx context.Context, tx redis.Pipeliner, key string) { tx.Get(ctx, key+" nothing") },
			"after both": func(ctx context.Context, tx redis.Pipeliner, key string) {
				tx.Get(ctx, key+" nothing")
				tx.Incr(ctx, key)
			},
		} {
			t.Run(what+" "+before, func(t *testing.T) {
				g, client := newGuard(t)
				key := t.Name() + ":balance"
				if err := client.Set(t.Context(), key, 1, 0).Err(); err != nil {
					t.Fatal(err)
				}
				err := g.DoTx(t.Context(), "account", 7, func(tx redis.Pipeliner) error {
					queue(t.Context(), tx, key)
					add(t.Context(), tx, key)
					return nil
				})
				if !errors.Is(err, store.ErrUnknown) || errors.Is(err, redis.Nil) || !strings.Contains(err.Error(), `"account"`) {
					t.Errorf("got %v, want store.ErrUnknown", err)
				}
			})
		}
	}
}

// A transaction that the server refuses as a whole has changed nothing, and that is known.
func TestTransactionThatIsRefused(t *testing.T) {
	g, client := newGuard(t)
	key := t.Name() + ":balance"
	err := g.DoTx(t.Context(), "account", 7, func(tx redis.Pipeliner) error {
		tx.Incr(t.Context(), key)
		tx.Do(t.Context(), "NOSUCHCOMMAND")
		return nil
	})
	if err == nil || errors.Is(err, store.ErrUnknown) || errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v, want an error that is not store.ErrUnknown", err)
	}
	if n, err := client.Exists(t.Context(), key).Result(); n != 0 || err != nil {
		t.Errorf("%d keys are written, %v", n, err)
	}
}

// What finds nothing is no failure, and its result can be read.
func TestTransactionThatFindsNothing(t *testing.T) {
	g, _ := newGuard(t)
	var nothing *redis.StringCmd
	var count *redis.IntCmd
	err := g.DoTx(t.Context(), "account", 7, func(tx redis.Pipeliner) error {
		nothing, count = tx.Get(t.Context(), t.Name()+" nothing"), tx.Incr(t.Context(), t.Name())
		return nil
	})
	if err != nil || !errors.Is(nothing.Err(), redis.Nil) || count.Val() != 1 {
		t.Errorf("%v; %v, %v", err, nothing, count)
	}
}

// A service whose write is overtaken by that of a greater token is not told that it was good, wherever it writes.
func TestHandlerThatIsOvertaken(t *testing.T) {
	g, client := newGuard(t)
	for what, write := range map[string]func(r *http.Request, key string){
		"in the transaction": func(r *http.Request, key string) {
			if tx := redisfence.Tx(r.Context()); tx != nil {
				tx.Set(r.Context(), key, r.Header.Get(fence.TokenHeader), 0)
			}
		},
		"elsewhere": func(*http.Request, string) {},
	} {
		t.Run(what, func(t *testing.T) {
			key := t.Name()
			var service http.Handler
			send := func(token string) int {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/"+strings.ReplaceAll(what, " ", "-"), nil)
				r.Header.Set(fence.TokenHeader, token)
				w := httptest.NewRecorder()
				service.ServeHTTP(w, r)
				return w.Code
			}
			service = fence.Handler(g, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Header.Get(fence.TokenHeader) == "7" {
					if status := send("8"); status != http.StatusOK {
						t.Errorf("the successor: %d", status)
					}
				}
				write(r, key)
			}))
			if status := send("7"); status != http.StatusPreconditionFailed {
				t.Errorf("a write that was overtaken: %d", status)
			}
			if got := client.Get(t.Context(), key).Val(); what == "in the transaction" && got != "8" {
				t.Errorf("written is %q", got)
			}
		})
	}
}

// A meddler does something before a command of a name.
type meddler struct {
	command string
	do      func() error
}

func (meddler) DialHook(next redis.DialHook) redis.DialHook { return next }
func (meddler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m meddler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		if c.Name() == m.command {
			if err := m.do(); err != nil {
				c.SetErr(err)
				return err
			}
		}
		return next(ctx, c)
	}
}

// Whenever the mark of a resource is removed, spoiled or raised while a transaction is under way, nothing is written, and the error says so.
func TestTransactionWhoseMarkChanges(t *testing.T) {
	for what, mark := range map[string]string{"gone": "", "spoiled": "x", "raised": "9"} {
		for _, before := range []string{"watch", "get", "exec"} {
			t.Run(what+" before "+before, func(t *testing.T) {
				_, other := newGuard(t)
				opts, err := redis.ParseURL(shared(t).URL)
				if err != nil {
					t.Fatal(err)
				}
				client := redis.NewClient(opts)
				defer client.Close()
				g, err := redisfence.New(client, redisfence.Config{})
				if err != nil {
					t.Fatal(err)
				}
				resource, written := t.Name(), t.Name()+":written"
				key := "soloist-fence:" + resource
				change := func() error {
					if mark == "" {
						return other.Del(t.Context(), key).Err()
					}
					return other.Set(t.Context(), key, mark, 0).Err()
				}
				during := change
				if before != "exec" {
					client.AddHook(meddler{before, change})
					during = func() error { return nil }
				}
				err = g.DoTx(t.Context(), resource, 7, func(tx redis.Pipeliner) error {
					return errors.Join(during(), tx.Set(t.Context(), written, "seven", 0).Err())
				})
				if err == nil || errors.Is(err, store.ErrUnknown) || errors.Is(err, fence.ErrStale) != (what == "raised") || !strings.Contains(err.Error(), resource) {
					t.Errorf("written: %v", err)
				}
				if n, err := other.Exists(t.Context(), written).Result(); n != 0 || err != nil {
					t.Errorf("%d keys are written, %v", n, err)
				}
			})
		}
	}
}

// A mark that cannot be read lets no transaction begin.
func TestTransactionWhoseMarkCannotBeRead(t *testing.T) {
	g, client := newGuard(t)
	away := errors.New("away")
	client.AddHook(meddler{"get", func() error { return away }})
	err := g.DoTx(t.Context(), "x", 7, func(redis.Pipeliner) error {
		t.Error("the write is made")
		return nil
	})
	if !errors.Is(err, away) {
		t.Errorf("written: %v", err)
	}
}

// By effect: of transactions too, no write of a lower token lands after one of a higher.
func TestGuardedTransactionsLandInTheOrderOfTheirTokens(t *testing.T) {
	g, client := newGuard(t)
	key := t.Name() + ":landed"
	var wg sync.WaitGroup
	for token := int64(1); token <= 16; token++ {
		wg.Go(func() {
			for range 20 {
				err := g.DoTx(context.Background(), "x", token, func(tx redis.Pipeliner) error {
					return tx.RPush(context.Background(), key, token).Err()
				})
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var landed []int64
	if err := client.LRange(t.Context(), key, 0, -1).ScanSlice(&landed); err != nil || len(landed) == 0 {
		t.Fatal(landed, err)
	}
	for i := 1; i < len(landed); i++ {
		if landed[i] < landed[i-1] {
			t.Fatalf("%d landed after %d", landed[i], landed[i-1])
		}
	}
}
