//go:build unix

package servers

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
)

// The server of etcd is a Go module, of which there is no package; so it is built.
var (
	//go:embed testdata/etcd/main.go.txt
	etcdMain string
	//go:embed testdata/etcd/go.mod.txt
	etcdMod string
	//go:embed testdata/etcd/go.sum.txt
	etcdSum string
)

// etcdProgram returns the path of the server. Building it takes about 40 seconds of CPU.
func etcdProgram(t Test) string {
	t.Helper()
	return built(t, "etcd", module{"main.go": etcdMain, "go.mod": etcdMod, "go.sum": etcdSum}, ".")
}

// An EtcdServer is a member of a cluster of etcd.
type EtcdServer struct {
	*Process
	Addr string // host and port for clients
	URL  string // http://Addr, which also has /metrics and /health
}

// Etcd starts a cluster of some members, and returns when each of them knows the leader. The flags are added to those of each member.
func Etcd(t Test, members int, flags ...string) []*EtcdServer {
	t.Helper()
	path := etcdProgram(t)
	all, peers, names := make([]*EtcdServer, members), make([]string, members), make([]string, members)
	for i := range all {
		peers[i] = "http://" + address(FreePort(t))
		names[i] = fmt.Sprintf("m%d=%s", i, peers[i])
	}
	for i := range all {
		dir, addr := Directory(t), address(FreePort(t))
		args := append([]string{
			"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(dir, "data"), "--log-level", "warn", "--unsafe-no-fsync",
			"--listen-client-urls", "http://" + addr, "--advertise-client-urls", "http://" + addr,
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(names, ","), "--initial-cluster-state", "new",
		}, flags...)
		p := &Process{t: t, name: fmt.Sprintf("etcd-%d", i), path: path, args: args, dir: dir}
		p.ready = func(context.Context) error { return nil } // alone it is not
		all[i] = &EtcdServer{Process: p, Addr: addr, URL: "http://" + addr}
	}
	for _, m := range all {
		m.Start()
		t.Cleanup(m.Kill)
	}
	for _, m := range all {
		m.ready = healthy(m.URL)
		m.waitReady(m.done)
	}
	return all
}

// healthy returns nil when a member has a leader.
func healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health?serializable=false", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("its health is %s", response.Status)
		}
		return nil
	}
}
