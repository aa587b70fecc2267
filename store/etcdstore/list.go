package etcdstore

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// page is how many keys are read in one request. A name has one, and more while it is waited for.
const page = 1000

// List implements store.Store, with one request for 1,000 names, and one for each hundred sessions that have some of them. Of a lease of another process it is not known when it was extended last; see
// Record.Left in docs/stores/etcd.md.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter implements store.Pager.
func (s *Store) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := s.ready(ctx); err != nil {
			yield(store.Record{}, err)
			return
		}
		var unreadable error
		from, to := s.keys.names()+max(prefix, after), clientv3.GetPrefixRangeEnd(s.keys.names()+prefix)
		for from != "" {
			found, next, err := s.page(ctx, from, to, page)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for _, f := range found {
				if f.name <= after {
					continue
				}
				if f.pair.err != nil {
					unreadable = errors.Join(unreadable, f.pair.err)
				} else if !yield(s.view(f.name, f.pair, time.Now(), true), nil) {
					return
				}
			}
			from = next
		}
		if unreadable != nil {
			yield(store.Record{}, &store.UnreadableError{Err: unreadable})
		}
	}
}

// A found is a name with what was read of it.
type found struct {
	name string
	pair pair
}

// page reads a page of keys. It returns the names whose records it has read, and the key to continue with, "" at the end.
func (s *Store) page(ctx context.Context, from, to string, n int) (all []found, next string, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, "", err
	}
	client, err := s.clients.get(ctx)
	if err != nil {
		return nil, "", err
	}
	reply, err := s.height.get(ctx, client, from, clientv3.WithRange(to), clientv3.WithLimit(int64(n)))
	if err != nil {
		return nil, "", s.wrap("listing", err)
	}
	sessions := map[string]bool{}
	for i, kv := range reply.Kvs {
		if name, kind, ok := s.keys.name(kv.Key); ok && kind == recordKey && store.CheckName(name) == nil {
			p := pairOf(name, reply.Kvs[i:i+1], presence{})
			if p.unsure {
				sessions[p.record.Session] = false
			}
			all = append(all, found{name, p})
		}
	}
	now, err := s.presence(ctx, slices.Collect(maps.Keys(sessions)))
	if err != nil {
		return nil, "", err
	}
	for i, f := range all {
		if f.pair.unsure {
			all[i].pair.taken, all[i].pair.unsure = now.there[f.pair.record.Session], false
		}
		all[i].pair = s.sights.see(f.name, all[i].pair)
	}
	if reply.More {
		next = string(reply.Kvs[len(reply.Kvs)-1].Key) + "\x00"
	}
	return all, next, nil
}

// sweepLook is how many records one call of Sweep reads at most.
const sweepLook = 1000

// Sweep implements store.Sweeper. One call reads up to 1,000 records, and the next continues where it ended. Tokens are revisions, so
// the tokens of a name continue to grow after its record was forgotten.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	select {
	case s.sweeping <- struct{}{}:
		defer func() { <-s.sweeping }()
	case <-ctx.Done(): // another call may have longer
		return 0, ctx.Err()
	}
	var unreadable error
	end := clientv3.GetPrefixRangeEnd(s.keys.names())
	for looked := 0; looked < sweepLook && forgotten < limit; {
		from := s.cursor
		if from == "" {
			from = s.keys.names()
		}
		all, next, err := s.page(ctx, from, end, sweepLook/5)
		if err != nil {
			return forgotten, errors.Join(err, unreadable)
		}
		var tasks []*task
		for _, f := range all {
			if forgotten+len(tasks) == limit {
				next = s.keys.record(f.name) // the next call continues here
				break
			}
			if f.pair.err != nil {
				unreadable = errors.Join(unreadable, f.pair.err)
			} else if forgettable(f.pair, time.Now()) {
				tasks = append(tasks, forget(f.name, f.pair))
			}
		}
		n, err := s.forget(ctx, tasks)
		if forgotten += n; err != nil {
			return forgotten, errors.Join(err, unreadable)
		}
		looked += len(all)
		if s.cursor = next; next == "" {
			break
		}
	}
	return forgotten, unreadable
}

// forgettable reports whether a record may be forgotten: it was released, nobody has the name, and its Retain has passed.
func forgettable(p pair, now time.Time) bool {
	r := p.record
	return p.revision != 0 && r.Released && !p.taken && r.Forget != 0 && r.Forget <= now.UnixNano()
}

// forget is the task that deletes a record, if it is as it was.
func forget(name string, seen pair) *task {
	return &task{name: name, guess: seen.same, decide: func(p pair) (*change, error) {
		if !p.same(seen) {
			return nil, errInUse
		}
		return &change{}, nil
	}}
}

var errInUse = errors.New("the record is in use again")

// forget deletes records, and returns how many.
func (s *Store) forget(ctx context.Context, tasks []*task) (n int, err error) {
	s.run(ctx, tasks)
	for _, t := range tasks {
		switch {
		case t.err == nil:
			n++
		case !errors.Is(t.err, errInUse):
			err = errors.Join(err, t.err)
		}
	}
	return n, err
}
