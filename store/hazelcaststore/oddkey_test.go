package hazelcaststore_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/serialization"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
)

type oddKey struct{ n int64 }

type oddKeys struct{}

func (oddKeys) ID() int32                                         { return 4711 }
func (oddKeys) Read(in serialization.DataInput) interface{}       { return oddKey{in.ReadInt64()} }
func (oddKeys) Write(out serialization.DataOutput, o interface{}) { out.WriteInt64(o.(oddKey).n) }

// TestKeyThatCannotBeRead: a key of a type that this client does not know keeps neither lists nor sweeps from the
// others. Both end with an error about it.
func TestKeyThatCannotBeRead(t *testing.T) {
	m := shared(t)
	cfg := hazelcaststore.Config{Map: fresh()}
	s := open(t, config(m.Addr), cfg)
	tokens := map[string]int64{}
	for _, name := range []string{"a/1", "a/ä😀", "b"} {
		grant, err := acquire(background, s, name)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = grant.Token
	}
	c := config(m.Addr)
	if err := c.Serialization.SetCustomSerializer(reflect.TypeOf(oddKey{}), oddKeys{}); err != nil {
		t.Fatal(err)
	}
	client, err := hazelcast.StartNewClientWithConfig(background, c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Shutdown(background)
	entries, err := client.GetMap(background, cfg.Map)
	if err == nil {
		err = entries.Set(background, oddKey{7}, "x")
	}
	if err != nil {
		t.Fatal(err)
	}
	const found = "a key that has the serialization type 4711"
	for prefix, want := range map[string][]string{"": {"a/1", "a/ä😀", "b"}, "a/": {"a/1", "a/ä😀"}} {
		var names []string
		var last error
		for r, err := range s.List(background, prefix) {
			if last = err; err == nil {
				names = append(names, r.Name)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("the list of %q has %q, want %q", prefix, names, want)
		}
		if !errors.Is(last, store.ErrUnusable) || !says(last, found) {
			t.Errorf("the list of %q ends with %v, want %s", prefix, last, found)
		}
	}
	released, err := s.Release(background, []store.Release{{Name: "b", Holder: "x", Token: tokens["b"]}})
	if err != nil || released[0] != nil {
		t.Fatal(released, err)
	}
	if n, err := s.Sweep(background, 10); n != 1 || !says(err, found) {
		t.Errorf("a sweep forgot %d, %v; want one, and an error about %s", n, err, found)
	}
	if _, err := entries.Remove(background, oddKey{7}); err != nil {
		t.Fatal(err)
	}
	for _, err := range s.List(background, "") {
		if err != nil {
			t.Errorf("the list without that key ends with %v", err)
		}
	}
}
