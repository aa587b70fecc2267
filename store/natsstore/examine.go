package natsstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
)

// Capabilities implements store.Prober. What it reports follows from the settings of the bucket, and from [Config.Synced].
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := s.ready(ctx); err != nil {
		return store.Capabilities{}, err
	}
	b := s.backend
	l, err := b.links.get(ctx)
	if err != nil {
		return store.Capabilities{}, wrap("connecting", err)
	}
	before := b.known()
	info, err := b.info(ctx, l)
	if err != nil {
		return store.Capabilities{}, err
	}
	c := store.Capabilities{
		Backend: fmt.Sprintf("NATS %s, bucket %s, replicas: %d", l.nc.ConnectedServerVersion(), b.bucket, info.Config.Replicas),
		Scope:   store.ScopeFleet,
		Fencing: store.Promise{Answer: store.Yes, Why: "a token is the sequence of the message that granted the name, which its replicas have agreed on"},
		Durable: store.Promise{Answer: store.Yes, Why: "each replica writes to its disk before it confirms: synced is set"},
		Waiting: store.Promise{Answer: store.Yes, Why: "the bucket reports what was stored"},
	}
	if !b.cfg.Synced {
		why := "a server confirms what it writes to its disk up to two minutes later, unless its sync_interval is \"always\", which a client cannot see: if it is, set synced"
		c.Durable = store.Promise{Answer: store.Unknown, Why: why}
		c.Fencing = store.Promise{Answer: store.Unknown, Why: "what a failure of power makes the servers forget can be granted again with the same token: " + why}
	}
	if err := b.usable(ctx, l, info, before); err != nil {
		if !errors.Is(err, store.ErrUnusable) {
			return store.Capabilities{}, err
		}
		c.Fencing = store.Promise{Answer: store.No, Why: err.Error()}
	}
	if !b.wakes(&info.Config) {
		c.Waiting = store.Promise{Answer: store.No, Why: "the bucket does not report what was stored: run `soloist migrate up`"}
	}
	return c, nil
}

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	b := s.backend
	l, err := b.links.get(ctx)
	if err != nil {
		return nil, wrap("connecting", err)
	}
	version := l.nc.ConnectedServerVersion()
	findings := []store.Finding{
		judge("server", atLeast(version, 2, 11), "NATS "+version, store.LevelError, "use 2.11 or later"),
	}
	info, err := b.info(ctx, l)
	switch {
	case errors.Is(err, store.ErrSchema), errors.Is(err, fs.ErrPermission):
		return append(findings, store.Finding{Subject: "bucket", Found: err.Error(), Level: store.LevelError, Fix: "run `soloist migrate up`, or give the user the permissions that docs/stores/nats.md lists"}), nil
	case err != nil:
		return nil, err
	}
	c := &info.Config
	for _, setting := range b.settings() {
		if found := setting.wrong(c); found != "" {
			findings = append(findings, store.Finding{Subject: setting.name, Found: found, Level: store.LevelError, Fix: setting.rule()})
		}
	}
	if len(findings) == 1 {
		findings = append(findings, store.Finding{Subject: "bucket", Found: b.bucket + ", its settings are right", Level: store.LevelOK})
	}
	findings = append(findings,
		judge("replicas", c.Replicas >= 3, strconv.Itoa(c.Replicas), store.LevelWarning, "use three servers and ?replicas=3: one server that ends stops everything"),
		judge("batches", c.AllowAtomicPublish, allowed(c.AllowAtomicPublish), store.LevelWarning,
			"use NATS 2.12 or later and run `soloist migrate up`: leases are extended one by one"),
		judge("waiting", b.wakes(c), allowed(b.wakes(c)), store.LevelWarning, "run `soloist migrate up`: waiters are not notified"),
	)
	if max := c.MaxBytes; max > 0 {
		findings = append(findings, judge("size", info.State.Bytes < uint64(max)/10*8, fmt.Sprintf("%d of %d bytes", info.State.Bytes, max), store.LevelWarning,
			"raise max_bytes of the stream before it is full: then nothing can be acquired or extended"))
	}
	if b.cfg.Synced {
		findings = append(findings, store.Finding{Subject: "sync_interval", Found: `"always", as synced says`, Level: store.LevelOK})
	} else {
		findings = append(findings, store.Finding{Subject: "sync_interval", Found: "a client cannot see it", Level: store.LevelUnknown,
			Fix: "write `sync_interval: always` into the block jetstream of every server, then set synced=true: otherwise a failure of power can make a server forget what it has confirmed"})
	}
	findings = append(findings, s.rights(ctx, l, c))
	if o := &l.nc.Opts; (o.User != "" || o.Token != "" || o.Nkey != "" || o.UserJWT != nil) && !l.nc.AuthRequired() {
		findings = append(findings, store.Finding{Subject: "users", Found: "the server does not check who its clients are: everybody may write", Level: store.LevelWarning,
			Fix: "write users into the server's configuration, or leave user, token and credentials out"})
	}
	return findings, nil
}

// rights checks whether the user may do everything, and writes a message that the server refuses.
func (s *Store) rights(ctx context.Context, l *link, c *jetstream.StreamConfig) store.Finding {
	err := s.Ping(ctx)
	if err == nil {
		_, _, err = s.backend.Walk(ctx, "", 1)
	}
	if err == nil {
		err = s.backend.mayWrite(ctx, l)
	}
	if err == nil && s.backend.wakes(c) {
		var wake <-chan struct{}
		of, cancel := context.WithCancel(ctx)
		if wake, err = s.watch(of, []string{probe}); err == nil {
			cancel()
			<-wake
		}
		cancel()
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return store.Finding{Subject: "rights", Found: err.Error(), Level: store.LevelError, Fix: "give the user the permissions that docs/stores/nats.md lists"}
	case err != nil:
		return store.Finding{Subject: "rights", Found: err.Error(), Level: store.LevelUnknown, Fix: "see the error"}
	}
	return store.Finding{Subject: "rights", Found: "may read, list, write and watch the bucket", Level: store.LevelOK}
}

func allowed(yes bool) string {
	if yes {
		return "on"
	}
	return "off"
}

func judge(subject string, good bool, found string, level store.Level, fix string) store.Finding {
	if good {
		return store.Finding{Subject: subject, Found: found, Level: store.LevelOK}
	}
	return store.Finding{Subject: subject, Found: found, Level: level, Fix: fix}
}
