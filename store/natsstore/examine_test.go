package natsstore_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
)

// TestFindings: an examination judges the server, the bucket, each setting that is wrong, and what the bucket lacks; it
// says what to do about all that is not right, and leaves nothing behind.
func TestFindings(t *testing.T) {
	js := connect(t, shared(t).Addr)
	const good, bad, warns, unknown = store.LevelOK, store.LevelError, store.LevelWarning, store.LevelUnknown
	for what, test := range map[string]struct {
		bucket bool
		cfg    natsstore.Config
		set    func(c *jetstream.StreamConfig)
		want   map[string]store.Level
	}{
		"a bucket that is right": {true, natsstore.Config{}, func(*jetstream.StreamConfig) {}, map[string]store.Level{
			"server": good, "bucket": good, "replicas": warns, "batches": good, "waiting": good,
			"sync_interval": unknown, "rights": good,
		}},
		"synced": {true, natsstore.Config{Synced: true}, func(*jetstream.StreamConfig) {}, map[string]store.Level{
			"server": good, "bucket": good, "replicas": warns, "batches": good, "waiting": good,
			"sync_interval": good, "rights": good,
		}},
		"without what it need not have": {true, natsstore.Config{}, func(c *jetstream.StreamConfig) {
			c.RePublish, c.AllowAtomicPublish = nil, false
		}, map[string]store.Level{
			"server": good, "bucket": good, "replicas": warns, "batches": warns, "waiting": warns,
			"sync_interval": unknown, "rights": good,
		}},
		"with settings that are wrong": {true, natsstore.Config{}, func(c *jetstream.StreamConfig) {
			c.MaxAge, c.AllowMsgTTL = time.Hour, false
		}, map[string]store.Level{
			"server": good, "max_age": bad, "allow_msg_ttl": bad, "replicas": warns, "batches": good, "waiting": good,
			"sync_interval": unknown, "rights": unknown,
		}},
		"no bucket": {false, natsstore.Config{}, nil, map[string]store.Level{"server": good, "bucket": bad}},
	} {
		t.Run(what, func(t *testing.T) {
			cfg := test.cfg
			cfg.Bucket = fresh()
			s := open(t, js, cfg)
			if test.bucket {
				made(t, js, cfg)
				stream := streamOf(t, js, cfg.Bucket)
				test.set(&stream)
				if err := js.DeleteStream(background, stream.Name); err != nil {
					t.Fatal(err)
				}
				if _, err := js.CreateStream(background, stream); err != nil {
					t.Fatal(err)
				}
			}
			subscriptions := js.Conn().NumSubscriptions()
			findings, err := s.Examine(background)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]store.Level{}
			for _, f := range findings {
				if _, twice := got[f.Subject]; twice || f.Found == "" || (f.Fix == "") != (f.Level == good) {
					t.Errorf("%+v", f)
				}
				got[f.Subject] = f.Level
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("found %v, want %v", findings, test.want)
			}
			if !test.bucket {
				return
			}
			if n := sequence(t, js, cfg.Bucket) - int64(streamOf(t, js, cfg.Bucket).FirstSeq) + 1; n != 0 {
				t.Errorf("it has written %d messages", n)
			}
			if n := js.Conn().NumSubscriptions() - subscriptions; n != 0 {
				t.Errorf("it has left %d subscriptions", n)
			}
		})
	}
}

// TestCapabilities: a store promises what its bucket can, and no more than the configuration says about the disks.
func TestCapabilities(t *testing.T) {
	js := connect(t, shared(t).Addr)
	for _, synced := range []bool{false, true} {
		cfg := natsstore.Config{Bucket: fresh(), Synced: synced}
		s := made(t, js, cfg)
		want := store.Unknown
		if synced {
			want = store.Yes
		}
		check := func(what string, fencing, waiting store.Answer) (fence store.Promise) {
			t.Helper()
			c, err := s.Capabilities(background)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"NATS 2.", "bucket " + cfg.Bucket, "replicas: 1"} {
				if !strings.Contains(c.Backend, part) {
					t.Errorf("the backend is %q, without %q", c.Backend, part)
				}
			}
			if c.Scope != store.ScopeFleet || c.Fencing.Answer != fencing || c.Durable.Answer != want ||
				c.Waiting.Answer != waiting ||
				c.Fencing.Why == "" || c.Durable.Why == "" || c.Waiting.Why == "" {
				t.Errorf("%s, synced: %t: %+v", what, synced, c)
			}
			return c.Fencing
		}
		check("a bucket that is right", want, store.Yes)
		stream := streamOf(t, js, cfg.Bucket)
		stream.RePublish = nil
		if _, err := js.UpdateStream(background, stream); err != nil {
			t.Fatal(err)
		}
		check("one that does not report", want, store.No)
		g, err := acquire(background, s, "a", "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		anew(t, js, cfg.Bucket, uint64(g.Token)-1, func() {})
		if f := check("one that has fallen", store.No, store.No); !strings.Contains(f.Why, "has fallen") {
			t.Errorf("why: %s", f.Why)
		}
		if _, err := acquire(background, s, "b", "x", time.Hour); !errors.Is(err, store.ErrUnusable) ||
			errors.Is(err, store.ErrUnknown) {
			t.Errorf("a claim then: %v, want that it is refused", err)
		}
	}
}
