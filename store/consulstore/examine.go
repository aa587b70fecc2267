package consulstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"

	"github.com/soloist-dev/soloist/store"
)

// servers returns how many servers agree on each change.
func (b *backend) servers(ctx context.Context) (int, error) {
	r, err := b.do(ctx, http.MethodGet, "/v1/status/peers", nil, nil)
	if err != nil {
		return 0, wrap("counting the servers", err)
	}
	var peers []string
	if err := json.Unmarshal(r.body, &peers); err != nil || len(peers) == 0 {
		return 0, wrap("counting the servers", nonsense("it lists no servers"))
	}
	return len(peers), nil
}

// An agent is what the agent at the address says about itself.
type agent struct {
	Config struct {
		Version    string
		Datacenter string
		Server     bool
	}
	DebugConfig struct {
		DevMode     bool
		ACLsEnabled bool
	}
}

// isServer reports whether an agent is a server of the datacenter in which the records are.
func (b *backend) isServer(a agent) bool {
	return a.Config.Server && (b.cfg.Datacenter == "" || b.cfg.Datacenter == a.Config.Datacenter)
}

// agent asks the agent about itself. The error is fs.ErrPermission without the right agent:read.
func (b *backend) agent(ctx context.Context) (a agent, err error) {
	r, err := b.do(ctx, http.MethodGet, "/v1/agent/self", nil, nil)
	if err != nil {
		return a, wrap("asking the agent", err)
	}
	if err := json.Unmarshal(r.body, &a); err != nil || a.Config.Version == "" {
		return a, wrap("asking the agent", nonsense("it has no version"))
	}
	return a, nil
}

// Capabilities implements store.Prober.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := s.ready(ctx); err != nil {
		return store.Capabilities{}, err
	}
	n, err := s.backend.servers(ctx)
	if err != nil {
		return store.Capabilities{}, err
	}
	a, err := s.backend.agent(ctx)
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return store.Capabilities{}, err
	}
	c := store.Capabilities{
		Backend: "Consul", Scope: store.ScopeFleet,
		Fencing: store.Promise{Answer: store.Yes, Why: "a token is the index in Consul's log of the write that granted the name, which a majority of the servers has agreed on"},
		Durable: store.Promise{Answer: store.Yes, Why: fmt.Sprintf("a majority of %d servers has written to its disks before Consul replies, unless they run with -dev", n)},
		Waiting: store.Promise{Answer: store.Yes, Why: fmt.Sprintf("Consul reports a release to those who watch the name, up to %d names in a process", mostWatched)},
	}
	if n == 1 {
		c.Durable.Why = "the only server writes to its disk before it replies, unless it runs with -dev; what the disk loses is lost"
	}
	if a.Config.Version != "" {
		c.Backend += " " + a.Config.Version
	}
	c.Backend += ", servers: " + strconv.Itoa(n)
	switch {
	case n == 1 && !s.backend.isServer(a): // only a server that is alone can run with -dev
		why := "the only server may run with -dev, which keeps everything in memory: name its own address, and a token that may read the agent, to have that checked"
		c.Durable, c.Fencing = store.Promise{Answer: store.Unknown, Why: why}, store.Promise{Answer: store.Unknown, Why: why}
	case a.DebugConfig.DevMode:
		why := "the server runs with -dev: it keeps everything in memory, and begins to count its indexes anew when it starts again"
		c.Durable, c.Fencing = store.Promise{Answer: store.No, Why: why}, store.Promise{Answer: store.No, Why: why}
	}
	return c, nil
}

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	n, err := s.backend.servers(ctx)
	if err != nil {
		return nil, err
	}
	findings := []store.Finding{judge("servers", n >= 3 && n%2 == 1, strconv.Itoa(n), store.LevelWarning, "use three or five: with one that ends everything stops")}
	a, err := s.backend.agent(ctx)
	switch {
	case errors.Is(err, fs.ErrPermission):
		findings = append(findings, store.Finding{Subject: "agent", Found: "the token may not read it", Level: store.LevelUnknown,
			Fix: `give it agent_prefix "" { policy = "read" } to have the mode and the ACLs of the agent examined; the store does not need it`})
	case err != nil:
		return nil, err
	default:
		findings = append(findings,
			judge("agent", !a.DebugConfig.DevMode, "Consul "+a.Config.Version+devMode(a), store.LevelError, "run servers with -data-dir and without -dev"),
			judge("ACLs", a.DebugConfig.ACLsEnabled, enabled(a.DebugConfig.ACLsEnabled), store.LevelWarning, "enable them: everybody who reaches the agent can change the records"))
	}
	if c := s.backend.cfg; c.TLS == nil && slices.ContainsFunc(c.Addresses, remote) {
		found, level := "without TLS", store.LevelWarning
		findings = append(findings, store.Finding{Subject: "connection", Found: found, Level: level, Fix: "use tls=true, or the agent of this machine: the token and everything else can be read on the way"})
	}
	return append(findings, s.rights(ctx)), nil
}

// rights checks whether the token may do everything.
func (s *Store) rights(ctx context.Context) store.Finding {
	err := s.Ping(ctx)
	if err == nil {
		_, err = s.backend.keys(ctx, "")
	}
	if err == nil {
		err = s.backend.mayWrite(ctx)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return store.Finding{Subject: "rights", Found: err.Error(), Level: store.LevelError, Fix: "give the token the policy that docs/stores/consul.md lists"}
	case err != nil:
		return store.Finding{Subject: "rights", Found: err.Error(), Level: store.LevelUnknown, Fix: "see the error"}
	}
	return store.Finding{Subject: "rights", Found: "may read, list and write below " + s.backend.cfg.Prefix + "/", Level: store.LevelOK}
}

// remote reports whether an address is that of another machine.
func remote(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, _ := netip.ParseAddr(host)
	return host != "localhost" && !ip.IsLoopback()
}

func devMode(a agent) string {
	if a.DebugConfig.DevMode {
		return ", with -dev"
	}
	return ""
}

func enabled(yes bool) string {
	if yes {
		return "enabled"
	}
	return "disabled"
}

func judge(subject string, good bool, found string, level store.Level, fix string) store.Finding {
	if good {
		return store.Finding{Subject: subject, Found: found, Level: store.LevelOK}
	}
	return store.Finding{Subject: subject, Found: found, Level: level, Fix: fix}
}
