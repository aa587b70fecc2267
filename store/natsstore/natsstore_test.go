package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var background = context.Background()

// shared is a server that all tests of one server share.
var shared = servers.Shared(func(t servers.Test) *servers.NATSServer { return servers.NATS(t, 1)[0] })

var buckets atomic.Int64

// fresh returns the name of a new bucket.
func fresh() string { return fmt.Sprintf("bucket-%d", buckets.Add(1)) }

// connect returns a client as others have it.
func connect(t testing.TB, addr string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	options = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}, options...)
	var nc *nats.Conn
	servers.Wait(t, "a connection", func() bool { // the client gives each attempt two seconds
		var err error
		nc, err = nats.Connect("nats://"+addr, options...)
		if err != nil && !errors.Is(err, nats.ErrTimeout) && !os.IsTimeout(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(servers.Patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func open(t testing.TB, js jetstream.JetStream, cfg natsstore.Config) *natsstore.Store {
	t.Helper()
	s, err := natsstore.New(js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// made returns a store in a bucket that was made for it.
func made(t testing.TB, js jetstream.JetStream, cfg natsstore.Config) *natsstore.Store {
	t.Helper()
	s := open(t, js, cfg)
	if _, err := s.Migrate(background); err != nil {
		t.Fatal(err)
	}
	return s
}

// A handle is a store with the name of its bucket.
type handle struct {
	*natsstore.Store
	bucket string
}

// Unwrap is the convention of package store.
func (h handle) Unwrap() store.Store { return h.Store }

func acquire(ctx context.Context, s store.Store, name, holder string, ttl time.Duration) (store.Grant, error) {
	outcomes, err := s.Acquire(ctx, []store.Claim{{Name: name, Holder: holder, TTL: ttl}})
	if err != nil {
		return store.Grant{}, err
	}
	return outcomes[0].Grant, outcomes[0].Err
}

func extend(ctx context.Context, s store.Store, name, holder string, token int64, ttl time.Duration) error {
	errs, err := s.Extend(ctx, []store.Extension{{Name: name, Holder: holder, Token: token, TTL: ttl}})
	if err != nil {
		return err
	}
	return errs[0]
}

func release(ctx context.Context, s store.Store, name, holder string, token int64) error {
	errs, err := s.Release(ctx, []store.Release{{Name: name, Holder: holder, Token: token, Retain: time.Hour}})
	if err != nil {
		return err
	}
	return errs[0]
}

// sequence returns the last sequence of a bucket, which counts what was written.
func sequence(t testing.TB, js jetstream.JetStream, bucket string) int64 {
	t.Helper()
	stream, err := js.Stream(background, "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	return int64(stream.CachedInfo().State.LastSeq)
}

// harness is that of stores in buckets with some replicas.
func harness(js jetstream.JetStream, replicas int) storetest.Harness {
	return storetest.Harness{
		Open: func(t testing.TB) store.Store {
			bucket := fresh()
			return handle{made(t, js, natsstore.Config{Bucket: bucket, Replicas: replicas, Synced: true}), bucket} // it has batches of few messages
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			bucket := s.(handle).bucket
			return handle{open(t, js, natsstore.Config{Bucket: bucket, Synced: true}), bucket}
		},
		Writes: func(t testing.TB, s store.Store) int64 { return sequence(t, js, s.(handle).bucket) },
		Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
			return corrupt(t, js, s.(handle).bucket, name, way)
		},
		TTL:   time.Second,
		Names: 300,
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, harness(connect(t, shared(t).Addr), 1))
}

// corrupt writes over the value of a key. The names of the suite need no encoding.
func corrupt(t testing.TB, js jetstream.JetStream, bucket, name string, way int) string {
	t.Helper()
	values, err := js.KeyValue(background, bucket)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.NewReplacer(" ", "=20", ":", "=3A", ".", "=2E").Replace(name)
	var entry jetstream.KeyValueEntry
	servers.Wait(t, key, func() bool { // a server that lags behind the leader answers, too
		entry, err = values.Get(background, key)
		return !errors.Is(err, jetstream.ErrKeyNotFound)
	})
	if err != nil {
		t.Fatalf("%q: %v", key, err)
	}
	text := string(entry.Value())
	ways := []struct{ what, value string }{
		{"no JSON", "held"},
		{"an empty text", ""},
		{"something after the record", text + text},
		{"a field that is not known", strings.Replace(text, `{"holder"`, `{"owner":"x","holder"`, 1)},
		{"no holder", strings.Replace(text, `"holder":"`, `"holder":"","state":"`, 1)},
		{"no write", strings.Replace(text, `"write":"`, `"write":"","state":"`, 1)},
		{"a token that is no number", strings.Replace(text, `"mark":`, `"token":"x","mark":`, 1)},
		{"a token below 0", strings.Replace(text, `"mark":`, `"token":-1,"mark":`, 1)},
		{"a token that was not granted yet", strings.Replace(text, `"mark":`, `"token":9000000000000000000,"mark":`, 1)},
		{"a TTL that no store takes", strings.Replace(text, `"ttl_ns":`, `"ttl_ns":9223372036854775807,"mark":`, 1)},
		{"a lease without a TTL", strings.Replace(text, `"ttl_ns":`, `"ttl_ns":0,"mark":`, 1)},
		{"a time of its grant that cannot be written again", strings.Replace(text, `"granted_at":`, `"granted_at":"9999-12-31T23:59:59-01:00","forget_at":`, 1)},
		{"a holder that no store takes", strings.Replace(text, `"holder":"`, `"holder":"`+strings.Repeat("x", 1000), 1)},
		{"no time of its grant", strings.Replace(text, `"granted_at":`, `"forget_at":`, 1)},
	}
	if way >= len(ways) {
		return ""
	}
	if ways[way].value == text {
		t.Fatalf("%s: nothing was changed in %s", ways[way].what, text)
	}
	if _, err := values.Put(background, key, []byte(ways[way].value)); err != nil {
		t.Fatal(err)
	}
	return ways[way].what
}
