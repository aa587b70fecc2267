// Package memstore provides a store in the memory of one process. It is the reference for the other stores, and a store
// for tests. It uses package time only, so it works in a testing/synctest bubble.
package memstore

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/tokens"
)

// A Store is a handle on records in memory. It is safe for concurrent use.
type Store struct {
	mem    *memory
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

type memory struct {
	mu       sync.Mutex
	records  map[string]*record
	names    []string // of all records, in their order; nil until the next list if one may have been added or forgotten
	watchers map[string]map[chan struct{}]struct{}
	floor    int64 // the greatest token of all forgotten records
}

type record struct {
	holder string // of the last grant, also after its release
	token  int64
	mark   int64
	state  []byte
	since  time.Time // of the last grant
	until  time.Time // end of the lease or linger

	released bool
	retain   time.Time // of a released record: when it may be forgotten; zero means never

	line []*place // the waiters, in the order in which they called Queue
}

// New returns an empty store.
func New() *Store {
	return open(&memory{records: map[string]*record{}, watchers: map[string]map[chan struct{}]struct{}{}})
}

// Share returns another handle on the same records, as another process would open on a backend.
func (s *Store) Share() *Store { return open(s.mem) }

func open(m *memory) *Store {
	s := &Store{mem: m}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close closes the handle and its watches. The records stay for other handles.
func (s *Store) Close() error {
	s.cancel()
	return nil
}

// lock locks the memory and returns it with the time, unless the handle is closed or ctx has ended.
func (s *Store) lock(ctx context.Context) (*memory, time.Time, error) {
	if s.ctx.Err() != nil {
		return nil, time.Time{}, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	s.mem.mu.Lock()
	return s.mem, time.Now(), nil
}

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	m, now, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	outcomes := make([]store.Outcome, len(claims))
	for i, c := range claims {
		out := &outcomes[i]
		if out.Err = c.Check(); out.Err == nil {
			out.Grant, out.Err = m.acquire(c, now)
		}
	}
	return outcomes, nil
}

// last returns the token above which the next one of a record is; r is nil for a name that has none.
func (m *memory) last(r *record) int64 {
	if r == nil {
		return m.floor
	}
	return r.token
}

func (m *memory) acquire(c store.Claim, now time.Time) (store.Grant, error) {
	r := m.records[c.Name]
	switch {
	case r != nil && r.liveFor(c.Holder, now):
		return r.grant(), nil
	case c.Mark != 0 && r == nil && c.Mark <= 0:
		return store.Grant{}, &store.DoneError{Record: store.Record{Name: c.Name}}
	case c.Mark != 0 && r != nil && r.mark >= c.Mark:
		return store.Grant{}, &store.DoneError{Record: r.record(c.Name, now)}
	case r != nil && now.Before(r.until):
		return store.Grant{}, &store.HeldError{Record: r.lease(c.Name, now)}
	}
	last := max(m.last(r), c.Above)
	if last == math.MaxInt64 {
		return store.Grant{}, store.ErrTokens
	}
	var abandoned time.Duration
	if r != nil && !r.released {
		abandoned = max(1, now.Sub(r.since))
	}
	if r == nil {
		m.names = nil
		r = &record{}
		m.records[c.Name] = r
	}
	r.token = max(last+1, now.UnixMicro())
	r.holder, r.released, r.since, r.until = c.Holder, false, now, now.Add(c.TTL)
	g := r.grant()
	g.ExpiredAge = abandoned
	return g, nil
}

// Choose implements store.Chooser.
func (s *Store) Choose(ctx context.Context, names []string, c store.Claim) (int, store.Grant, error) {
	m, now, err := s.lock(ctx)
	if err != nil {
		return 0, store.Grant{}, err
	}
	defer m.mu.Unlock()
	if err := store.CheckChoice(names, c); err != nil {
		return 0, store.Grant{}, err
	}
	free, soonest := -1, -1
	for i, name := range names {
		r := m.records[name]
		switch {
		case r != nil && r.liveFor(c.Holder, now):
			return i, r.grant(), nil
		case r == nil || !now.Before(r.until):
			if free < 0 && m.last(r) < math.MaxInt64 {
				free = i
			}
		case soonest < 0 || r.until.Before(m.records[names[soonest]].until):
			soonest = i
		}
	}
	i := free
	if free < 0 {
		i = max(soonest, 0) // or none has tokens left
	}
	c.Name = names[i]
	g, err := m.acquire(c, now)
	return i, g, err
}

// Extend implements store.Store.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	m, now, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	errs := make([]error, len(extensions))
	for i := range extensions {
		e := &extensions[i]
		if errs[i] = e.Check(); errs[i] != nil {
			continue
		}
		r := m.records[e.Name]
		if r == nil || r.token != e.Token || !r.liveFor(e.Holder, now) {
			errs[i] = store.ErrLost
			continue
		}
		if until := now.Add(e.TTL); until.After(r.until) {
			r.until = until
		}
		r.write(e.Mark, e.State)
	}
	return errs, nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	m, now, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	errs := make([]error, len(releases))
	for i, rel := range releases {
		if errs[i] = rel.Check(); errs[i] == nil {
			errs[i] = m.release(rel, now)
		}
	}
	return errs, nil
}

func (m *memory) release(rel store.Release, now time.Time) error {
	r := m.records[rel.Name]
	switch {
	case r == nil || r.token != rel.Token || r.holder != rel.Holder:
		return store.ErrLost
	case r.released && r.mark >= rel.Mark:
		return nil
	case r.released || !now.Before(r.until):
		return store.ErrLost
	}
	r.write(rel.Mark, rel.State)
	told := r.until // to the waiters in the queue
	r.released, r.until = true, now.Add(rel.Linger)
	r.retain = time.Time{}
	if rel.Retain != store.Forever {
		r.retain = now.Add(max(rel.Retain, rel.Linger))
	}
	for wake := range m.watchers[rel.Name] {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	m.handOver(r, told, now)
	return nil
}

// List implements store.Store. It yields a snapshot of when the iteration began.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		records, err := s.list(ctx, prefix)
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *Store) list(ctx context.Context, prefix string) ([]store.Record, error) {
	m, now, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.page(prefix, "", len(m.records), now), nil
}

// pageSize is how many records ListAfter reads at once.
const pageSize = 100

// ListAfter implements store.Pager. It is no snapshot: each page is of when it was read.
func (s *Store) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for {
			m, now, err := s.lock(ctx)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			page := m.page(prefix, after, pageSize, now)
			m.mu.Unlock()
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
				after = r.Name
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}

// page returns at most n records whose names begin with prefix and come after a text; "" is before all names.
func (m *memory) page(prefix, after string, n int, now time.Time) (page []store.Record) {
	if m.names == nil {
		m.names = slices.Sorted(maps.Keys(m.records))
	}
	from, _ := slices.BinarySearch(m.names, max(prefix, after))
	for _, name := range m.names[from:] {
		if len(page) == n || !strings.HasPrefix(name, prefix) && name > prefix {
			break
		}
		if name > after {
			page = append(page, m.records[name].record(name, now))
		}
	}
	return page
}

// Sweep implements store.Sweeper.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	m, now, err := s.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	m.names = nil
	n := 0
	maps.DeleteFunc(m.records, func(_ string, r *record) bool {
		if n >= limit || !r.forgettable(now) {
			return false
		}
		n++
		m.floor = max(m.floor, r.token)
		return true
	})
	return n, nil
}

// Fill implements store.Filler.
func (s *Store) Fill(ctx context.Context, fillings []store.Filling) ([]bool, error) {
	m, now, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, f := range fillings {
		if err := f.Check(); err != nil {
			return nil, err
		}
	}
	made := make([]bool, len(fillings))
	for i, f := range fillings {
		if m.records[f.Name] != nil {
			continue
		}
		c := store.Claim{Name: f.Name, Holder: "filling", TTL: store.MinTTL}
		g, err := m.acquire(c, now)
		if err != nil {
			continue // the tokens are used up
		}
		made[i] = m.release(store.Release{Name: f.Name, Holder: c.Holder, Token: g.Token, Mark: f.Mark, State: f.State, Retain: f.Retain}, now) == nil
	}
	return made, nil
}

// Watch implements store.Watcher.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	m, _, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	names = slices.Clone(names)
	wake := make(chan struct{}, 1)
	for _, name := range names {
		if m.watchers[name] == nil {
			m.watchers[name] = map[chan struct{}]struct{}{}
		}
		m.watchers[name][wake] = struct{}{}
	}
	ctx, cancel := context.WithCancel(ctx) // ended by Close too
	forgetClose := context.AfterFunc(s.ctx, cancel)
	context.AfterFunc(ctx, func() {
		cancel()
		forgetClose()
		m.unwatch(names, wake)
	})
	return wake, nil
}

func (m *memory) unwatch(names []string, wake chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		delete(m.watchers[name], wake)
		if len(m.watchers[name]) == 0 {
			delete(m.watchers, name)
		}
	}
	close(wake)
}

// Ping implements store.Pinger.
func (s *Store) Ping(ctx context.Context) error {
	m, _, err := s.lock(ctx)
	if err == nil {
		m.mu.Unlock()
	}
	return err
}

// Capabilities implements store.Prober.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := s.Ping(ctx); err != nil {
		return store.Capabilities{}, err
	}
	return store.Capabilities{
		Backend: "memory of this process",
		Scope:   store.ScopeProcess,
		Fencing: store.Promise{Answer: store.Yes, Why: "one mutex orders every step, and tokens grow even across sweeps"},
		Durable: store.Promise{Answer: store.No, Why: "the records end with the process"},
		Waiting: store.Promise{Answer: store.Yes, Why: "a release wakes the watchers of its name"},
	}, nil
}

func (r *record) liveFor(holder string, now time.Time) bool {
	return !r.released && r.holder == holder && now.Before(r.until)
}

// forgettable reports whether a record may be forgotten; see store.Release.Retain.
func (r *record) forgettable(now time.Time) bool {
	return r.released && !now.Before(r.until) && !r.retain.IsZero() && !now.Before(r.retain) && r.token <= tokens.Forgettable
}

// write sets the mark and the state that a holder leaves with the name.
func (r *record) write(mark int64, state []byte) {
	r.mark = max(r.mark, mark)
	if state != nil {
		r.state = slices.Clone(state)
	}
}

func (r *record) grant() store.Grant {
	return store.Grant{Token: r.token, Mark: r.mark, State: slices.Clone(r.state)}
}

func (r *record) record(name string, now time.Time) store.Record {
	rec := r.lease(name, now)
	rec.State = slices.Clone(r.state)
	return rec
}

// lease returns the record without its state, for a *store.HeldError.
func (r *record) lease(name string, now time.Time) store.Record {
	rec := store.Record{
		Name: name, Token: r.token, Mark: r.mark,
		Left: max(0, r.until.Sub(now)), Age: now.Sub(r.since),
	}
	if !r.released {
		rec.Holder = r.holder
	}
	return rec
}
