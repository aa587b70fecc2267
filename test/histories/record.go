package histories

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// A recorder keeps the history of a round. It is safe for use by many goroutines at once.
type recorder struct {
	zero time.Time

	mu     sync.Mutex
	events proof.History
	late   map[string]bool // names that are not judged
}

func newRecorder() *recorder { return &recorder{zero: time.Now(), late: map[string]bool{}} }

// now is the time on the clock of the history, which is monotonic.
func (r *recorder) now() time.Duration { return time.Since(r.zero) }

func (r *recorder) add(events ...proof.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
}

func (r *recorder) fault(what string) {
	r.add(proof.Event{Kind: proof.Fault, Fault: what, At: r.now()})
}

// tooLate keeps a name from being judged, on which a lease may have ended that was to last.
func (r *recorder) tooLate(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late[name] = true
}

// length is how many events have been recorded.
func (r *recorder) length() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// history returns what has been recorded.
func (r *recorder) history() proof.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events
}

// A recorded store records each call of the verbs, with the true answer of the store.
type recorded struct {
	store.Store
	rec     *recorder
	replica string
}

// Unwrap is as store.As wants it.
func (s *recorded) Unwrap() store.Store { return s.Store }

// call makes a call of a verb and records it, an event for each element of its batch.
func call[Q, A any](s *recorded, asked []Q, do func([]Q) ([]A, error), event func(Q) proof.Event, end func(*proof.Event, A), failed func(error) A) ([]A, error) {
	events := make([]proof.Event, len(asked))
	for i, q := range asked {
		events[i] = event(q)
		events[i].Replica = s.replica
	}
	at := s.rec.now()
	answers, err := do(asked)
	until := s.rec.now()
	for i := range events {
		answer := failed(err)
		if err == nil {
			answer = answers[i]
		}
		end(&events[i], answer)
		if events[i].At, events[i].Until = at, until; events[i].Result == proof.Unknown {
			events[i].Until = proof.Never
		}
	}
	s.rec.add(events...)
	return answers, err
}

// Acquire is as in store.Store.
func (s *recorded) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return call(s, claims, func(claims []store.Claim) ([]store.Outcome, error) { return s.Store.Acquire(ctx, claims) }, proof.Claimed, (*proof.Event).Answer,
		func(err error) store.Outcome { return store.Outcome{Err: err} })
}

// Extend is as in store.Store.
func (s *recorded) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return call(s, extensions, func(extensions []store.Extension) ([]error, error) { return s.Store.Extend(ctx, extensions) }, proof.Extended, answered, itself)
}

// Release is as in store.Store.
func (s *recorded) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return call(s, releases, func(releases []store.Release) ([]error, error) { return s.Store.Release(ctx, releases) }, proof.Released, answered, itself)
}

func answered(e *proof.Event, err error) { e.Result = proof.ResultOf(err) }

func itself(err error) error { return err }

// Choose is as in store.Chooser. A refusal speaks of one name only. What is unknown may have happened to each of the names.
func (s *recorded) Choose(ctx context.Context, names []string, c store.Claim) (int, store.Grant, error) {
	at := s.rec.now()
	chooser, ok := store.As[store.Chooser](s.Store)
	if !ok {
		return 0, store.Grant{}, errors.ErrUnsupported
	}
	index, grant, err := chooser.Choose(ctx, names, c)
	until := s.rec.now()
	var events []proof.Event
	for i, name := range names {
		c.Name = name
		e := proof.Claimed(c)
		e.Replica, e.At, e.Until = s.replica, at, until
		switch e.Answer(store.Outcome{Grant: grant, Err: err}); {
		case e.Result == proof.Unknown:
			e.Until = proof.Never
		case i != index:
			continue
		}
		events = append(events, e)
	}
	s.rec.add(events...)
	return index, grant, err
}

// Queue is as in store.Queuer. Until its place is given up, a claim that was not granted may be granted at any time.
func (s *recorded) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	q, ok := store.As[store.Queuer](s.Store)
	if !ok {
		return store.Grant{}, 0, errors.ErrUnsupported
	}
	e := proof.Claimed(c)
	e.Replica, e.At = s.replica, s.rec.now()
	grant, after, err := q.Queue(ctx, c)
	if errors.Is(err, errors.ErrUnsupported) {
		return grant, after, err
	}
	e.Until = s.rec.now()
	if e.Answer(store.Outcome{Grant: grant, Err: err}); e.Result != proof.Granted && (e.Result != proof.Failed || errors.Is(err, store.ErrHeld)) {
		e.Result, e.Token, e.Seen, e.State, e.Until = proof.Unknown, 0, 0, 0, proof.Never
	}
	if e.Result == proof.Granted && after < 0 { // granted to an earlier request of the holder, whose event is of an unknown outcome
		e.At = max(0, e.At+after)
	}
	s.rec.add(e)
	return grant, after, err
}

// Leave is as in store.Queuer.
func (s *recorded) Leave(ctx context.Context, name, holder string) (bool, error) {
	q, ok := store.As[store.Queuer](s.Store)
	if !ok {
		return false, errors.ErrUnsupported
	}
	return q.Leave(ctx, name, holder)
}

// Watch is as in store.Watcher.
func (s *recorded) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	w, ok := store.As[store.Watcher](s.Store)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return w.Watch(ctx, names)
}

// Sweep is as in store.Sweeper. One that failed may still be carried out later.
func (s *recorded) Sweep(ctx context.Context, limit int) (int, error) {
	sweeper, ok := store.As[store.Sweeper](s.Store)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	at := s.rec.now()
	n, err := sweeper.Sweep(ctx, limit)
	until := s.rec.now()
	if err != nil {
		until = proof.Never
	}
	s.rec.add(proof.Event{Kind: proof.Swept, At: at, Until: until, Mark: int64(n)})
	return n, err
}
