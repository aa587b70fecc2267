//go:build unix

package servers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// zookeeperJars are the server, and what it needs that its pom.xml does not name.
var zookeeperJars = []artifact{
	"org.apache.zookeeper:zookeeper:3.9.5", "io.dropwizard.metrics:metrics-core:4.1.12.1", "org.xerial.snappy:snappy-java:1.1.10.5",
}

//go:embed testdata/zoo.cfg
var zookeeperText string

var zookeeperTemplate = template.Must(template.New("zoo.cfg").Parse(zookeeperText))

// A ZooKeeperServer is a server of an ensemble of ZooKeeper.
type ZooKeeperServer struct {
	*Process
	Addr string // for clients
}

// ZooKeeper starts an ensemble of some servers, and returns when each of them serves clients. With one, it runs alone.
func ZooKeeper(t Test, n int) []*ZooKeeperServer {
	t.Helper()
	java, path := Program(t, "Java", "java"), jars(t, zookeeperJars...)
	all := make([]*ZooKeeperServer, n)
	var peers []string
	for i := range n {
		if n > 1 {
			peers = append(peers, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, FreePort(t), FreePort(t)))
		}
	}
	for i := range all {
		dir, port := Directory(t), FreePort(t)
		var text strings.Builder
		err := zookeeperTemplate.Execute(&text, map[string]any{"Dir": dir, "Port": port, "Peers": peers})
		config := filepath.Join(dir, "zoo.cfg")
		err = errors.Join(err, os.WriteFile(config, []byte(text.String()), 0o644), os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(i+1)), 0o644))
		if err != nil {
			t.Fatalf("writing the configuration of ZooKeeper: %v", err)
		}
		p := &Process{t: t, name: fmt.Sprintf("zookeeper-%d", i), path: java, dir: dir, args: []string{
			"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
		}}
		p.ready = func(context.Context) error { return nil } // alone it is not
		all[i] = &ZooKeeperServer{Process: p, Addr: address(port)}
	}
	for _, s := range all {
		s.Start()
		t.Cleanup(s.Kill)
	}
	for _, s := range all {
		s.ready = func(context.Context) error { _, err := s.Status(); return err }
		s.waitReady(s.done)
	}
	return all
}

// A ZooKeeperStatus is what a server says of itself.
type ZooKeeperStatus struct {
	Mode     string // "leader", "follower" or "standalone"
	Received int    // packets of clients, with those that ask for the status
}

var zookeeperStatus = regexp.MustCompile(`(?s)Received: (\d+)\n.*Mode: (\w+)\n`)

// Status asks a server. It returns an error if the server does not serve clients.
func (s *ZooKeeperServer) Status() (ZooKeeperStatus, error) {
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		return ZooKeeperStatus{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // it may be paused
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ZooKeeperStatus{}, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return ZooKeeperStatus{}, err
	}
	found := zookeeperStatus.FindStringSubmatch(string(text))
	if found == nil {
		return ZooKeeperStatus{}, fmt.Errorf("it says %q", text)
	}
	received, err := strconv.Atoi(found[1])
	return ZooKeeperStatus{Mode: found[2], Received: received}, err
}
