package hazelcaststore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/hzerrors"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// flights is how many requests of one batch are under way at once. The client sends them over the same connections.
const flights = 16

// A backend is the entries of one map.
type backend struct {
	reader

	connector *connector
	plain     *links // for the keys that the client library cannot read
	cfg       Config
}

func newBackend(client hazelcast.Config, cfg Config) *backend {
	b := &backend{connector: newConnector(client, cfg), plain: newPlainLinks(client), cfg: cfg}
	b.namesOf, b.read = b.keys, b.Read
	return b
}

// session returns the session, unless its map was seen to be unusable.
func (b *backend) session(ctx context.Context) (*session, error) {
	s, err := b.connector.get(ctx)
	if err != nil {
		return nil, err
	}
	if why := s.unusable.Load(); why != nil {
		return nil, *why
	}
	return s, nil
}

// Read implements casstore.Backend.
func (b *backend) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	items, errs := make([]casstore.Item, len(names)), make([]error, len(names))
	parallel.Do(len(names), flights, func(i int) { items[i], errs[i] = b.look(ctx, s, names[i]) })
	if err := cmp.Or(errs...); err != nil { // one of them is enough to read
		return nil, err
	}
	return items, nil
}

// look requests the view of an entry: it does not come from a cache of the client, and contains whether the entry expires.
func (b *backend) look(ctx context.Context, s *session, name string) (casstore.Item, error) {
	view, err := ask(ctx, b.connector, s, func() (*types.SimpleEntryView, error) { return s.entries.GetEntryView(ctx, name) })
	switch {
	case errors.Is(err, hzerrors.ErrHazelcastSerialization):
		return foreign(name, brief{err}), nil
	case err != nil:
		return casstore.Item{}, wrap("reading", err)
	case view == nil:
		return casstore.Item{Name: name}, nil
	case expires(view):
		why := fmt.Errorf("hazelcaststore: the entry of %q in the map %q expires, and with it its token and what is done: set time-to-live-seconds and max-idle-seconds of the map to 0, and remove the entry when nobody holds the name: %w",
			name, b.cfg.Map, store.ErrUnusable)
		all, err := b.allExpire(ctx, s)
		switch {
		case err != nil:
			return casstore.Item{}, wrap("reading", err)
		case all:
			s.unusable.Store(&why)
			return casstore.Item{}, why
		}
		return casstore.Item{Name: name, Err: why}, nil
	}
	return itemOf(name, view.Value), nil
}

// probe is the key of an entry that is there for a moment. No name has its first character.
const probe = "\x01expiry"

// allExpire reports whether the entries of the map expire, and not just one that something else has written so. It writes one to see that, unless this session has
// seen one that it has written.
func (b *backend) allExpire(ctx context.Context, s *session) (bool, error) {
	if s.looked.Load() {
		return false, nil
	}
	view, err := call(ctx, b.connector, func() (*types.SimpleEntryView, error) {
		if err := s.entries.Set(ctx, probe, ""); err != nil {
			return nil, err
		}
		view, err := s.entries.GetEntryView(ctx, probe)
		_, removing := s.entries.Remove(ctx, probe)
		return view, cmp.Or(err, removing)
	})
	if err != nil || view == nil { // another process has removed it: the next read looks
		return false, err
	}
	s.looked.Store(!expires(view))
	return expires(view), nil
}

// lookOnce looks at an entry that was just written, which has the expiry that the map is configured with, until one was seen that stays. It returns an error if this one
// was not seen to stay.
func (b *backend) lookOnce(ctx context.Context, s *session, w write) error {
	if s.looked.Load() {
		return nil
	}
	name := w.change.Name
	item, err := b.look(ctx, s, name)
	switch err = cmp.Or(err, item.Err); {
	case err != nil:
		return err
	case item.Version == "" && w.change.Record.Released: // it may be forgotten already
		return nil
	case item.Version == "":
		return fmt.Errorf("hazelcaststore: the entry of %q in the map %q was gone as soon as it was written: see that its entries are neither evicted nor removed by something else", name, b.cfg.Map)
	}
	s.looked.Store(true)
	return nil
}

// expires reports whether Hazelcast removes an entry by itself.
func expires(view *types.SimpleEntryView) bool {
	return view.ExpirationTime != math.MaxInt64 || view.MaxIdle != 0 && view.MaxIdle != math.MaxInt64
}

// Write implements casstore.Backend.
func (b *backend) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]casstore.Result, len(changes))
	parallel.Do(len(changes), flights, func(i int) { results[i] = b.write(ctx, s, changes[i]) })
	return results, nil
}

// write changes one entry.
func (b *backend) write(ctx context.Context, s *session, c casstore.Change) casstore.Result {
	if c.Record == nil {
		removed, err := call(ctx, b.connector, func() (bool, error) { return s.entries.RemoveIfSame(ctx, c.Name, c.Version) })
		switch {
		case err != nil:
			return casstore.Result{Err: unsure("removing", err)}
		case !removed:
			return casstore.Result{Err: casstore.ErrConflict}
		}
		return casstore.Result{}
	}
	if n := s.members.count(); n < b.cfg.MinMembers && !c.Record.Released { // they have left since Store.enough, or the client is another one
		return casstore.Result{Err: &FewMembersError{Members: n, MinMembers: b.cfg.MinMembers}}
	}
	w, err := newWrite(c)
	if err != nil {
		return casstore.Result{Err: wrap("writing", err)}
	}
	if c.Version == "" {
		return b.create(ctx, s, w)
	}
	replaced, err := call(ctx, b.connector, func() (bool, error) { return s.entries.ReplaceIfSame(ctx, c.Name, c.Version, w.text) })
	switch {
	case err != nil:
		return casstore.Result{Err: unsure("writing", err)}
	case replaced:
		if err := b.lookOnce(ctx, s, w); err != nil {
			return casstore.Result{Err: store.AsUnknown(err)} // it is written
		}
		return casstore.Result{Version: w.text}
	}
	now, err := b.look(ctx, s, c.Name)
	if err != nil {
		return casstore.Result{Err: store.AsUnknown(err)} // the members may have carried the write out before
	}
	return w.refused(now)
}

// create makes an entry.
func (b *backend) create(ctx context.Context, s *session, w write) casstore.Result {
	found, err := call(ctx, b.connector, func() (any, error) { return s.entries.PutIfAbsent(ctx, w.change.Name, w.text) })
	switch {
	case errors.Is(err, hzerrors.ErrHazelcastSerialization):
		now := foreign(w.change.Name, brief{err})
		return casstore.Result{Err: casstore.ErrConflict, Current: &now}
	case err != nil:
		return casstore.Result{Err: unsure("writing", err)}
	case found == nil || found == w.text: // the members may have repeated it
		if err := b.lookOnce(ctx, s, w); err != nil {
			return casstore.Result{Err: b.takeBack(ctx, s, w, err)}
		}
		return casstore.Result{Version: w.text}
	}
	return w.refused(itemOf(w.change.Name, found))
}

// takeBack removes an entry that was made in a map that cannot be used, and returns why it cannot.
func (b *backend) takeBack(ctx context.Context, s *session, w write, why error) error {
	removed, err := call(ctx, b.connector, func() (bool, error) { return s.entries.RemoveIfSame(ctx, w.change.Name, w.text) })
	if err != nil || !removed {
		return store.AsUnknown(why)
	}
	return why
}

// keys returns the keys of the map that begin with a prefix, in ascending order.
func (b *backend) keys(ctx context.Context, prefix string) (names []string, foreign error, err error) {
	s, err := b.session(ctx)
	if err != nil {
		return nil, nil, err
	}
	keys, err := ask(ctx, b.connector, s, func() ([]any, error) { return s.entries.GetKeySet(ctx) })
	switch {
	case errors.Is(err, hzerrors.ErrHazelcastSerialization):
		if keys, err = b.serializedKeys(ctx); err != nil {
			return nil, nil, err
		}
	case err != nil:
		return nil, nil, wrap("listing", err)
	}
	for _, key := range keys {
		name, ok := key.(string)
		switch {
		case !ok:
			foreign = b.foreignKey(key)
		case strings.HasPrefix(name, prefix) && name != probe:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, foreign, nil
}

// Close implements casstore.Backend.
func (b *backend) Close() error { return cmp.Or(b.connector.close(), b.plain.close()) }
