package natsstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store"
)

const (
	// watchLatest is how long subscribing takes at most if the context has no deadline.
	watchLatest = 30 * time.Second
	// drawnFirst is how long a name that was released is left to the watch that the server has chosen.
	drawnFirst = 250 * time.Millisecond
	// group is the queue group of the watches. The server sends each message to one of a group.
	group = "soloist"
)

// Watch implements store.Watcher. The leader of the stream reports what it has stored: a release to all watches of
// the name, and to one of them, which the server chooses, in a queue group as well. That one sends a value at once.
// Each of the others does so after a while, unless by then it has heard that somebody has the name. So one process
// claims the name, and if it is gone or does not want the name, others do.
//
// A new leader may not have reported what the one before it has stored, so its election sends a value, too. Of a bucket that reports nothing the error is errors.ErrUnsupported.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if _, err := s.backend.link(ctx); err != nil {
		return nil, err
	}
	if s.backend.silent() {
		return nil, errSilent
	}
	return s.watch(ctx, names)
}

// watch is Watch also of names that no record has.
func (s *Store) watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	l, err := s.backend.link(ctx)
	if err != nil {
		return nil, err
	}
	life := l.life()
	w := &watch{ctx: ctx, wake: make(chan struct{}, 1), leave: s.watches.leave, names: map[string]*watched{}}
	w.known = func(name string) time.Duration { return s.Seen(name).Record.TTL }
	err = s.subscribe(ctx, l, names, w)
	if err != nil {
		w.end()
		return nil, wrap("watching", err)
	}
	s.begin.Lock()
	defer s.begin.Unlock()
	if err := s.ready(ctx); err != nil { // the store was closed meanwhile
		w.end()
		return nil, err
	}
	s.watches.add(w)
	out := make(chan struct{})
	s.work.Go(func() {
		defer close(out)
		defer s.watches.remove(w)
		defer w.end()
		s.forward(ctx, life, w.wake, out)
	})
	return out, nil
}

// Release implements store.Store. A watch that has ended, such as that of the holder, must not be the one that the
// server chooses: it ends its subscriptions before the release, and not when its goroutine comes to it.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	for _, r := range releases {
		for _, w := range s.watches.ended(s.backend.stored(keyOf(r.Name))) {
			w.end()
		}
	}
	return s.Store.Release(ctx, releases)
}

// watches are those of a store.
type watches struct {
	leave time.Duration // drawnFirst

	mu sync.Mutex
	of map[string]map[*watch]bool // by subject
}

func (all *watches) add(w *watch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.of == nil {
		all.of = map[string]map[*watch]bool{}
	}
	for subject := range w.names {
		if all.of[subject] == nil {
			all.of[subject] = map[*watch]bool{}
		}
		all.of[subject][w] = true
	}
}

func (all *watches) remove(w *watch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for subject := range w.names {
		if delete(all.of[subject], w); len(all.of[subject]) == 0 {
			delete(all.of, subject)
		}
	}
}

// ended returns the watches of a name whose context has ended.
func (all *watches) ended(subject string) (some []*watch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for w := range all.of[subject] {
		if w.ctx.Err() != nil {
			some = append(some, w)
		}
	}
	return some
}

// forward passes values on until ctx, the connection or the store ends.
func (s *Store) forward(ctx, life context.Context, wake <-chan struct{}, out chan<- struct{}) {
	var to chan<- struct{} // nil while there is nothing to pass on
	for {
		select {
		case <-wake:
			to = out
		case to <- struct{}{}:
			to = nil
		case <-ctx.Done():
			return
		case <-life.Done():
			return
		case <-s.closed:
			return
		}
	}
}

// A watch is one call of Watch.
type watch struct {
	ctx   context.Context // of the call
	wake  chan struct{}
	leave time.Duration
	known func(name string) time.Duration // the TTL of the lease that the caller was refused by

	names map[string]*watched // by subject; the map does not change

	mu    sync.Mutex
	of    []*nats.Subscription
	ended bool
}

// A watched is what a watch has heard of a name.
type watched struct {
	name     string
	sequence uint64        // of the latest message
	lease    time.Duration // the TTL that the latest message tells; else 0
	released uint64        // that of a release after which nobody has the name, as far as is known; else 0
	later    *time.Timer   // sends a value then
}

// heard is told of a message. drawn says that the server has chosen this watch.
func (w *watch) heard(m *nats.Msg, drawn bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.names[m.Subject]
	sequence, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	switch {
	case w.ended:
	case of == nil || err != nil: // a leader was elected, or a server reports in another way
		w.send()
	case sequence < of.sequence: // the two subscriptions are not in step
		if m.Header.Get(headerReleased) != "" {
			w.compare(of) // somebody may have taken the name since
		}
	case sequence == of.sequence && !drawn: // so it is, too
	case m.Header.Get(headerReleased) == "":
		of.sequence, of.lease = sequence, leaseOf(m)
		w.taken(of)
	case drawn:
		of.sequence, of.lease = sequence, 0
		of.forget()
		w.send()
	default:
		of.sequence, of.lease = sequence, 0
		of.forget()
		of.released = sequence
		of.later = time.AfterFunc(w.leave+rand.N(w.leave), func() { w.late(of, sequence) })
	}
}

// leaseOf returns for how long somebody has a name. It is 0 for a record that was deleted, or of a store that did not
// report it.
func leaseOf(m *nats.Msg) time.Duration {
	ttl, err := strconv.ParseInt(m.Header.Get(headerLease), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ttl)
}

// taken notes that somebody has a name.
func (w *watch) taken(of *watched) {
	if of.lease != 0 && of.released != 0 {
		of.forget()
		w.compare(of)
	}
}

// compare sends a value if somebody has taken a name since a release, for a shorter time than the lease that the caller
// of Watch knows. That one need not be told of a longer one.
func (w *watch) compare(of *watched) {
	if of.lease != 0 && of.lease < w.known(of.name) {
		w.send()
	}
}

// late sends a value if nobody has taken a name since a release.
func (w *watch) late(of *watched, released uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended && of.released == released {
		of.released = 0
		w.send()
	}
}

// forget drops the value that was to be sent later.
func (of *watched) forget() {
	if of.later != nil {
		of.later.Stop()
	}
	of.released = 0
}

func (w *watch) send() {
	select {
	case w.wake <- struct{}{}:
	default: // there is one that was not received
	}
}

// end ends a watch with its subscriptions.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.ended = true
	for _, of := range w.names {
		of.forget()
	}
	for _, one := range w.of {
		_ = one.Unsubscribe() // it fails if the connection is closed
	}
}

// subscribe returns when the leader knows of the subscriptions to the releases of names: the servers of a cluster tell each other of them by the way on
// which requests go to the leader, and it has answered one that was sent after them.
func (s *Store) subscribe(ctx context.Context, l *link, names []string, w *watch) error {
	b := s.backend
	subjects := []string{b.elected()}
	for _, name := range names {
		subject := b.stored(keyOf(name))
		subjects, w.names[subject] = append(subjects, subject), &watched{name: name}
	}
	slices.Sort(subjects)
	before := l.nc.LastError()
	subjects = slices.Compact(subjects)
	for _, subject := range subjects {
		if err := w.subscribe(l, subject, subject != b.elected()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, watchLatest)
	defer cancel()
	if _, err := l.last(ctx, b.subjects, keyOf(names[0])); err != nil {
		return err
	}
	for _, subject := range subjects {
		if err := l.denied(subject, before); err != nil {
			return err
		}
	}
	return nil
}

// subscribe subscribes to a subject, also in the group if grouped.
func (w *watch) subscribe(l *link, subject string, grouped bool) error {
	of, err := l.nc.Subscribe(subject, func(m *nats.Msg) { w.heard(m, false) })
	if err != nil {
		return err
	}
	w.keep(of)
	if !grouped {
		return nil
	}
	of, err = l.nc.QueueSubscribe(subject, group, func(m *nats.Msg) { w.heard(m, m.Header.Get(headerReleased) != "") })
	if err == nil {
		w.keep(of)
	}
	return err
}

func (w *watch) keep(of *nats.Subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of = append(w.of, of)
}
