package hazelcaststore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/soloist-dev/soloist/store"
)

// A typeID is what stands for a key that is no text, where keys are read as the members have them: what the key is.
type typeID int32

// newPlainLinks returns links to members with the CP Subsystem or without. There is none before the first request.
func newPlainLinks(client hazelcast.Config) *links {
	d := newDialer(client)
	d.plain = true
	if client.Cluster.Cloud.Enabled { // only the client library finds its members
		d.addrs = nil
	}
	return newLinks(d)
}

// serializedKeys returns the keys of a map that has some which the client library cannot read: it returns none of them
// then. Those that are texts are strings here, the others are of type typeID.
func (b *backend) serializedKeys(ctx context.Context) ([]any, error) {
	const fix = "use a map that nothing else writes to, and remove the entry"
	if len(b.plain.dialer.addrs) == 0 {
		return nil, fmt.Errorf("hazelcaststore: the map %q has a key that this client cannot read, and without addresses "+
			"of members its names cannot be listed: %s: %w", b.cfg.Map, fix, store.ErrUnusable)
	}
	replied, err := b.plain.ask(ctx, "listing", func(*link) message { return request(typeKeySet).text(b.cfg.Map) })
	var keys []any
	if err == nil {
		keys, err = replied.keys()
	}
	if err != nil && !errors.Is(err, store.ErrClosed) {
		err = fmt.Errorf("%w (the map %q has a key that this client cannot read, so that its names are asked for "+
			"through another connection: %s)", err, b.cfg.Map, fix)
	}
	return keys, err
}

// keys reads a reply with keys.
func (r *reply) keys() (keys []any, err error) {
	for r.begin(); !r.ends(); {
		data := r.next().content
		switch text, ok := textOf(data); {
		case ok:
			keys = append(keys, text)
		case len(data) < len(textHead):
			r.err = errProtocol
		default:
			keys = append(keys, typeID(binary.BigEndian.Uint32(data[4:])))
		}
	}
	if r.err != nil {
		return nil, wrap("listing", r.err)
	}
	return keys, nil
}

// foreignKey is the error of a key that no store has written.
func (b *backend) foreignKey(key any) error {
	kind := fmt.Sprintf("is a %T", key)
	if id, ok := key.(typeID); ok {
		kind = fmt.Sprintf("has the serialization type %d", id)
	}
	return fmt.Errorf("hazelcaststore: the map %q has a key that %s: "+
		"use a map that nothing else writes to, and remove the entry: %w", b.cfg.Map, kind, store.ErrUnusable)
}
