package casstore_test

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/soloist-dev/soloist/store/casstore"
)

// A memory is a backend in memory, as simple as one can be.
type memory struct {
	tells bool // a conflict brings the item as it is
	takes bool // it can take what is free

	sequenced bool // versions are numbers that grow over all items, and tokens are versions
	sequence  int64
	versions  map[string]string // of a sequenced backend

	mu       sync.Mutex
	items    map[string]casstore.Record
	requests int
	writes   int
	corrupt  map[string]error
}

func newMemory(tells bool) *memory {
	return &memory{tells: tells, items: map[string]casstore.Record{}, versions: map[string]string{}, corrupt: map[string]error{}}
}

// newTaker returns a backend that can take what is free.
func newTaker() *memory {
	m := newMemory(true)
	m.takes = true
	return m
}

// newSequence returns a backend whose versions are tokens.
func newSequence() *memory {
	m := newMemory(false)
	m.sequenced = true
	return m
}

// config is how a store has to use the backend. TakeFree includes CreateFirst.
func (m *memory) config() casstore.Config {
	return casstore.Config{CreateFirst: m.tells && !m.takes, TakeFree: m.takes, Sequenced: m.sequenced}
}

func (m *memory) item(name string) casstore.Item {
	if err := m.corrupt[name]; err != nil {
		return casstore.Item{Name: name, Err: err}
	}
	r := m.items[name]
	r.State = slices.Clone(r.State)
	version := ""
	if r.Write != "" {
		version = r.Version()
	}
	if m.sequenced {
		version = m.versions[name]
	}
	return casstore.Item{Name: name, Version: version, Record: r}
}

func (m *memory) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	items := make([]casstore.Item, len(names))
	for i, name := range names {
		items[i] = m.item(name)
	}
	return items, nil
}

func (m *memory) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	results := make([]casstore.Result, len(changes))
	for i, c := range changes {
		results[i] = m.write(c)
	}
	return results, nil
}

func (m *memory) write(c casstore.Change) casstore.Result {
	now := m.item(c.Name)
	switch r := now.Record; {
	case now.Err != nil:
		return casstore.Result{Err: now.Err}
	case c.Free && (now.Version == "" || r.Released && r.TTL == 0 && r.Token >= c.Record.Token-1 && r.Token < math.MaxInt64 && (c.Below == 0 || r.Mark < c.Below)):
		taken := *c.Record
		taken.Mark, taken.State, taken.Unsure = r.Mark, r.State, r.Unsure || now.Version == ""
		if now.Version != "" {
			taken.Token = r.Token + 1
		}
		m.writes++
		m.items[c.Name] = taken
		now = m.item(c.Name)
		return casstore.Result{Version: now.Version, Current: &now}
	case c.Free:
		return casstore.Result{Err: casstore.ErrConflict, Current: &now}
	case now.Version != c.Version && m.tells:
		return casstore.Result{Err: casstore.ErrConflict, Current: &now}
	case now.Version != c.Version:
		return casstore.Result{Err: casstore.ErrConflict}
	}
	m.writes++
	m.sequence++
	if c.Record == nil {
		delete(m.items, c.Name)
		delete(m.versions, c.Name)
		return casstore.Result{}
	}
	m.items[c.Name] = *c.Record
	if m.sequenced {
		m.versions[c.Name] = strconv.FormatInt(m.sequence, 10)
		return casstore.Result{Version: m.versions[c.Name]}
	}
	return casstore.Result{Version: c.Record.Version()}
}

func (m *memory) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		m.mu.Lock()
		names := slices.Sorted(maps.Keys(m.items))
		for name := range m.corrupt {
			names = append(names, name)
		}
		m.mu.Unlock()
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if err := ctx.Err(); err != nil {
				yield(casstore.Item{}, err)
				return
			}
			m.mu.Lock()
			item := m.item(name)
			m.mu.Unlock()
			if strings.HasPrefix(name, prefix) && (item.Version != "" || item.Err != nil) && !yield(item, nil) {
				return
			}
		}
	}
}

// Walk gives at most three at a time.
func (m *memory) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	for item, err := range m.List(ctx, "") {
		if err != nil {
			return nil, "", err
		}
		if item.Name <= cursor {
			continue
		}
		if len(items) == min(n, 3) {
			return items, items[len(items)-1].Name, nil
		}
		items = append(items, item)
	}
	return items, "", nil
}

func (m *memory) Close() error { return nil }
