package temporalstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/store/temporalstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var background = context.Background()

// A peer is a connection to a server, as New takes it.
type peer struct {
	*servers.TemporalServer
	conn *grpc.ClientConn
}

func (c peer) WorkflowService() workflowservice.WorkflowServiceClient {
	return workflowservice.NewWorkflowServiceClient(c.conn)
}

func connect(t servers.Test, server *servers.TemporalServer, options ...grpc.DialOption) peer {
	t.Helper()
	conn, err := grpc.NewClient("dns:///"+server.Addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return peer{server, conn}
}

var shared = servers.Shared(func(t servers.Test) peer { return connect(t, servers.Temporal(t)) })

var prefixes atomic.Int64

// fresh returns a configuration that no other test has.
func fresh() temporalstore.Config {
	return temporalstore.Config{Prefix: fmt.Sprintf("test-%d", prefixes.Add(1))}
}

func on(t testing.TB, c temporalstore.Client, cfg temporalstore.Config) *temporalstore.Store {
	t.Helper()
	s, err := temporalstore.New(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A handle is a store with its configuration.
type handle struct {
	*temporalstore.Store
	cfg temporalstore.Config
}

// Unwrap is the convention of package store.
func (h handle) Unwrap() store.Store { return h.Store }

func TestConformance(t *testing.T) { storetest.Run(t, shared(t).harness()) }

// harness opens stores on a server for the conformance suite.
func (c peer) harness() storetest.Harness {
	return storetest.Harness{
		Open: func(t testing.TB) store.Store {
			cfg := fresh()
			return handle{on(t, c, cfg), cfg}
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			return handle{on(t, c, s.(handle).cfg), s.(handle).cfg}
		},
		Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
			return c.corrupt(t, s.(handle).cfg, name, way)
		},
		Fail: func(t testing.TB, s store.Store, fate func() storetest.Fate) store.Store {
			failing := through(t, c.TemporalServer, func(_ string, send func() error) error {
				fate := fate()
				if fate == storetest.Lost {
					return errLost
				}
				if err := send(); err != nil || fate == storetest.Carried {
					return err
				}
				return errLost
			})
			return handle{on(t, failing, s.(handle).cfg), s.(handle).cfg}
		},
		TTL:   time.Second,
		Names: 300,
	}
}

// events returns the history of a workflow execution.
func (c peer) events(t testing.TB, id string) []*history.HistoryEvent {
	t.Helper()
	page, err := c.WorkflowService().GetWorkflowExecutionHistory(background, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: "default", Execution: &common.WorkflowExecution{WorkflowId: id},
	})
	if err != nil {
		t.Fatal(err)
	}
	return page.GetHistory().GetEvents()
}

// last returns the last write of a history, as JSON.
func last(events []*history.HistoryEvent) (text string) {
	for _, e := range events {
		for _, p := range [][]*common.Payload{e.GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads(), e.GetWorkflowExecutionSignaledEventAttributes().GetInput().GetPayloads()} {
			if len(p) == 1 {
				text = string(p[0].GetData())
			}
		}
	}
	return text
}

func (c peer) signal(t testing.TB, id, signal, text string) {
	t.Helper()
	_, err := c.WorkflowService().SignalWorkflowExecution(background, &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &common.WorkflowExecution{WorkflowId: id}, SignalName: signal,
		Input: &common.Payloads{Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(text)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// corrupt sends a write that no store sends. What it is made of is the last write, which it replaces.
func (c peer) corrupt(t testing.TB, cfg temporalstore.Config, name string, way int) string {
	t.Helper()
	id := cfg.Prefix + ":" + name
	var write map[string]any
	if err := json.Unmarshal([]byte(last(c.events(t, id))), &write); err != nil {
		t.Fatal(err)
	}
	write["replaces"], write["version"] = write["version"], "edited"
	set := func(key string, value any) func() { return func() { write[key] = value } }
	ways := []struct {
		what string
		edit func()
	}{
		{"a text that is no record", nil},
		{"a field that is not known", set("owner", "x")},
		{"another name", set("name", "another")},
		{"no version", set("version", "")},
		{"no holder", set("holder", "")},
		{"a token that is no number", set("token", "x")},
		{"a token of 0", set("token", 0)},
		{"a negative mark", set("mark", -1)},
		{"a TTL that no store takes", set("ttl_ns", int64(1<<63-1))},
		{"no time of its grant", func() { delete(write, "granted_at") }},
		{"a state that is too large", set("state", strings.Repeat("AAAA", store.MaxState/3+1))},
	}
	if way >= len(ways) {
		return ""
	}
	text := "held"
	if ways[way].edit != nil {
		ways[way].edit()
		edited, err := json.Marshal(write)
		if err != nil {
			t.Fatal(err)
		}
		text = string(edited)
	}
	c.signal(t, id, "soloist-write", text)
	return ways[way].what
}
