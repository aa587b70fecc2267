package temporalstore_test

import (
	"errors"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestServerOnPostgreSQL: Temporal itself, rather than its test server.
func TestServerOnPostgreSQL(t *testing.T) {
	servers.Live(t)
	server := servers.TemporalOnPostgres(t)
	c := connect(t, server)
	servers.Wait(t, "the namespace", func() bool {
		_, err := c.WorkflowService().RegisterNamespace(background, &workflowservice.RegisterNamespaceRequest{
			Namespace: "default", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
		})
		var there *serviceerror.NamespaceAlreadyExists
		return errors.As(serviceerror.FromStatus(serviceerror.ToStatus(err)), &there)
	})
	s := on(t, c, fresh())
	servers.Wait(t, "the namespace to be known", func() bool { return s.Ping(background) == nil })
	t.Run("promises", func(t *testing.T) {
		got, err := s.Capabilities(background)
		if err != nil || got.Fencing.Answer != store.Yes || got.Durable.Answer != store.Yes {
			t.Errorf("got %+v, %v, want that both are promised", got, err)
		}
	})
	t.Run("conformance", func(t *testing.T) {
		h := c.harness()
		h.LateLists = true // Temporal's test server lists at once
		storetest.Run(t, h)
	})
	t.Run("killed", func(t *testing.T) {
		token := grant(t, s, "name", "a", time.Hour)
		server.Kill()
		if err := extend(t, s, "name", "a", token); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("got %v, want unknown", err)
		}
		server.Start()
		servers.Wait(t, "the extension", func() bool {
			err := extend(t, s, "name", "a", token)
			if errors.Is(err, store.ErrLost) {
				t.Fatal(err)
			}
			return err == nil
		})
		servers.Wait(t, "that the name is held", func() bool { return errors.Is(acquire(t, s, "name", "b", time.Hour).Err, store.ErrHeld) })
	})
	t.Run("races", func(t *testing.T) { races(t, c) })
	t.Run("exclusion", func(t *testing.T) { exclusion(t, c) })
	t.Run("list", func(t *testing.T) {
		servers.Wait(t, "the name in a list", func() bool {
			for record, err := range s.List(background, "name") {
				if err != nil {
					t.Fatal(err)
				}
				return record.Name == "name"
			}
			return false
		})
	})
}
