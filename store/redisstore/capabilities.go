package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// A setup is what a server says of itself.
type setup struct {
	info     map[string]string // INFO
	settings map[string]string // CONFIG GET; nil when that is denied
	cluster  bool
	sentinel bool
}

func (s *Store) look(ctx context.Context) (*setup, error) {
	text, err := ask(ctx, s, func(ctx context.Context) (string, error) { return s.client.Info(ctx).Result() })
	if err != nil {
		return nil, err
	}
	up := &setup{info: map[string]string{}}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			up.info[key] = value
		}
	}
	_, up.cluster = s.client.(*redis.ClusterClient)
	up.cluster = up.cluster || up.info["cluster_enabled"] == "1"
	if c, ok := s.client.(*redis.Client); ok {
		up.sentinel = c.Options().Addr == "FailoverClient" // as go-redis names the clients that Sentinels lead
	}
	settings := map[string]string{}
	for _, name := range []string{"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "min-replicas-to-write"} {
		some, err := ask(ctx, s, func(ctx context.Context) (map[string]string, error) { return s.client.ConfigGet(ctx, name).Result() })
		if err != nil {
			return up, nil // denied, or a service that has no CONFIG: what is not known is told as such
		}
		for k, v := range some {
			settings[k] = v
		}
	}
	up.settings = settings
	return up, nil
}

func (up *setup) replicas() int {
	n, _ := strconv.Atoi(up.info["connected_slaves"])
	return n
}

// Capabilities is as in store.Prober: a server's own word, as it is set up now.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	up, err := s.look(ctx)
	if err != nil {
		return store.Capabilities{}, err
	}
	return store.Capabilities{
		Backend: up.name(), Scope: store.ScopeFleet, Fencing: up.fencing(), Durable: up.durable(),
		Waiting: store.Promise{Answer: store.Yes, Why: "a release publishes a message"},
	}, nil
}

func (up *setup) name() string {
	product, version := "Redis", up.info["redis_version"]
	if v := up.info["valkey_version"]; v != "" {
		product, version = "Valkey", v
	}
	kind := "one server"
	switch {
	case up.cluster:
		kind = "cluster"
	case up.sentinel:
		kind = "Sentinel"
	case up.replicas() > 0:
		kind = fmt.Sprintf("%d replicas", up.replicas())
	}
	name := fmt.Sprintf("%s %s, %s", product, version, kind)
	if up.settings != nil {
		name += fmt.Sprintf(", appendonly=%s, appendfsync=%s, maxmemory-policy=%s", up.settings["appendonly"], up.settings["appendfsync"], up.settings["maxmemory-policy"])
	}
	return name
}

// durable is about what was answered: with AOF and fsync at each write it is on the disk before.
func (up *setup) durable() store.Promise {
	switch {
	case up.settings == nil:
		return store.Promise{Answer: store.Unknown, Why: "CONFIG GET is denied, so nobody knows whether writes reach a disk"}
	case up.settings["appendonly"] != "yes":
		return store.Promise{Answer: store.No, Why: "appendonly is off: a crash loses leases and tokens"}
	case up.settings["appendfsync"] != "always":
		return store.Promise{Answer: store.No, Why: "appendfsync is " + up.settings["appendfsync"] + ": a crash loses what was not synced yet"}
	case up.settings["no-appendfsync-on-rewrite"] != "no":
		return store.Promise{Answer: store.No, Why: "no-appendfsync-on-rewrite is on: while the file is written anew nothing is synced"}
	}
	return store.Promise{Answer: store.Yes, Why: "appendonly with appendfsync=always syncs every write, as far as the disk honours fsync"}
}

func (up *setup) evicts() bool {
	return up.settings["maxmemory"] != "0" && up.settings["maxmemory-policy"] != "noeviction"
}

// fencing rests on records that are never lost: on one server that forgets nothing. That tokens also follow the clock is no promise.
func (up *setup) fencing() store.Promise {
	durable := up.durable()
	no := func(why string) store.Promise { return store.Promise{Answer: store.No, Why: "best effort: " + why} }
	switch {
	case up.cluster:
		return no("a cluster's failover loses what its replica has not received, and two nodes can grant at once")
	case up.sentinel, up.replicas() > 0:
		return no("a failover loses what the replica has not received, and two servers can grant at once; WAIT makes that less likely only")
	case up.info["role"] != "" && up.info["role"] != "master":
		return no("this is a replica")
	case up.settings == nil:
		return store.Promise{Answer: store.Unknown, Why: "CONFIG GET is denied, so nobody knows whether records are kept"}
	case up.evicts():
		return no("maxmemory-policy is " + up.settings["maxmemory-policy"] + ", so records can be evicted")
	case durable.Answer != store.Yes:
		return no(durable.Why)
	case up.info["repl_backlog_active"] == "1":
		return no("a replica was attached a while ago, and could take over")
	}
	return store.Promise{Answer: store.Yes, Why: "one server, which runs one script after the other and keeps every record, and no replica that could take over"}
}

// Examine is as in store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	up, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	findings := []store.Finding{up.version(), up.role(), up.persistence(), up.eviction(), up.memory(), up.replication(), s.encryption()}
	if up.cluster {
		findings = append(findings, s.clusterState(ctx))
	}
	findings = append(findings, s.address(ctx)...)
	findings = append(findings, s.clock(ctx)...)
	return append(findings, s.privileges(ctx)), nil
}

func found(subject, what string, level store.Level, fix string) store.Finding {
	return store.Finding{Subject: subject, Found: what, Level: level, Fix: fix}
}

func (up *setup) version() store.Finding {
	major, _, _ := strings.Cut(up.info["redis_version"], ".")
	if n, err := strconv.Atoi(major); err == nil && n < 5 {
		return found("version", up.info["redis_version"], store.LevelError, "use Redis 5 or newer: scripts that read the clock need it")
	}
	return found("version", up.name(), store.LevelOK, "")
}

func (up *setup) role() store.Finding {
	if role := up.info["role"]; role != "master" && !up.cluster {
		return found("role", role, store.LevelError, "connect to the primary: a replica takes no writes")
	}
	return found("role", "primary", store.LevelOK, "")
}

func (up *setup) persistence() store.Finding {
	p := up.durable()
	switch p.Answer {
	case store.Yes:
		return found("persistence", p.Why, store.LevelOK, "")
	case store.No:
		return found("persistence", p.Why, store.LevelWarning, "set appendonly yes and appendfsync always, where a lost lease would be a loss")
	}
	return found("persistence", p.Why, store.LevelUnknown, "let the user call CONFIG GET, or look yourself")
}

func (up *setup) eviction() store.Finding {
	switch {
	case up.settings == nil:
		return found("eviction", "CONFIG GET is denied", store.LevelUnknown, "make sure that maxmemory-policy is noeviction")
	case up.evicts():
		return found("eviction", "maxmemory-policy is "+up.settings["maxmemory-policy"], store.LevelError,
			"set maxmemory-policy noeviction: an evicted record is a lock that two can have. Keep caches on another server")
	}
	return found("eviction", "none: maxmemory "+up.settings["maxmemory"]+", maxmemory-policy "+up.settings["maxmemory-policy"], store.LevelOK, "")
}

func (up *setup) memory() store.Finding {
	used, _ := strconv.ParseFloat(up.info["used_memory"], 64)
	most, _ := strconv.ParseFloat(up.info["maxmemory"], 64)
	text := up.info["used_memory_human"] + " used"
	if most > 0 {
		text += fmt.Sprintf(", %.0f %% of maxmemory", 100*used/most)
		if used > 0.9*most {
			return found("memory", text, store.LevelWarning, "raise maxmemory: when it is full, nothing can be taken or extended")
		}
	}
	return found("memory", text, store.LevelOK, "")
}

func (up *setup) replication() store.Finding {
	if up.replicas() == 0 && !up.cluster && !up.sentinel {
		return found("replication", "none", store.LevelOK, "")
	}
	return found("replication", fmt.Sprintf("%d replicas, min-replicas-to-write %s", up.replicas(), up.settings["min-replicas-to-write"]), store.LevelWarning,
		"a failover can lose grants: let the resource check the fencing token, or use a store that promises fencing")
}

func (s *Store) encryption() store.Finding {
	if s.secure {
		return found("TLS", "on", store.LevelOK, "")
	}
	if s.loopback() {
		return found("TLS", "off, and the server is on this machine", store.LevelOK, "")
	}
	return found("TLS", "off: passwords and records can be read on the way", store.LevelWarning,
		"use rediss:// or a client with TLSConfig, unless nobody else is on that network")
}

func (s *Store) clusterState(ctx context.Context) store.Finding {
	text, err := ask(ctx, s, func(ctx context.Context) (string, error) { return s.client.ClusterInfo(ctx).Result() })
	if err != nil {
		return found("cluster", err.Error(), store.LevelUnknown, "let the user call CLUSTER INFO, or look yourself")
	}
	state := ""
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster_state:"); ok {
			state = v
		}
	}
	if state != "ok" {
		return found("cluster", "state "+state, store.LevelError, "see CLUSTER NODES: a part of the slots has no primary")
	}
	return found("cluster", "state ok", store.LevelOK, "")
}

// clock tells how long the server takes to answer and how its clock differs from this machine's, which nothing depends on.
func (s *Store) clock(ctx context.Context) []store.Finding {
	var trips []time.Duration
	var skew time.Duration
	for range 5 {
		begin := time.Now()
		at, err := ask(ctx, s, func(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() })
		if err != nil {
			return []store.Finding{found("clock", err.Error(), store.LevelUnknown, "let the user call TIME: nothing works without it")}
		}
		trip := time.Since(begin)
		trips, skew = append(trips, trip), at.Sub(begin.Add(trip/2))
	}
	slices.Sort(trips)
	level, fix := store.LevelOK, ""
	if skew.Abs() > time.Second {
		level, fix = store.LevelWarning, "leases do not depend on it, for they go by the server's clock alone; but scheduled times go by the replicas': set one of the two right"
	}
	return append([]store.Finding{
		found("round trip", fmt.Sprintf("%v in the middle of 5", trips[2].Round(time.Microsecond)), store.LevelOK, ""),
		found("clock", fmt.Sprintf("the server's is %v off this machine's", skew.Round(time.Millisecond)), level, fix),
	}, s.setBack(ctx)...)
}
