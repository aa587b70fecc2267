package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A backend is a kind of server, with those who contend on it.
type backend struct {
	name  string
	start func(t servers.Test) (*server, error)
	specs []spec
	java  []javaSpec
	open  func(ctx context.Context, url string) (store.Store, error) // a store of ours
}

// A server is one that runs.
type server struct {
	url     string
	version string
	pid     func() int // 0 if it is not ours, has no process to itself, or count returns its CPU time
	// count returns what the server has been asked since it began, but for what count itself asks.
	count func(context.Context) (counts, error)
}

// counts are what a server has counted.
type counts struct {
	commands int64            // that came from clients
	byName   map[string]int64 // all commands, where the server cannot tell who they came from
	micros   map[string]int64 // how long they took in the server, by the same names, in µs
	called   int64            // of commands, those that scripts have called
	spent    int64            // µs for the commands that came from clients
	written  int64            // bytes to its log of writes
	pushes   int64            // messages published, where they are counted
	cpu      time.Duration    // of the server's processes
	service  time.Duration    // processor time of the process between clients and server, if there is one
}

// since returns what was counted after before. sends are the commands that the contender's clients send, where they are counted by name.
func (c counts) since(before counts, sends []string) counts {
	d := counts{commands: c.commands - before.commands, written: c.written - before.written, cpu: c.cpu - before.cpu, service: c.service - before.service}
	for _, name := range sends {
		d.commands += c.byName[name] - before.byName[name]
		d.spent += c.micros[name] - before.micros[name]
	}
	for name, n := range c.byName {
		if !slices.Contains(sends, name) && !slices.Contains([]string{"info", "hello", "client|setinfo", "ping"}, name) {
			d.called += n - before.byName[name]
		}
	}
	d.pushes = c.byName["publish"] + c.byName["spublish"] - before.byName["publish"] - before.byName["spublish"]
	return d
}

// counted returns the counts with the CPU of the server's processes.
func (s *server) counted(ctx context.Context) (counts, error) {
	c, err := s.count(ctx)
	if pid := s.pid(); pid > 0 {
		c.cpu = processCPU(pid)
	}
	return c, err
}

func backends() []backend {
	return append(redisBackends(), postgresBackend(), mariadbBackend(), sqliteBackend(), etcdBackend(), zookeeperBackend(), consulBackend(), natsBackend(),
		dynamoDBBackend(), cassandraBackend(), hazelcastBackend(), temporalBackend(), memoryBackend(),
	)
}

// backendNames returns the names of all backends, as -backend takes them.
func backendNames() string {
	var names []string
	for _, b := range backends() {
		names = append(names, strings.ToLower(b.name))
	}
	return strings.Join(names, ",")
}

// memoryBackend is the store in memory, which shows what the client costs without a server. It has no peers.
func memoryBackend() backend {
	var records *memstore.Store
	open := func(context.Context, string) (store.Store, error) { return records.Share(), nil }
	return backend{
		name: "Memory", open: open, specs: []spec{oursOn(open)},
		start: func(servers.Test) (*server, error) {
			records = memstore.New()
			return &server{
				version: "in this process", pid: func() int { return 0 },
				count: func(context.Context) (counts, error) { return counts{}, nil },
			}, nil
		},
	}
}
