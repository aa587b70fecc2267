//go:build unix

package servers

import (
	_ "embed"
	"fmt"
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

// A CassandraServer is a cluster of one node. Its superuser is cassandra, with the password cassandra, which the server makes
// a moment after it has begun to listen.
type CassandraServer struct {
	*Process
	Addr string
}

// Cassandra starts one node. It takes about ten seconds of CPU and half a gigabyte of memory.
func Cassandra(t Test) *CassandraServer {
	t.Helper()
	java := Program(t, "Java", "java")
	path := jars(t, cassandraAll)
	dir, port := Directory(t), FreePort(t)
	var yaml strings.Builder
	if err := cassandraTemplate.Execute(&yaml, struct {
		Dir                string
		Port, Storage, SSL int
	}{dir, port, FreePort(t), FreePort(t)}); err != nil {
		t.Fatalf("writing the configuration of Cassandra: %v", err)
	}
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatalf("writing the configuration of Cassandra: %v", err)
		}
		return name
	}
	args := []string{
		"@" + file("java.opts", cassandraOptions),
		"-Dlogback.configurationFile=file://" + file("logback.xml", cassandraLogging),
		"-Dcassandra.config=file://" + file("cassandra.yaml", yaml.String()),
		"-Dcassandra.storagedir=" + dir, "-Dcassandra.jmx.local.port=" + strconv.Itoa(FreePort(t)),
		"-cp", path, "org.apache.cassandra.service.CassandraDaemon",
	}
	p := launch(t, &Process{name: fmt.Sprintf("cassandra-%d", port), path: java, args: args, dir: dir, ready: listening(address(port))})
	return &CassandraServer{Process: p, Addr: address(port)}
}
