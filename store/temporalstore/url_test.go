package temporalstore_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/replication/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"context"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/temporalstore"
)

func TestURLs(t *testing.T) {
	for url, text := range map[string]string{
		"temporal://":                              "HOST or HOST:PORT",
		"temporal://host:0/space":                  "HOST or HOST:PORT",
		"temporal://a,b/space":                     "name one",
		"temporal://user:canary@host/space":        "apikey:KEY",
		"temporal://apikey@host/space":             "apikey:KEY",
		"temporal://apikey:canary@host/space":      "would be sent in clear",
		"temporal://apikey:ca/nary@host/space":     "has an @ after the hosts",
		"temporal://host/sp*ce":                    "255 letters",
		"temporal://host/space/more":               "255 letters",
		"temporal://host/space?prefix=Upper":       "40 small letters",
		"temporal://host/space?prefix=":            "must not be empty",
		"temporal://host/space?prefix=a&prefix=b":  "twice",
		"temporal://host/space?ttl=1s":             "there are cafile, certfile",
		"temporal://host/space?tls=maybe":          "true or false",
		"temporal://host/space?cafile=x":           "tls=true",
		"temporal://host/space?tls=true&cafile=no": "no",
		"temporal:host/space":                      "temporal://HOST",
	} {
		s, err := temporalstore.OpenURL(background, url)
		if s != nil || !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "nary") {
			t.Errorf("%q: %v, want an invalid input that says %q", url, err, text)
		}
	}
	for _, url := range []string{"temporal://host", "temporal://[::1]:7234/a.b?prefix=x-1", "temporal://apikey:key@host/a.b?tls=true&servername=x"} {
		s, err := temporalstore.OpenURL(background, url)
		if err != nil {
			t.Errorf("%q: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil { // it has not connected
			t.Error(err)
		}
		if err := s.Ping(background); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestClients: a store by a URL and one on a client of the SDK share their records, and nil is no client.
func TestClients(t *testing.T) {
	server, cfg := shared(t), fresh()
	byURL, err := temporalstore.OpenURL(background, "temporal://"+server.Addr+"/default?prefix="+cfg.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	defer byURL.Close()
	sdk, err := client.NewLazyClient(client.Options{HostPort: server.Addr})
	if err != nil {
		t.Fatal(err)
	}
	defer sdk.Close()
	bySDK := on(t, sdk, cfg)
	token := grant(t, byURL, "name", "a", time.Hour)
	if err := acquire(t, bySDK, "name", "b", time.Hour).Err; !errors.Is(err, store.ErrHeld) {
		t.Errorf("got %v, want held", err)
	}
	release(t, bySDK, "name", "a", token, store.Forever)
	if again := grant(t, bySDK, "name", "b", time.Hour); again <= token {
		t.Errorf("token %d after %d", again, token)
	}
	if _, err := temporalstore.New(nil, cfg); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v, want that nil is no client", err)
	}
	if _, err := temporalstore.New(sdk, temporalstore.Config{Namespace: "a b"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v, want that the namespace is none", err)
	}
}

// A stuffed server has one record, in a history whose only page is greater than what gRPC takes by default.
type stuffed struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (stuffed) GetWorkflowExecutionHistory(
	_ context.Context, asked *workflowservice.GetWorkflowExecutionHistoryRequest,
) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	if asked.GetExecution().GetWorkflowId() != "soloist:name" {
		return nil, status.Error(codes.NotFound, "there is no such execution")
	}
	input := func(text string) *common.Payloads {
		return &common.Payloads{Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(text)}}}
	}
	const record = `{"name": "name", "version": "w", "holder": "x", "token": 7, "ttl_ns": 3600000000000, "granted_at": "2026-01-02T03:04:05Z"}`
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: &history.History{Events: []*history.HistoryEvent{
		{EventId: 1, EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, Attributes: &history.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &history.WorkflowExecutionStartedEventAttributes{Input: input(record), OriginalExecutionRunId: "run"},
		}},
		{EventId: 2, EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, Attributes: &history.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
			WorkflowExecutionSignaledEventAttributes: &history.WorkflowExecutionSignaledEventAttributes{SignalName: "of another", Input: input(strings.Repeat(" ", 8<<20))},
		}},
	}}}, nil
}

// TestLongPage: a page of a history can be greater than what gRPC takes by default, and a store by a URL reads it.
func TestLongPage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, stuffed{})
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	s, err := temporalstore.OpenURL(background, "temporal://"+l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var held *store.HeldError
	if err := acquire(t, s, "name", "y", time.Hour).Err; !errors.As(err, &held) || held.Record.Holder != "x" {
		t.Errorf("got %v, want that x holds the name", err)
	}
}

// TestPromises: fencing is promised on a database that Temporal is operated on, in one cluster, and nowhere else.
func TestPromises(t *testing.T) {
	for what, test := range map[string]struct {
		database string
		clusters int
		denied   bool
		want     store.Answer
	}{
		"PostgreSQL":              {"postgres12", 1, false, store.Yes},
		"Cassandra":               {"cassandra", 1, false, store.Yes},
		"a development server":    {"sqlite", 1, false, store.Unknown},
		"one that does not say":   {"", 1, false, store.Unknown},
		"two clusters":            {"postgres12", 2, false, store.No},
		"no right to look at all": {"", 1, true, store.Unknown},
	} {
		c := connect(t, shared(t).TemporalServer, grpc.WithUnaryInterceptor(
			func(_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
				if test.denied {
					return status.Error(codes.PermissionDenied, "no")
				}
				switch reply := reply.(type) {
				case *workflowservice.DescribeNamespaceResponse:
					reply.NamespaceInfo = &namespace.NamespaceInfo{State: enums.NAMESPACE_STATE_REGISTERED}
					reply.ReplicationConfig = &replication.NamespaceReplicationConfig{}
					for range test.clusters {
						reply.ReplicationConfig.Clusters = append(reply.ReplicationConfig.Clusters, &replication.ClusterReplicationConfig{})
					}
				case *workflowservice.GetClusterInfoResponse:
					reply.ServerVersion, reply.PersistenceStore = "1.29.0", test.database
				}
				return nil
			}))
		s := on(t, c, temporalstore.Config{})
		got, err := s.Capabilities(background)
		if err != nil || got.Fencing.Answer != test.want || got.Durable.Answer != test.want {
			t.Errorf("%s: %+v, %v, want %v", what, got, err, test.want)
		}
		findings, err := s.Examine(background)
		good := err == nil
		for _, f := range findings {
			good = good && f.Level == store.LevelOK
		}
		if good != (test.want == store.Yes) {
			t.Errorf("%s: %+v, %v", what, findings, err)
		}
	}
	if c, err := on(t, shared(t), temporalstore.Config{}).Capabilities(background); err != nil || c.Fencing.Answer != store.Unknown {
		t.Errorf("the test server: %+v, %v, want unknown", c, err)
	}
}
