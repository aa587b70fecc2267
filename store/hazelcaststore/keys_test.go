package hazelcaststore

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist/store"
)

// TestKeysAsMembersHaveThem: what a member without the CP Subsystem replies when it is asked for keys is read or
// refused, and a refusal names the map.
func TestKeysAsMembersHaveThem(t *testing.T) {
	number := append([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8}, make([]byte, 8)...)
	keys := func(data ...[]byte) func(message) message {
		return func(asked message) message {
			m := append(replying(asked), frame{flagBegin, nil})
			for _, d := range data {
				m = m.data(d)
			}
			return append(m, frame{flagEnd, nil})
		}
	}
	for what, c := range map[string]struct {
		reply func(asked message) message
		want  []any
		is    error
	}{
		"none":          {keys(), nil, nil},
		"texts":         {keys(textData("a"), number, textData("ä")), []any{"a", typeID(-8), "ä"}, nil},
		"half a key":    {keys(textData("a"), number[:7]), nil, errProtocol},
		"no list":       {func(asked message) message { return replying(asked) }, nil, errProtocol},
		"not permitted": {func(message) message { return refusing("AccessControlException") }, nil, fs.ErrPermission},
	} {
		m := newOddMember(t)
		m.meddle = func(asked message, reply []byte) ([]byte, bool) {
			switch asked.kind() {
			case typeKeySet:
				reply = c.reply(asked).bytes(asked.correlation())
			case typeCreateGroup, typeGroups:
				reply = refusing("UnsupportedOperationException").bytes(asked.correlation())
			}
			return reply, false
		}
		var client hazelcast.Config
		client.Cluster.Network.Addresses = []string{m.Addr().String()}
		client.Cluster.ConnectionStrategy.Timeout = types.Duration(time.Hour)
		client.Cluster.HeartbeatTimeout = types.Duration(time.Hour)
		b := newBackend(client, Config{Map: "the map"})
		got, err := b.serializedKeys(t.Context())
		if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
			t.Errorf("%s: got %v, %v; want %v, %v", what, got, err, c.want, c.is)
		}
		if err != nil && !strings.Contains(err.Error(), `"the map"`) {
			t.Errorf("%s: %v does not name the map", what, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if _, err := b.serializedKeys(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: after Close: %v", what, err)
		}
	}
	var client hazelcast.Config
	client.Cluster.Cloud.Enabled = true
	client.Cluster.Network.Addresses = []string{"127.0.0.1:1"}
	b := newBackend(client, Config{Map: "the map"})
	defer b.Close()
	if _, err := b.serializedKeys(t.Context()); !errors.Is(err, store.ErrUnusable) {
		t.Errorf("without addresses: %v, want that the map cannot be used so", err)
	}
}
