package natsstore_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestRepliesBelowThePrefixOfInboxes: whatever a store asks, the replies come below the prefix of its connection: its user may have the right to nothing else.
func TestRepliesBelowThePrefixOfInboxes(t *testing.T) {
	server, bucket := servers.NATS(t, 1)[0], fresh()
	watcher, err := nats.Connect("nats://" + server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	elsewhere, err := watcher.SubscribeSync("_INBOX.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := watcher.Flush(); err != nil {
		t.Fatal(err)
	}
	s, err := natsstore.OpenURL(t.Context(), "nats://"+server.Addr+"/"+bucket+"?inboxprefix=_INBOX_x")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Sweep(t.Context(), 10); err != nil {
			t.Error(err)
		}
	}
	if err := watcher.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := elsewhere.Pending(); n != 0 || err != nil {
		t.Errorf("%d replies came to other inboxes, %v", n, err)
	}
}
