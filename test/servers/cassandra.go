//go:build unix

package servers

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
)

// cassandraAll is the server with all that it needs.
const cassandraAll = "org.apache.cassandra:cassandra-all:5.0.9"

var (
	//go:embed testdata/cassandra.yaml
	cassandraYAML string
	//go:embed testdata/cassandra.opts
	cassandraOptions string
	//go:embed testdata/cassandra-logback.xml
	cassandraLogging string

	cassandraTemplate = template.Must(template.New("cassandra.yaml").Parse(cassandraYAML))
)

// A CassandraServer is a node of Cassandra.
type CassandraServer struct {
	*Process
	Addr string
}

// A cassandraNode is what the configuration of a node is made of.
type cassandraNode struct {
	Dir, Host          string
	Port, Storage, SSL int // the same for all nodes of a cluster
	Alone              bool
	Synced             bool  // a write is acknowledged when it is on disk
	Token              int64 // where its part of the ring begins, if it is not alone
}

// Cassandra starts a cluster of one node. Its superuser is cassandra, with the password cassandra, which the server makes a moment after it has begun
// to listen. It takes about ten seconds of CPU and half a gigabyte of memory.
func Cassandra(t Test) *CassandraServer {
	t.Helper()
	return cassandraAlone(t, false)
}

// CassandraSynced is Cassandra, whose node keeps all that it has acknowledged when it is killed.
func CassandraSynced(t Test) *CassandraServer {
	t.Helper()
	return cassandraAlone(t, true)
}

func cassandraAlone(t Test, synced bool) *CassandraServer {
	t.Helper()
	s := cassandraAt(t, cassandraNode{Host: "127.0.0.1", Port: FreePort(t), Storage: FreePort(t), SSL: FreePort(t), Alone: true, Synced: synced})
	launch(t, s.Process)
	return s
}

// CassandraCluster starts a cluster of n nodes without passwords, and returns when each of them listens. They find each other a moment later, or earlier.
// Only Linux lets them have an address each without more ado. A node takes about 20 seconds of CPU and half a gigabyte of memory.
func CassandraCluster(t Test, n int) []*CassandraServer {
	t.Helper()
	port, storage, ssl := FreePort(t), FreePort(t), FreePort(t)
	nodes := make([]*CassandraServer, n)
	for i := range nodes {
		nodes[i] = cassandraAt(t, cassandraNode{
			Host: fmt.Sprintf("127.0.0.%d", 1+i), Port: port, Storage: storage, SSL: ssl, Token: int64(i) << 60,
		}, "-Dcassandra.ring_delay_ms=10000")
	}
	launch(t, nodes[0].Process) // by which the others find the ring
	for _, node := range nodes[1:] {
		listens := node.ready
		node.ready = func(context.Context) error { return nil }
		launch(t, node.Process)
		node.ready = listens
	}
	for _, node := range nodes[1:] {
		node.waitReady(node.done)
	}
	return nodes
}

// cassandraAt returns a node that is not started yet.
func cassandraAt(t Test, node cassandraNode, options ...string) *CassandraServer {
	t.Helper()
	java := Program(t, "Java", "java")
	path := jars(t, cassandraAll)
	dir := Directory(t)
	node.Dir = dir
	var yaml strings.Builder
	if err := cassandraTemplate.Execute(&yaml, node); err != nil {
		t.Fatalf("writing the configuration of Cassandra: %v", err)
	}
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatalf("writing the configuration of Cassandra: %v", err)
		}
		return name
	}
	args := append([]string{
		"@" + file("java.opts", cassandraOptions),
		"-Dlogback.configurationFile=file://" + file("logback.xml", cassandraLogging),
		"-Dcassandra.config=file://" + file("cassandra.yaml", yaml.String()),
		"-Dcassandra.storagedir=" + dir, "-Dcassandra.jmx.local.port=" + strconv.Itoa(FreePort(t)),
	}, options...)
	args = append(args, "-cp", path, "org.apache.cassandra.service.CassandraDaemon")
	addr := net.JoinHostPort(node.Host, strconv.Itoa(node.Port))
	return &CassandraServer{Process: &Process{name: "cassandra-" + node.Host, path: java, args: args, dir: dir, ready: listening(addr)}, Addr: addr}
}
