package consulstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/jsonrecord"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// flights is how many transactions of one batch are under way at once.
const flights = 8

// A backend is the keys below one prefix.
type backend struct {
	*client
	high atomic.Uint64             // the highest index of a record that was read, or of a write that Consul has confirmed
	fell atomic.Pointer[fellError] // the index has fallen: records may have tokens that were granted before

	mu      sync.Mutex
	checked bool     // Consul accepts the namespace and the partition
	rest    []string // keys that the round of Walk has not come to
}

// consistent has the leader confirm that it still is the leader, before it reads.
var consistent = url.Values{"consistent": {""}}

// check returns an error if the index has fallen, and if Consul has no namespaces, but one is configured: then transactions would ignore it.
func (b *backend) check(ctx context.Context) error {
	if fell := b.fell.Load(); fell != nil {
		return wrap("checking the index", fell)
	}
	b.mu.Lock()
	checked := b.checked
	b.mu.Unlock()
	if checked || b.cfg.Namespace == "" && b.cfg.Partition == "" {
		return nil
	}
	if _, err := b.do(ctx, http.MethodGet, b.path(keyOf(b.cfg.Prefix, probe)), b.scoped(nil), nil, http.StatusNotFound); err != nil {
		return wrap("checking the namespace", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked = true
	return nil
}

// probe is no record's name: it has a control character.
const probe = "\x01rights"

// path returns that of a key, outside of transactions.
func (*backend) path(key string) string { return "/v1/kv/" + key }

// scoped returns a query with namespace and partition.
func (b *backend) scoped(with url.Values) url.Values {
	query := url.Values{}
	maps.Copy(query, with)
	if b.cfg.Namespace != "" {
		query.Set("ns", b.cfg.Namespace)
	}
	if b.cfg.Partition != "" {
		query.Set("partition", b.cfg.Partition)
	}
	return query
}

// Read implements casstore.Backend. The leader reads, after a majority has confirmed that it still is the leader.
func (b *backend) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	items, errs := make([]casstore.Item, len(names)), make([]error, (len(names)+mostOperations-1)/mostOperations)
	parallel.Do(len(errs), flights, func(i int) {
		from, to := i*mostOperations, min((i+1)*mostOperations, len(names))
		errs[i] = b.read(ctx, names[from:to], items[from:to])
	})
	if err := cmp.Or(errs...); err != nil { // one is enough: it fails all
		return nil, wrap("reading", err)
	}
	return items, nil
}

// read reads the records of names into items.
func (b *backend) read(ctx context.Context, names []string, items []casstore.Item) error {
	operations := make([]operation, len(names))
	for i, name := range names {
		operations[i] = b.operation("get-or-empty", keyOf(b.cfg.Prefix, name), 0, nil)
	}
	entries, failures, err := b.transact(ctx, operations, consistent)
	switch {
	case err != nil:
		return err
	case len(failures) > 0:
		return fmt.Errorf("%.300q: Consul 1.14 or later is needed", failures[0].What)
	}
	for i, name := range names {
		key := operations[i].KV.Key
		if len(entries) == 0 || entries[0].Key != key { // Consul leaves out what the token may not read
			items[i] = casstore.Item{Name: name, Err: fmt.Errorf("consulstore: reading the key %q: %w: %s", key, fs.ErrPermission, rightsFix)}
			continue
		}
		items[i], entries = b.item(name, entries[0]), entries[1:]
	}
	if len(entries) > 0 {
		return nonsense("it has the key %q in the wrong place", entries[0].Key)
	}
	return nil
}

// item returns what an entry says about a name.
func (b *backend) item(name string, e entry) casstore.Item {
	if e.ModifyIndex == 0 {
		return casstore.Item{Name: name}
	}
	r, err := jsonrecord.Decode(e.Value)
	switch {
	case err != nil:
	case e.ModifyIndex > math.MaxInt64:
		err = errors.New("its index is too large for a token")
	case e.Session != "":
		err = errors.New("it is locked by a session, which may delete it")
	case r.Token > int64(e.ModifyIndex): //nolint:gosec // it was compared
		err = fmt.Errorf("its token %d is greater than its index, so it was imported from another datacenter, and tokens would be granted again", r.Token)
	}
	if err != nil {
		return casstore.Item{Name: name, Err: fmt.Errorf("consulstore: the value of the key %q: %w: something else has written it; delete it when nobody holds %q", e.Key, err, name)}
	}
	b.confirm(e.ModifyIndex)
	if r.Token == 0 {
		r.Token = int64(e.ModifyIndex) //nolint:gosec // it was compared
	}
	return casstore.Item{Name: name, Version: strconv.FormatUint(e.ModifyIndex, 10), Record: r}
}

// Write implements casstore.Backend. A transaction has up to 128 changes. Consul carries out all changes of one, or none, and reports those that it has refused. Then the
// others are sent again.
func (b *backend) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	results, operations := make([]casstore.Result, len(changes)), make([]operation, len(changes))
	var which []int
	for i, c := range changes {
		if operations[i], results[i].Err = b.change(c); results[i].Err == nil {
			which = append(which, i)
		}
	}
	batches := divided(operations, which)
	parallel.Do(len(batches), flights, func(i int) { b.write(ctx, operations, batches[i], results) })
	return results, nil
}

// change returns the operation of a change.
func (b *backend) change(c casstore.Change) (operation, error) {
	index := uint64(0)
	if c.Version != "" {
		var err error
		if index, err = strconv.ParseUint(c.Version, 10, 64); err != nil {
			return operation{}, fmt.Errorf("consulstore: the version %q is none of Consul", c.Version)
		}
	}
	key := keyOf(b.cfg.Prefix, c.Name)
	if c.Record == nil {
		return b.operation("delete-cas", key, index, nil), nil
	}
	value, err := jsonrecord.Encode(c.Record)
	return b.operation("cas", key, index, value), wrap(fmt.Sprintf("writing the key %q", key), err)
}

// divided returns the indexes of some operations by transactions.
func divided(operations []operation, which []int) (batches [][]int) {
	var batch []int
	size := 0
	for _, i := range which {
		o := operations[i]
		own := len(o.KV.Value)*4/3 + len(o.KV.Key) + 300
		if len(batch) == mostOperations || len(batch) > 0 && size+own > largestRequest {
			batches, batch, size = append(batches, batch), nil, 0
		}
		batch, size = append(batch, i), size+own
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches
}

// write carries out the operations of one transaction.
func (b *backend) write(ctx context.Context, all []operation, which []int, results []casstore.Result) {
	for len(which) > 0 {
		operations := make([]operation, len(which))
		for i, at := range which {
			operations[i] = all[at]
		}
		before := b.high.Load()
		var version string
		entries, failures, err := b.transact(ctx, operations, nil)
		if err == nil && len(failures) == 0 {
			version, err = b.written(operations, entries, before)
		}
		if err != nil || len(failures) == 0 {
			for i, at := range which {
				results[at].Err = unsure("writing", err)
				if err == nil && operations[i].KV.Verb == "cas" {
					results[at].Version = version
				}
			}
			return
		}
		refused := map[int]bool{}
		for _, f := range failures {
			refused[f.OpIndex] = true
			results[which[f.OpIndex]].Err = cmp.Or(f.wrap(), casstore.ErrConflict)
		}
		var rest []int
		for i, at := range which {
			if !refused[i] {
				rest = append(rest, at)
			}
		}
		which = rest
	}
}

// written checks the reply to a transaction that was carried out, and returns the version that all its writes have. before is an index that was known before the
// transaction was sent. If the index has fallen, the record is there with a token that is too small, so the store refuses all that follows.
func (b *backend) written(operations []operation, entries []entry, before uint64) (string, error) {
	index := uint64(0)
	for _, o := range operations {
		if o.KV.Verb != "cas" {
			continue
		}
		if len(entries) == 0 || entries[0].Key != o.KV.Key || entries[0].ModifyIndex == 0 || entries[0].ModifyIndex > math.MaxInt64 || index != 0 && entries[0].ModifyIndex != index {
			return "", nonsense("it has no index of the key %q", o.KV.Key)
		}
		index, entries = entries[0].ModifyIndex, entries[1:]
	}
	switch {
	case len(entries) > 0:
		return "", nonsense("it has the key %q, which was not written", entries[0].Key)
	case index == 0: // there were deletions only
		return "", nil
	case index <= before:
		b.fell.CompareAndSwap(nil, &fellError{from: before, to: index})
		return "", b.fell.Load()
	}
	b.confirm(index)
	return strconv.FormatUint(index, 10), nil
}

// confirm remembers an index that Consul has reached.
func (b *backend) confirm(index uint64) {
	for known := b.high.Load(); index > known && !b.high.CompareAndSwap(known, index); {
		known = b.high.Load()
	}
}

// Close implements casstore.Backend.
func (b *backend) Close() error {
	b.end()
	return nil
}

// mayWrite asks for a change that cannot be carried out: no key has that index.
func (b *backend) mayWrite(ctx context.Context) error {
	_, failures, err := b.transact(ctx, []operation{b.operation("delete-cas", keyOf(b.cfg.Prefix, probe), 0, nil)}, nil)
	if err != nil {
		return wrap("checking rights", err)
	}
	for _, f := range failures {
		return f.wrap()
	}
	return nil
}
