//go:build unix

package servers

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// The server of NATS is a Go module, of which there is no package; so it is built.
var (
	//go:embed testdata/nats/go.mod.txt
	natsMod string
	//go:embed testdata/nats/go.sum.txt
	natsSum string
)

// A NATSServer is a server of NATS with JetStream.
type NATSServer struct {
	*Process
	Addr    string // host and port for clients
	Monitor string // URL of its reports
}

// NATS starts a server, or servers that are one cluster, and returns when each of them is ready. The lines are added to the configuration file of each.
// A block replaces the one that was there.
func NATS(t Test, servers int, lines ...string) []*NATSServer {
	t.Helper()
	path := built(t, "nats-server", module{"go.mod": natsMod, "go.sum": natsSum}, "github.com/nats-io/nats-server/v2")
	all, routes := make([]*NATSServer, servers), make([]string, servers)
	for i := range all {
		routes[i] = address(FreePort(t))
	}
	for i := range all {
		dir, addr, monitor := Directory(t), address(FreePort(t)), address(FreePort(t))
		config := []string{
			fmt.Sprintf("server_name: n%d", i), "listen: " + addr, "http: " + monitor,
			"jetstream: { max_mem: 64MB, max_file: 1GB }",
		}
		if servers > 1 {
			config = append(config, fmt.Sprintf("cluster: { name: c, listen: %s, routes: [nats://%s] }", routes[i], strings.Join(routes, ", nats://")))
		}
		file := filepath.Join(dir, "nats.conf")
		if err := os.WriteFile(file, []byte(strings.Join(append(config, lines...), "\n")), 0o600); err != nil {
			t.Fatalf("configuring NATS: %v", err)
		}
		p := &Process{t: t, name: fmt.Sprintf("nats-%d", i), path: path, args: []string{"-c", file, "-sd", filepath.Join(dir, "data")}, dir: dir}
		p.ready = func(context.Context) error { return nil } // alone it is not
		all[i] = &NATSServer{Process: p, Addr: addr, Monitor: "http://" + monitor}
	}
	for _, s := range all {
		s.Start()
		t.Cleanup(s.Kill)
	}
	for _, s := range all {
		s.ready = s.serving
		s.waitReady(s.done)
	}
	return all
}

// serving returns nil when the server accepts clients and JetStream has caught up.
func (s *NATSServer) serving(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Monitor+"/healthz?js-server-only=false", nil)
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
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = bufio.NewReader(conn).ReadString('\n') // INFO, with which it begins
	return err
}
