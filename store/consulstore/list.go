package consulstore

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/soloist-dev/soloist/store/casstore"
)

// page is how many records a list reads at once.
const page = flights * mostOperations

// List implements casstore.Backend. It reads all keys with one request, and then their records, some at a time.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		keys, err := b.keys(ctx, prefix)
		names := map[string]string{} // and their keys
		for _, key := range keys {
			name, ok := nameOf(b.cfg.Prefix, key)
			if !ok {
				name = probe + key
			}
			names[name] = key
		}
		for some := range slices.Chunk(slices.Sorted(maps.Keys(names)), page) {
			var items []casstore.Item
			if items, err = b.named(ctx, some, names); err != nil {
				break
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(casstore.Item{}, err)
		}
	}
}

// named returns the items of names that are there. A name that stands for a key of no name has an error.
func (b *backend) named(ctx context.Context, names []string, keys map[string]string) (items []casstore.Item, err error) {
	var readable []string
	for _, name := range names {
		if strings.HasPrefix(name, probe) {
			items = append(items, casstore.Item{Name: name, Err: fmt.Errorf("consulstore: the key %q is that of no name: something else has written it", keys[name])})
		} else {
			readable = append(readable, name)
		}
	}
	read, err := b.Read(ctx, readable)
	for _, item := range read {
		if item.Version != "" || item.Err != nil {
			items = append(items, item)
		}
	}
	return items, err
}

// keys returns the keys of names that begin with a prefix, in ascending order. The error is fs.ErrPermission if the token may not read all of them.
func (b *backend) keys(ctx context.Context, prefix string) ([]string, error) {
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	r, err := b.do(ctx, http.MethodGet, b.path(keyOf(b.cfg.Prefix, prefix)), b.scoped(url.Values{"keys": {""}, "consistent": {""}}), nil, http.StatusNotFound)
	if err != nil {
		return nil, wrap("listing", err)
	}
	if r.header.Get("X-Consul-Results-Filtered-By-ACLs") == "true" {
		return nil, fmt.Errorf("consulstore: listing: %w: the token may not read all keys: %s", fs.ErrPermission, rightsFix)
	}
	if r.status == http.StatusNotFound { // without a token Consul does not say that it has left something out; to a read it replies with less than was asked for
		items, err := b.Read(ctx, []string{prefix + probe})
		if err != nil {
			return nil, err
		}
		return nil, items[0].Err
	}
	var keys []string
	if err := json.Unmarshal(r.body, &keys); err != nil {
		return nil, wrap("listing", nonsense("it cannot be read: %w", err))
	}
	slices.Sort(keys)
	return keys, nil
}

// Walk implements casstore.Backend. Consul returns all keys at once. So one round reads the keys once, and its calls look at some of them each. The cursor is the last
// key that was looked at.
func (b *backend) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	rest, err := b.left(ctx, cursor)
	if err != nil {
		return nil, "", err
	}
	some := rest[:min(n, len(rest))]
	names, of := make([]string, len(some)), map[string]string{}
	for i, key := range some {
		name, ok := nameOf(b.cfg.Prefix, key)
		if !ok {
			name = probe + key
		}
		names[i], of[name] = name, key
	}
	if items, err = b.named(ctx, names, of); err != nil {
		return nil, "", err
	}
	if len(some) < len(rest) {
		next = some[len(some)-1]
	}
	return items, next, nil
}

// left returns the keys after a cursor.
func (b *backend) left(ctx context.Context, cursor string) ([]string, error) {
	b.mu.Lock()
	rest := b.rest
	b.mu.Unlock()
	if cursor == "" {
		var err error
		if rest, err = b.keys(ctx, ""); err != nil {
			return nil, err
		}
	}
	at, found := slices.BinarySearch(rest, cursor)
	if found {
		at++
	}
	rest = rest[at:]
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = rest
	return rest, nil
}
