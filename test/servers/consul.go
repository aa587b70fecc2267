//go:build unix

package servers

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The server of Consul is a Go module, of which there is no package; so it is built.
var (
	//go:embed testdata/consul/go.mod.txt
	consulMod string
	//go:embed testdata/consul/go.sum.txt
	consulSum string
)

// Prepare builds what takes long to build: Consul, with seven minutes of CPU.
func Prepare() error {
	_, missing := prepared()
	if missing != nil {
		return errors.New(missing.why)
	}
	return nil
}

var prepared = begun(ConsulProgram)

// ConsulProgram returns the path of Consul, which is built once on a machine. A short test is skipped if it is not built yet.
func ConsulProgram(t Test) string {
	t.Helper()
	of := module{"go.mod": consulMod, "go.sum": consulSum}
	if testing.Testing() && testing.Short() && !complete(cacheOf("consul", of.text())) {
		t.Skipf("Consul is not built yet, which takes minutes: make test builds it, and go run ./test/servers/prepare")
	}
	return built(t, "consul", of, "github.com/hashicorp/consul")
}

// A ConsulServer is a server of Consul.
type ConsulServer struct {
	*Process
	Addr string // host and port of its HTTP API
}

// Consul starts a server, or servers that are one datacenter, and returns when each of them knows the leader. The settings are added to those in the configuration
// file of each; those of a map to what is in it. A short test is skipped if the server is not built yet.
func Consul(t Test, servers int, settings map[string]any) []*ConsulServer {
	t.Helper()
	path := ConsulProgram(t)
	all, serf, rpc := make([]*ConsulServer, servers), make([]int, servers), make([]int, servers)
	var join []string
	for i := range all {
		serf[i], rpc[i] = FreePort(t), FreePort(t)
		join = append(join, fmt.Sprintf("%s:%d", consulBind, serf[i]))
	}
	for i := range all {
		dir, port := Directory(t), FreePort(t)
		config := map[string]any{
			"server": true, "bootstrap_expect": servers, "node_name": fmt.Sprintf("n%d", i), "data_dir": filepath.Join(dir, "data"),
			"bind_addr": consulBind, "client_addr": "127.0.0.1", "retry_join": join, "retry_interval": "250ms", "disable_update_check": true, "log_level": "warn",
			"ports":       map[string]any{"http": port, "dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1, "serf_lan": serf[i], "server": rpc[i]},
			"performance": map[string]int{"raft_multiplier": 1},
			"connect":     map[string]bool{"enabled": false},
			"limits":      map[string]any{"http_max_conns_per_client": 2000}, // as for a host of many processes, which the tests are
			// Else a server that is away for ten seconds is no voter any more, nor for some time after its return, when a test takes the next one away.
			"autopilot": map[string]any{"cleanup_dead_servers": false},
		}
		for name, value := range settings {
			into, ours := config[name].(map[string]any)
			more, theirs := value.(map[string]any)
			if ours && theirs {
				maps.Copy(into, more)
			} else {
				config[name] = value
			}
		}
		file := filepath.Join(dir, "consul.json")
		text, err := json.Marshal(config)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatalf("configuring Consul: %v", err)
		}
		p := &Process{t: t, name: fmt.Sprintf("consul-%d", i), path: path, args: []string{"agent", "-config-file", file}, dir: dir}
		p.ready = func(context.Context) error { return nil } // alone it is not
		all[i] = &ConsulServer{Process: p, Addr: address(port)}
	}
	for _, s := range all {
		s.Start()
		t.Cleanup(s.Kill)
	}
	for _, s := range all {
		s.ready = s.led
		s.waitReady(s.done)
	}
	return all
}

// consulBind is where servers talk to each other, by UDP too. FreePort holds the UDP ports of 127.0.0.1.
const consulBind = "127.0.0.2"

// led returns nil when the server knows the leader.
func (s *ConsulServer) led(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+"/v1/status/leader", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(text), ":") {
		err = fmt.Errorf("the leader is %q", text)
	}
	return err
}

// Leads reports whether the server is the leader.
func (s *ConsulServer) Leads(ctx context.Context) bool {
	var raft struct {
		Servers []struct {
			Node   string
			Leader bool
		}
	}
	if !replies(ctx, http.MethodGet, "http://"+s.Addr+"/v1/operator/raft/configuration?stale=", "", &raft) {
		return false
	}
	for _, one := range raft.Servers {
		if one.Leader && "consul-"+strings.TrimPrefix(one.Node, "n") == s.name {
			return true
		}
	}
	return false
}
