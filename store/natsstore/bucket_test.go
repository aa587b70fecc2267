package natsstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func says(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// TestBuckets: a bucket whose settings would lose records or repeat tokens is refused with the name of the setting, and Migrate changes what can be changed.
func TestBuckets(t *testing.T) {
	js := connect(t, shared(t).Addr)
	for name, test := range map[string]struct {
		set   func(c *jetstream.StreamConfig)
		mends bool
	}{
		"max_age":              {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, true},
		"discard":              {func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 }, true},
		"max_msgs_per_subject": {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, true},
		"subjects":             {func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more."+c.Name) }, true},
		"no_ack":               {func(c *jetstream.StreamConfig) { c.NoAck = true }, true},
		"allow_direct":         {func(c *jetstream.StreamConfig) { c.AllowDirect = false }, true},
		"first_seq":            {func(c *jetstream.StreamConfig) { c.FirstSeq = 0 }, false},
		"storage":              {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := fresh()
			made(t, js, natsstore.Config{Bucket: bucket})
			stream, err := js.Stream(background, "KV_"+bucket)
			if err != nil {
				t.Fatal(err)
			}
			cfg := stream.CachedInfo().Config
			test.set(&cfg)
			if err := js.DeleteStream(background, cfg.Name); err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateStream(background, cfg); err != nil {
				t.Fatal(err)
			}
			s := open(t, js, natsstore.Config{Bucket: bucket})
			if _, err := acquire(background, s, "a", "x", time.Minute); !errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrUnknown) || !says(err, name) {
				t.Errorf("acquired with %v, want that %s is refused", err, name)
			}
			capabilities, err := s.Capabilities(background)
			if err != nil || capabilities.Fencing.Answer != store.No || !strings.Contains(capabilities.Fencing.Why, name) {
				t.Errorf("capabilities %+v, %v, want no fencing for %s", capabilities, err, name)
			}
			lines, err := s.Migrate(background)
			if test.mends != (err == nil && len(lines) == 1) || !test.mends && !says(err, name) {
				t.Fatalf("migrated %v, %v", lines, err)
			}
			if !test.mends {
				return
			}
			if _, err := acquire(background, s, "a", "x", time.Minute); err != nil {
				t.Errorf("after Migrate: %v", err)
			}
			if lines, err := s.Migrate(background); len(lines) != 0 || err != nil {
				t.Errorf("migrated again: %v, %v", lines, err)
			}
		})
	}
}

// TestMissingBucket: a store without a bucket says what to do, and notices a bucket that was deleted and made again. Tokens grow across that.
func TestMissingBucket(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := open(t, js, natsstore.Config{Bucket: bucket})
	if _, err := acquire(background, s, "a", "x", time.Minute); !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnknown) {
		t.Fatalf("without a bucket: %v", err)
	}
	last := int64(0)
	for range 3 {
		if lines, err := s.Migrate(background); len(lines) != 1 || err != nil {
			t.Fatalf("migrated %v, %v", lines, err)
		}
		g, err := acquire(background, s, "a", "x", time.Minute)
		if err != nil || g.Token <= last {
			t.Fatalf("granted %+v, %v after the token %d", g, err, last)
		}
		last = g.Token
		if err := js.DeleteKeyValue(background, bucket); err != nil {
			t.Fatal(err)
		}
		if err := extend(background, s, "a", "x", g.Token, time.Minute); err == nil || errors.Is(err, store.ErrUnknown) {
			t.Errorf("extended without a bucket: %v", err)
		}
		if _, err := acquire(background, s, "b", "x", time.Minute); !errors.Is(err, store.ErrSchema) {
			t.Errorf("after the bucket was deleted: %v", err)
		}
	}
}

// streamOf returns the configuration of the stream of a bucket.
func streamOf(t *testing.T, js jetstream.JetStream, bucket string) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(background, "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}

// TestAnotherBucketInItsPlace: a request to which nobody replies may tell that the bucket is gone. Another one that was made in its place since is examined before it is used.
func TestAnotherBucketInItsPlace(t *testing.T) {
	for what, do := range map[string]func(s *natsstore.Store, token int64) error{
		"a write": func(s *natsstore.Store, token int64) error { return extend(background, s, "a", "x", token, time.Hour) },
		"a read":  func(s *natsstore.Store, _ int64) error { return s.Ping(background) },
		"a list": func(s *natsstore.Store, _ int64) (err error) {
			for _, err = range s.List(background, "") {
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			js, bucket := connect(t, shared(t).Addr), fresh()
			s := made(t, js, natsstore.Config{Bucket: bucket})
			g, err := acquire(background, s, "a", "x", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			cfg := streamOf(t, js, bucket)
			if err := js.DeleteStream(background, cfg.Name); err != nil {
				t.Fatal(err)
			}
			if err := do(s, g.Token); err == nil || errors.Is(err, store.ErrUnknown) {
				t.Fatalf("without a bucket: %v", err)
			}
			cfg.FirstSeq, cfg.MaxAge = uint64(time.Now().UnixMicro()), time.Hour
			if _, err := js.CreateStream(background, cfg); err != nil {
				t.Fatal(err)
			}
			if _, err := acquire(background, s, "b", "x", time.Hour); !errors.Is(err, store.ErrUnusable) || !says(err, "max_age") {
				t.Errorf("acquired with %v in a bucket that deletes leases after an hour, want that it is refused", err)
			}
		})
	}
}

// TestWithoutJetStream: servers or an account without JetStream are reported with what to write into the configuration, and nothing is unknown.
func TestWithoutJetStream(t *testing.T) {
	for name, test := range map[string]struct{ line, user, mend string }{
		"server":  {"jetstream: disabled", "", "write `jetstream {}` into their configuration"},
		"account": {"accounts: { a: { jetstream: enabled, users: [{ user: a, password: canary }] }, b: { users: [{ user: b, password: canary }] } }", "b:canary@", "`jetstream: enabled`"},
	} {
		t.Run(name, func(t *testing.T) {
			server := servers.NATS(t, 1, test.line)[0]
			s := byURL(t, "nats://"+test.user+server.Addr+"/locks?dialtimeout=1m")
			_, migrated := s.Migrate(background)
			_, acquired := acquire(background, s, "a", "x", time.Minute)
			for what, err := range map[string]error{"Ping": s.Ping(background), "Migrate": migrated, "Acquire": acquired} {
				if !says(err, test.mend) || says(err, "canary") || errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: %v, want an error that says %q", what, err, test.mend)
				}
			}
		})
	}
}

// anew makes a bucket again, with another first sequence.
func anew(t *testing.T, js jetstream.JetStream, bucket string, first uint64, meanwhile func()) {
	t.Helper()
	cfg := streamOf(t, js, bucket)
	cfg.FirstSeq = first
	if err := js.DeleteStream(background, cfg.Name); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	if _, err := js.CreateStream(background, cfg); err != nil {
		t.Fatal(err)
	}
}

// TestFallenSequence: a store does not grant when the sequence of its bucket has fallen, whoever has made the bucket anew, and also when the sequence has caught up.
func TestFallenSequence(t *testing.T) {
	js := connect(t, shared(t).Addr)
	for name, first := range map[string]func(token int64) uint64{
		"made by another program": func(int64) uint64 { return 1 },
		"restored":                func(token int64) uint64 { return uint64(token) },
	} {
		t.Run(name, func(t *testing.T) {
			bucket := fresh()
			s := made(t, js, natsstore.Config{Bucket: bucket})
			before, err := acquire(background, s, "a", "x", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			anew(t, js, bucket, first(before.Token), func() {})
			if g, err := acquire(background, s, "b", "x", time.Minute); !errors.Is(err, store.ErrUnusable) || !errors.Is(err, store.ErrUnknown) || !says(err, "has fallen") {
				t.Errorf("granted %+v, %v", g, err)
			}
			if name == "restored" {
				catchUp(t, js, bucket, before.Token)
			}
			for _, again := range []string{"b", "c"} {
				if g, err := acquire(background, s, again, "x", time.Minute); !errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrUnknown) {
					t.Errorf("then granted %+v, %v", g, err)
				}
			}
			if err := js.DeleteKeyValue(background, bucket); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Migrate(background); err != nil {
				t.Fatal(err)
			}
			if _, err := acquire(background, s, "b", "x", time.Minute); err != nil {
				t.Errorf("in a new bucket: %v", err)
			}
		})
	}
}

// catchUp has a process that has seen nothing write until the sequence of a bucket is above a token.
func catchUp(t *testing.T, js jetstream.JetStream, bucket string, token int64) {
	t.Helper()
	s := open(t, js, natsstore.Config{Bucket: bucket})
	for i := 0; sequence(t, js, bucket) <= token; i++ {
		if _, err := acquire(background, s, fmt.Sprint("later ", i), "x", time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFallenSequenceThatWasOnlyRead: a store that has only read what another process was granted knows its token, too, and remembers that the sequence was lower when it looked at the bucket.
func TestFallenSequenceThatWasOnlyRead(t *testing.T) {
	js := connect(t, shared(t).Addr)
	for name, looks := range map[string]bool{"writes": false, "looks at the bucket": true} {
		t.Run(name, func(t *testing.T) {
			bucket := fresh()
			holder, s := made(t, js, natsstore.Config{Bucket: bucket}), open(t, js, natsstore.Config{Bucket: bucket})
			before, err := acquire(background, holder, "a", "x", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := acquire(background, s, "a", "y", time.Minute); !errors.Is(err, store.ErrHeld) {
				t.Fatal(err)
			}
			claim := func() error { _, err := acquire(background, s, "b", "y", time.Minute); return err }
			anew(t, js, bucket, uint64(before.Token), func() {
				if looks {
					if err := claim(); !errors.Is(err, store.ErrSchema) {
						t.Errorf("without a bucket: %v", err)
					}
				}
			})
			if err := claim(); !says(err, "has fallen") || errors.Is(err, store.ErrUnknown) == looks { // a look comes before anything is written
				t.Errorf("the first claim: %v", err)
			}
			catchUp(t, js, bucket, before.Token)
			if err := claim(); !says(err, "has fallen") || errors.Is(err, store.ErrUnknown) {
				t.Errorf("when the sequence has caught up: %v", err)
			}
		})
	}
}

// TestBucketOfAnotherProgramInItsPlace: a store that has seen no token yet does not grant one either in a bucket that
// something else has made in the place of its own, since that begins with 1.
func TestBucketOfAnotherProgramInItsPlace(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	if err := s.Ping(background); err != nil { // looks at the bucket
		t.Fatal(err)
	}
	anew(t, js, bucket, 1, func() {})
	if g, err := acquire(background, s, "a", "x", time.Hour); !errors.Is(err, store.ErrUnusable) ||
		!errors.Is(err, store.ErrUnknown) {
		t.Errorf("granted %+v, %v", g, err)
	}
	if g, err := acquire(background, s, "b", "x", time.Hour); !errors.Is(err, store.ErrUnusable) ||
		errors.Is(err, store.ErrUnknown) {
		t.Errorf("then granted %+v, %v", g, err)
	}
}

// TestSchema: what Schema prints for another program makes a bucket that a store takes, with all that it needs.
func TestSchema(t *testing.T) {
	js := connect(t, shared(t).Addr)
	for replicas, want := range map[int]int{0: 1, 1: 1, 3: 3} {
		bucket := fresh()
		s := open(t, js, natsstore.Config{Bucket: bucket, Replicas: replicas})
		command, text, _ := strings.Cut(s.Schema(), "\n")
		text, end, _ := strings.Cut(text, "\nEND")
		if command != "nats stream add --config /dev/stdin <<'END'" || end != "\n" {
			t.Fatalf("%s\n%s%s", command, text, end)
		}
		var cfg jetstream.StreamConfig
		if err := json.Unmarshal([]byte(text), &cfg); err != nil || cfg.Replicas != want {
			t.Fatalf("%s: %v, want %d replicas", text, err, want)
		}
		// nobody deletes single messages, and states are reported to nobody
		if !cfg.DenyDelete || !cfg.RePublish.HeadersOnly {
			t.Errorf("%s", text)
		}
		cfg.Replicas = 1 // the server is alone
		if _, err := js.CreateStream(background, cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
			t.Error(err)
		}
		as := open(t, js, natsstore.Config{Bucket: bucket})
		if lines, err := as.Migrate(background); len(lines) != 0 || err != nil {
			t.Errorf("it is changed: %q, %v", lines, err)
		}
	}
}

// TestBucketThatDoesNotReport: waiters ask for themselves in a bucket that does not report what was stored.
func TestBucketThatDoesNotReport(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	made(t, js, natsstore.Config{Bucket: bucket})
	cfg := streamOf(t, js, bucket)
	cfg.RePublish = nil
	if _, err := js.UpdateStream(background, cfg); err != nil {
		t.Fatal(err)
	}
	s := open(t, js, natsstore.Config{Bucket: bucket})
	if wake, err := s.Watch(t.Context(), []string{"a"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("watching: %v, %v, want that the store cannot", wake, err)
	}
	if _, err := s.Migrate(background); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(t.Context(), []string{"a"}); err != nil {
		t.Errorf("watching a bucket that reports: %v", err)
	}
}

// TestFullBucket: a write for which a server has no space fails with the cause, and no lease is lost.
func TestFullBucket(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	g, err := acquire(background, s, "first", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cfg := streamOf(t, js, bucket)
	cfg.MaxBytes = 1000
	if _, err := js.UpdateStream(background, cfg); err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil; i++ {
		_, err = acquire(background, s, strings.Repeat("b", i+1), "x", time.Hour)
	}
	if !says(err, "is full") || !errors.Is(err, store.ErrUnknown) { // other replicas of the bucket may have stored it
		t.Errorf("got %v, want that the bucket is full, and an unknown outcome", err)
	}
	cfg.MaxBytes = -1
	if _, err := js.UpdateStream(background, cfg); err != nil {
		t.Fatal(err)
	}
	if err := extend(background, s, "first", "x", g.Token, time.Hour); err != nil {
		t.Errorf("the first lease: %v", err)
	}
}

// TestBucketThatIsAlmostFull: an operator is warned before the bucket is full, from four fifths of its bytes on.
func TestBucketThatIsAlmostFull(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	if _, err := acquire(background, s, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(background, "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(background)
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64][]store.Level{
		int64(info.State.Bytes) * 10 / 9: {store.LevelWarning}, int64(info.State.Bytes) * 2: {store.LevelOK}, -1: nil,
	} {
		info.Config.MaxBytes = most
		if _, err := js.UpdateStream(background, info.Config); err != nil {
			t.Fatal(err)
		}
		findings, err := s.Examine(background)
		if err != nil {
			t.Fatal(err)
		}
		var got []store.Level
		for _, f := range findings {
			if f.Subject == "size" {
				got = append(got, f.Level)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d of %d bytes: %v, want %v", info.State.Bytes, most, got, want)
		}
	}
}

// TestNames: names are encoded so that no two have one key, and records of other programs are left out of lists.
func TestNames(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	names := []string{"*", ">", "a", "a.b", "a=2Eb", "a b", "A", "ä", strings.Repeat("ü", 127), "a/b", "$KV"}
	for _, name := range names {
		if _, err := acquire(background, s, name, "x", time.Hour); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	values, err := js.KeyValue(background, bucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a.b", "=61", "=2e", "=2"} { // no name has these
		if _, err := values.Put(background, key, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	var unreadable error
	for r, err := range s.List(background, "") {
		seen[r.Name], unreadable = true, err
	}
	for _, name := range names {
		if !seen[name] {
			t.Errorf("%q is not listed", name)
		}
	}
	for _, key := range []string{`"a.b"`, `"=61"`, `"=2e"`, `"=2"`} {
		if !says(unreadable, "the key "+key) {
			t.Errorf("the list ends with %v, want one that names %s", unreadable, key)
		}
	}
}

// TestForgotten: what is forgotten is deleted from the bucket, and tokens grow over that.
func TestForgotten(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s, other := made(t, js, natsstore.Config{Bucket: bucket}), open(t, js, natsstore.Config{Bucket: bucket})
	g, err := acquire(background, s, "a", "x", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: g.Token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if n, err := other.Sweep(background, 10); n != 1 || err != nil {
		t.Fatalf("forgotten: %d, %v", n, err)
	}
	values, err := js.KeyValue(background, bucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := values.Get(background, "a"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("the key is still there: %v", err)
	}
	for _, s := range []store.Store{other, s} { // the message that says that there is no record is still there, the first time
		again, err := acquire(background, s, "a", "y", time.Minute)
		if err != nil || again.Token <= g.Token {
			t.Fatalf("granted %+v, %v after the token %d", again, err, g.Token)
		}
		if err := release(background, s, "a", "y", again.Token); err != nil {
			t.Fatal(err)
		}
		g = again
	}
}

// TestRemovalOfAChangedRecord: a record that was written since it was read is not removed: what wrote it may hold the name.
func TestRemovalOfAChangedRecord(t *testing.T) {
	s := made(t, connect(t, shared(t).Addr), natsstore.Config{Bucket: fresh()})
	records := natsstore.Backend(s)
	grant, err := acquire(background, s, "a", "x", time.Minute)
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
	if err := extend(background, s, "a", "x", grant.Token, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := remove(before); !errors.Is(err, casstore.ErrConflict) {
		t.Errorf("removing what is not there any more: %v, want a conflict", err)
	}
	if err := extend(background, s, "a", "x", grant.Token, time.Minute); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if err := remove(read()); err != nil {
		t.Errorf("removing what is there: %v", err)
	}
}
