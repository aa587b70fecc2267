package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
)

// leastSequence is less than the first sequence of every bucket that Migrate has made, and more than any other bucket reaches: it is the time in 2001, in microseconds.
const leastSequence = 1_000_000_000_000_000

// info asks for the settings and the state of the bucket.
func (b *backend) info(ctx context.Context, l *link) (*jetstream.StreamInfo, error) {
	var info jetstream.StreamInfo
	if err := l.call(ctx, "STREAM.INFO."+b.stream(), nil, &info); err != nil {
		return nil, wrap(fmt.Sprintf("looking at the bucket %q", b.bucket), err)
	}
	return &info, nil
}

// usable returns an error that is store.ErrUnusable if a bucket could lose records or grant a token twice. Any other error means that this was not found out.
// before is what was known before the server was asked for info.
func (b *backend) usable(ctx context.Context, l *link, info *jetstream.StreamInfo, before known) error {
	for _, s := range b.settings() {
		if found := s.wrong(&info.Config); found != "" {
			return fmt.Errorf("natsstore: the bucket %q: %s is %s: %s: %w", b.bucket, s.name, found, s.rule(), store.ErrUnusable)
		}
	}
	low := before.low
	if last := info.State.LastSeq; last < before.high {
		low = b.suspect(&lowSequence{from: before.high, to: last, leadership: leadershipOf(info)})
	}
	if low != nil {
		if err := b.judge(ctx, l, low); err != nil {
			return err
		}
	}
	return b.above(info.Config.FirstSeq)
}

// A leadership is the time in which one server leads a stream.
type leadership struct {
	server string // "" if the stream has no leader
	since  time.Time
	alone  bool // no other server has the stream, so none can lead it
}

// leadershipOf returns that in which a stream was shown.
func leadershipOf(info *jetstream.StreamInfo) leadership {
	c := info.Cluster
	if c == nil || len(c.Replicas) == 0 {
		return leadership{alone: true}
	}
	of := leadership{server: c.Leader}
	if c.LeaderSince != nil { // older servers do not report it
		of.since = *c.LeaderSince
	}
	return of
}

// judge notes whether the sequence has fallen, where one was shown that is too low. A leader that was cut off reports an earlier sequence, too, but only the leader of
// a majority confirms a message. The sequence of that may be as high as before if others have written meanwhile. So the leader is asked again: if it is still the one
// that showed the low sequence, and has the message, no other one led then, and the sequence has fallen.
func (b *backend) judge(ctx context.Context, l *link, low *lowSequence) error {
	fell := low.leadership.alone
	if !fell {
		if err := b.confirm(ctx, l); err != nil {
			return wrap(fmt.Sprintf("asking whether the sequence of the bucket %q has fallen from %d to %d", b.bucket, low.from, low.to), err)
		}
		info, err := b.info(ctx, l)
		if err != nil {
			return err
		}
		now := leadershipOf(info)
		fell = now.server != "" && now.server == low.leadership.server && now.since.Equal(low.leadership.since) && info.State.LastSeq > low.from
	}
	b.settle(low, fell)
	return nil
}

// confirm sends a message that stores no record. send notes that the sequence has fallen if that of the message is too low.
func (b *backend) confirm(ctx context.Context, l *link) error {
	m := nats.NewMsg(l.puts + b.record(keyOf(probe)))
	remove(m)
	_, err := b.send(ctx, l, m, nil)
	return err
}

// A setting is one of a stream that must be right.
type setting struct {
	name  string
	wrong func(c *jetstream.StreamConfig) (found string) // "" if it is right
	why   string
	mend  func(c *jetstream.StreamConfig) // nil if it cannot be changed
}

// rule returns what is to be done about a wrong setting.
func (s setting) rule() string {
	if s.mend == nil {
		return s.why + "; use another bucket, made by `soloist migrate up`"
	}
	return s.why + "; run `soloist migrate up`"
}

// unless returns text if it is not so.
func unless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// settings are all that must be right.
func (b *backend) settings() []setting {
	return slices.Concat(b.fixed(), b.mendable())
}

// fixed are the settings that a stream has for as long as it exists.
func (b *backend) fixed() []setting {
	type config = jetstream.StreamConfig
	return []setting{
		{"first_seq", func(c *config) string { return unless(c.FirstSeq >= leastSequence, "%d", c.FirstSeq) },
			"something other than soloist has made the bucket, so its sequences may repeat those of another one with its name, and with them tokens", nil},
		{"storage", func(c *config) string { return unless(c.Storage == jetstream.FileStorage, "%v", c.Storage) },
			"a restart of the servers would lose all leases and tokens", nil},
		{"retention", func(c *config) string { return unless(c.Retention == jetstream.LimitsPolicy, "%v", c.Retention) },
			"messages that were read would be deleted", nil},
		{"persist_mode", func(c *config) string {
			return unless(c.PersistMode == jetstream.DefaultPersistMode, "%v", c.PersistMode)
		},
			"the server would confirm what it has not written", nil},
		{"mirror", func(c *config) string { return unless(c.Mirror == nil, "set") }, "a mirror cannot be written to", nil},
		{"allow_msg_counter", func(c *config) string { return unless(!c.AllowMsgCounter, "true") }, "the bucket would have numbers only", nil},
		{"sealed", func(c *config) string { return unless(!c.Sealed, "true") }, "a sealed stream cannot be written to", nil},
	}
}

// mendable are the settings that Migrate changes.
func (b *backend) mendable() []setting {
	type config = jetstream.StreamConfig
	return []setting{
		{"max_age", func(c *config) string { return unless(c.MaxAge == 0, "%v", c.MaxAge) },
			"the server would delete leases, marks and states after that time", func(c *config) { c.MaxAge = 0 }},
		{"discard", func(c *config) string {
			return unless(c.Discard == jetstream.DiscardNew, "%v", c.Discard)
		}, "a full bucket would delete the leases of others instead of refusing new ones", func(c *config) { c.Discard, c.DiscardNewPerSubject = jetstream.DiscardNew, false }},
		{"discard_new_per_subject", func(c *config) string { return unless(!c.DiscardNewPerSubject, "true") },
			"no record could be replaced", func(c *config) { c.DiscardNewPerSubject = false }},
		{"max_msgs_per_subject", func(c *config) string { return unless(c.MaxMsgsPerSubject == 1, "%d", c.MaxMsgsPerSubject) },
			"the bucket needs a history of 1", func(c *config) { c.MaxMsgsPerSubject = 1 }},
		{"subjects", func(c *config) string { return unless(slices.Equal(c.Subjects, []string{b.all()}), "%v", c.Subjects) },
			"they must be those of the bucket alone", func(c *config) { c.Subjects = []string{b.all()} }},
		{"sources", func(c *config) string { return unless(len(c.Sources) == 0, "%d streams", len(c.Sources)) },
			"other streams would write over leases", func(c *config) { c.Sources = nil }},
		{"subject_transform", func(c *config) string { return unless(c.SubjectTransform == nil, "set") },
			"records would have other subjects than those that are compared", func(c *config) { c.SubjectTransform = nil }},
		{"no_ack", func(c *config) string { return unless(!c.NoAck, "true") }, "the server would confirm nothing", func(c *config) { c.NoAck = false }},
		{"allow_rollup_hdrs", func(c *config) string { return unless(c.AllowRollup && !c.DenyPurge, "denied") },
			"what is forgotten could not be deleted", func(c *config) { c.AllowRollup, c.DenyPurge = true, false }},
		{"allow_msg_ttl", func(c *config) string { return unless(c.AllowMsgTTL, "false") },
			"what is forgotten would leave a message forever", func(c *config) { c.AllowMsgTTL = true }},
		{"allow_direct", func(c *config) string { return unless(c.AllowDirect, "false") },
			"the bucket could not be listed", func(c *config) { c.AllowDirect = true }},
	}
}

// wakes reports whether a stream reports what was stored, for those who wait.
func (b *backend) wakes(c *jetstream.StreamConfig) bool {
	r := c.RePublish
	return r != nil && r.Source == b.all() && r.Destination == b.stored(">")
}

// wanted returns the settings of a new bucket.
func (b *backend) wanted(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.stream(), Subjects: []string{b.all()}, Description: "leases of soloist",
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, MaxMsgsPerSubject: 1, Replicas: replicas,
		FirstSeq:   uint64(time.Now().UnixMicro()), //nolint:gosec // after 1970
		DenyDelete: true, AllowRollup: true, AllowDirect: true, AllowMsgTTL: true, AllowAtomicPublish: true,
		RePublish: &jetstream.RePublish{Source: b.all(), Destination: b.stored(">"), HeadersOnly: true},
	}
}

// Migrate implements store.Migrator: it makes the bucket, or changes the settings that must be others and can be.
func (s *Store) Migrate(ctx context.Context) ([]string, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	b := s.backend
	l, err := b.links.get(ctx)
	if err != nil {
		return nil, wrap("connecting", err)
	}
	if version := l.nc.ConnectedServerVersion(); !atLeast(version, 2, 11) {
		return nil, fmt.Errorf("natsstore: the server is NATS %s: use 2.11 or later: %w", version, store.ErrUnusable)
	}
	defer b.checkAgain()
	info, err := b.info(ctx, l)
	if errors.Is(err, store.ErrSchema) {
		made, failure := b.create(ctx, l)
		switch {
		case failure != nil:
			return nil, failure
		case made != "":
			return []string{made}, nil
		}
		info, err = b.info(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	return b.mend(ctx, l, info)
}

// create makes the bucket. It returns "" if another process has just made it.
func (b *backend) create(ctx context.Context, l *link) (made string, err error) {
	replicas := b.cfg.Replicas
	switch {
	case replicas > 0:
	case l.nc.ConnectedClusterName() == "":
		replicas = 1
	default:
		replicas = 3
	}
	var info jetstream.StreamInfo
	err = l.call(ctx, "STREAM.CREATE."+b.stream(), b.wanted(replicas), &info)
	var failure *jetstream.APIError
	if errors.As(err, &failure) && failure.ErrorCode == jetstream.JSErrCodeStreamNameInUse {
		return "", nil
	}
	if err != nil {
		return "", wrap(fmt.Sprintf("making the bucket %q with %d replicas", b.bucket, replicas), err)
	}
	return fmt.Sprintf("bucket %s made, replicas: %d", b.bucket, replicas), nil
}

// mend changes settings of a bucket.
func (b *backend) mend(ctx context.Context, l *link, info *jetstream.StreamInfo) (lines []string, err error) {
	for _, s := range b.fixed() {
		if found := s.wrong(&info.Config); found != "" {
			return nil, fmt.Errorf("natsstore: the bucket %q: %s is %s: %s: delete it, or name another bucket: %w", b.bucket, s.name, found, s.why, store.ErrUnusable)
		}
	}
	now := info.Config
	for _, s := range b.mendable() {
		if found := s.wrong(&now); found != "" {
			lines = append(lines, fmt.Sprintf("bucket %s: %s is not %s any more", b.bucket, s.name, found))
			s.mend(&now)
		}
	}
	if !b.wakes(&now) {
		lines = append(lines, fmt.Sprintf("bucket %s: reports what was stored", b.bucket))
		now.RePublish = b.wanted(0).RePublish
	}
	if !now.AllowAtomicPublish && atLeast(l.nc.ConnectedServerVersion(), 2, 12) {
		lines = append(lines, fmt.Sprintf("bucket %s: accepts atomic batches", b.bucket))
		now.AllowAtomicPublish = true
	}
	if want := b.cfg.Replicas; want != 0 && want != now.Replicas {
		lines = append(lines, fmt.Sprintf("bucket %s: replicas: %d instead of %d", b.bucket, want, now.Replicas))
		now.Replicas = want
	}
	if len(lines) == 0 {
		return nil, nil
	}
	var updated jetstream.StreamInfo
	if err := l.call(ctx, "STREAM.UPDATE."+b.stream(), now, &updated); err != nil {
		return nil, wrap(fmt.Sprintf("changing the bucket %q (%s)", b.bucket, strings.Join(lines, "; ")), err)
	}
	return lines, nil
}

// Schema implements store.Migrator: a command of the command line of NATS. Its first_seq is the time in microseconds.
func (s *Store) Schema() string {
	text, err := json.MarshalIndent(s.backend.wanted(max(1, s.backend.cfg.Replicas)), "", "  ")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("nats stream add --config /dev/stdin <<'END'\n%s\nEND\n", text)
}

// atLeast reports whether a version is major.minor or later.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	x, err := strconv.Atoi(parts[0])
	y, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (x > major || x == major && y >= minor)
}
