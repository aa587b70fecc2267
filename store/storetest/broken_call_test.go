package storetest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

var callFlaws = []flaw{
	{"list-stops", "a List that was stopped is never over", func(testing.TB) bend {
		busy := false
		return bend{lists: func(ctx context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				if busy {
					yield(store.Record{}, errors.New("the connection is busy"))
					return
				}
				busy = true
				for r, err := range s.List(ctx, prefix) {
					if !yield(r, err) {
						return
					}
				}
				busy = false
			}
		}}
	}},
	{"refusal-writes-nothing", "a refused claim prolongs the lease it met", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if held := (*store.HeldError)(nil); errors.As(o.Err, &held) && held.Record.Holder != "" {
			_ = extend(s, store.Extension{Name: c.Name, Holder: held.Record.Holder, Token: held.Record.Token, TTL: c.TTL})
		}
		return o
	}})},
	{"refusal-writes-nothing", "a refused claim is recorded", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if o.Err != nil && look(s, c.Name).Name == "" {
			c.Mark = 0
			o := acquire(s, c)
			_ = release(s, store.Release{Name: c.Name, Holder: c.Holder, Token: o.Grant.Token})
		}
		return o
	}})},
	{"refusal-writes-nothing", "a refused claim writes what was there", func(testing.TB) bend {
		written := new(atomic.Int64)
		return bend{writes: written.Load, acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			written.Add(1)
			return acquire(s, c)
		}}
	}},
	{"refusal-writes-nothing", "a refused claim with a mark is recorded", recorded(func(met store.Record, c store.Claim) bool { return met.Holder != "" && c.Mark > 0 })},
	{"refusal-writes-nothing", "a claim of another that a linger refuses is recorded", recorded(func(met store.Record, c store.Claim) bool {
		return met.Holder == "" && !met.Free() && c.Holder == "b"
	})},
	{"refusal-writes-nothing", "a claim of the last holder that a linger refuses is recorded", recorded(func(met store.Record, c store.Claim) bool {
		return met.Holder == "" && !met.Free() && c.Holder == "a"
	})},
	{"refusal-writes-nothing", "a claim that is done is recorded", recorded(func(met store.Record, c store.Claim) bool { return met.Free() && c.Mark > 0 && met.Mark >= c.Mark })},
	{"refusal-writes-nothing", "a question about no record is recorded", recorded(func(met store.Record, c store.Claim) bool { return met.Name == "" && c.Mark < 0 })},
	{"refusal-writes-nothing", "a question about a lease is recorded", recorded(func(met store.Record, c store.Claim) bool { return met.Holder != "" && c.Mark < 0 })},
	{"refusal-writes-nothing", "a lease is listed as shorter after it has refused a claim", func(testing.TB) bend {
		refused := map[string]bool{}
		b := answering(func(met store.Record, _ store.Claim, o *store.Outcome) {
			refused[met.Name] = refused[met.Name] || o.Err != nil
		})(nil)
		b.list = showing(func(r *store.Record) {
			if refused[r.Name] {
				r.Left /= 2
			}
		})(nil).list
		return b
	}},
	{"cancelled-before", "each claim is answered by itself", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		if ctx.Err() != nil {
			return []store.Outcome{{Err: ctx.Err()}}, nil
		}
		return s.Acquire(ctx, claims)
	}})},
	{"cancelled-before", "each claim is answered beside the error", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		out, err := s.Acquire(ctx, claims)
		if err != nil {
			out = make([]store.Outcome, len(claims))
		}
		return out, err
	}})},
	{"cancelled-before", "each extension is answered by itself", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		if ctx.Err() != nil {
			return []error{ctx.Err()}, nil
		}
		return s.Extend(ctx, extensions)
	}})},
	{"cancelled-before", "each release is answered by itself", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		if ctx.Err() != nil {
			return []error{ctx.Err()}, nil
		}
		return s.Release(ctx, releases)
	}})},
	{"cancelled-before", "an extension is done, and refused for its context", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		errs, err := s.Extend(context.WithoutCancel(ctx), extensions)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return errs, err
	}})},
	{"cancelled-before", "contexts are passed over", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		return s.Acquire(context.WithoutCancel(ctx), claims)
	}})},
	{"cancelled-before", "a release is done, and refused for its context", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		errs, err := s.Release(context.WithoutCancel(ctx), releases)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return errs, err
	}})},
	{"cancelled-before", "a List of nothing for a context that has ended", always(bend{lists: func(ctx context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
		if ctx.Err() != nil {
			return func(func(store.Record, error) bool) {}
		}
		return s.List(ctx, prefix)
	}})},
	{"cancelled-before", "one of several names is chosen whatever the context is", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, grant, err := s.Choose(context.Background(), names, c)
		return i, store.Outcome{Grant: grant, Err: err}
	}})},
	{"cancelled-before", "a holder leaves the queue whatever the context is", always(bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
		return s.Leave(context.Background(), name, holder)
	}})},
	{"cancelled-during", "a claim that was cut short may have been granted, and is not unknown", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		out, err := s.Acquire(context.WithoutCancel(ctx), claims)
		time.Sleep(time.Millisecond)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return out, err
	}})},
	{"cancelled-during", "a call that was cut short breaks the connection", func(testing.TB) bend {
		cut := 0
		return bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			if ctx.Err() != nil {
				cut++
				return nil, ctx.Err()
			}
			if cut > 0 {
				return nil, errors.New("bad connection")
			}
			return s.Acquire(ctx, claims)
		}}
	}},
	{"cancelled-during", "a claim that was cut short is told as granted", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		time.Sleep(time.Millisecond)
		if ctx.Err() != nil {
			return []store.Outcome{{Grant: store.Grant{Token: 1}}}, nil
		}
		return s.Acquire(ctx, claims)
	}})},
	{"close-ends", "Close does nothing", always(bend{close: func(*memstore.Store) error { return nil }})},
	{"close-ends", "List does not know of Close", always(bend{list: func(s *memstore.Store, prefix string) []store.Record { return list(s, prefix) }})},
	{"close-ends", "Acquire does not know of Close", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		return s.Share().Acquire(ctx, claims)
	}})},
	{"close-ends", "Extend does not know of Close", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		return s.Share().Extend(ctx, extensions)
	}})},
	{"close-ends", "Release does not know of Close", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		return s.Share().Release(ctx, releases)
	}})},
	{"close-ends", "ListAfter does not know of Close", always(bend{listAfter: func(s *memstore.Store, prefix, after string) iter.Seq2[store.Record, error] {
		return s.Share().ListAfter(context.Background(), prefix, after)
	}})},
	{"close-ends", "Watch does not know of Close", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return s.Share().Watch(ctx, names)
	}})},
	{"close-ends", "Choose does not know of Close", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		return choose(s.Share(), names, c)
	}})},
	{"close-ends", "Ping does not know of Close", always(bend{ping: func() error { return nil }})},
	{"close-ends", "Sweep does not know of Close", always(bend{sweep: func(s *memstore.Store, limit int) int { return sweep(s.Share(), limit) }})},
	{"close-ends", "Fill does not know of Close", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		return s.Share().Fill(context.Background(), all)
	}})},
	{"close-ends", "Queue does not know of Close", always(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
		return s.Share().Queue(ctx, c)
	}})},
	{"close-ends", "Leave does not know of Close", always(bend{leave: func(s *memstore.Store, name, holder string) (bool, error) {
		return s.Share().Leave(context.Background(), name, holder)
	}})},
	{"close-ends", "what the store promises is told after Close", always(bend{capabilities: func() store.Capabilities { return store.Capabilities{Backend: "memory"} }})},
	{"close-during", "a call that is overtaken has the backend's own error", func(testing.TB) bend {
		return bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			out, err := s.Acquire(ctx, claims)
			if err != nil {
				err = errors.New("use of closed network connection")
			}
			return out, err
		}}
	}},
	{"close-leaves-others", "Close releases what is held", always(bend{close: func(s *memstore.Store) error {
		for _, r := range list(s, "") {
			if r.Holder != "" {
				_ = release(s, store.Release{Name: r.Name, Holder: r.Holder, Token: r.Token})
			}
		}
		return s.Close()
	}})},
	{"close-leaves-others", "Close closes what all handles share", func(testing.TB) bend {
		closed := false
		return bend{
			close: func(s *memstore.Store) error { closed = true; return s.Close() },
			claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
				if closed {
					return nil, store.ErrClosed
				}
				return s.Acquire(ctx, claims)
			},
		}
	}},
	{"close-leaves-no-goroutine", "a goroutine waits for the end of the process", func(t testing.TB) bend {
		end, started := make(chan struct{}), false
		t.Cleanup(func() { close(end) })
		return bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			if !started {
				started = true
				go func() { <-end }()
			}
			return s.Acquire(ctx, claims)
		}}
	}},
}

var waitFlaws = []flaw{
	{"close-ends-watches", "watches do not know of Close", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		return s.Share().Watch(ctx, names)
	}})},
	{"watch-wakes", "a watch wakes once", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		return relay(ctx, s, names, 0, 1)
	}})},
	{"watch-wakes", "the first of several watches wakes", deafWatch(1)},
	{"watch-wakes", "the last of several watches wakes", deafWatch(0)},
	{"watch-wakes", "a release with a linger wakes nobody", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		in, err := s.Watch(ctx, names)
		out := make(chan struct{}, 1)
		go func() {
			defer close(out)
			for range in {
				if r := look(s, names[0]); r.Holder == "" && r.Left > 0 {
					continue
				}
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}()
		return out, err
	}})},
	{"watch-any", "a watch of several names does not know of its context", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		if len(names) > 1 {
			ctx = context.WithoutCancel(ctx)
		}
		return s.Watch(ctx, names)
	}})},
	{"watch-any", "the first name is watched", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		return s.Watch(ctx, names[:1])
	}})},
	{"watch-any", "the names are those that the caller's slice has at a release", keptNames},
	{"watch-subscribed", "a watch is subscribed a little later", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		return relay(ctx, s, slices.Clone(names), time.Millisecond, -1)
	}})},
	{"watch-subscribed", "a wake that nobody listens for is lost", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		return deaf(ctx, s, names)
	}})},
	{"watch-other-handle", "a handle is notified of its own releases only", ownReleases},
	{"watch-unclaimed", "a release wakes one handle, whatever becomes of it", oneHandle},
	{"watch-checks", "no names are watched", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		if len(names) == 0 {
			return make(chan struct{}), nil
		}
		return s.Watch(ctx, names)
	}})},
	{"watch-checks", "the first name alone is checked", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		if len(names) > 1 {
			names = names[:1]
		}
		return s.Watch(ctx, names)
	}})},
	{"watch-ends", "the second watch of a name hears nothing", deafWatch(1)},
	{"watch-ends", "watches do not know of their context", always(bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		return s.Watch(context.WithoutCancel(ctx), names)
	}})},
}

// deafWatch is a store in which one of the watches of a name, counted from 0, hears nothing.
func deafWatch(which int) func(testing.TB) bend {
	return func(testing.TB) bend {
		count := map[string]int{}
		return bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
			n := count[names[0]]
			if count[names[0]]++; n == which {
				return relay(ctx, s, names, 0, 0)
			}
			return s.Watch(ctx, names)
		}}
	}
}

// recorded is a store that writes when it refuses some claims.
func recorded(which func(met store.Record, c store.Claim) bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		var written int64
		b := answering(func(met store.Record, c store.Claim, o *store.Outcome) {
			if o.Err != nil && which(met, c) {
				written++
			}
		})(nil)
		b.writes = func() int64 { return written }
		return b
	}
}

// relay watches after a delay and hands on the first values; all of them if most is negative.
func relay(ctx context.Context, s *memstore.Store, names []string, delay time.Duration, most int) (<-chan struct{}, error) {
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		time.Sleep(delay)
		in, err := s.Watch(ctx, names)
		if err != nil {
			return
		}
		for range in {
			if most == 0 {
				continue
			}
			most--
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, nil
}

// deaf hands on only what somebody is waiting for at that moment.
func deaf(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
	in, err := s.Watch(ctx, names)
	if err != nil {
		return nil, err
	}
	out := make(chan struct{})
	go func() {
		defer close(out)
		for range in {
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	time.Sleep(time.Millisecond)
	return out, nil
}

// oneHandle wakes the watches of the handle alone that was the first to watch.
func oneHandle(testing.TB) bend {
	var first *memstore.Store
	return bend{watch: func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error) {
		if first == nil {
			first = s
		}
		if s != first {
			return relay(ctx, s, slices.Clone(names), 0, 0)
		}
		return s.Watch(ctx, names)
	}}
}

func keptNames(testing.TB) bend {
	var kept []string
	var wake chan struct{}
	return bend{
		watch: func(ctx context.Context, _ *memstore.Store, names []string) (<-chan struct{}, error) {
			kept, wake = names, make(chan struct{}, 1)
			over := wake
			context.AfterFunc(ctx, func() { close(over) })
			return wake, nil
		},
		release: func(s *memstore.Store, r store.Release) error {
			if slices.Contains(kept, r.Name) {
				wake <- struct{}{}
			}
			return release(s, r)
		},
	}
}

func ownReleases(testing.TB) bend {
	wakes := map[*memstore.Store]chan struct{}{}
	return bend{
		watch: func(ctx context.Context, s *memstore.Store, _ []string) (<-chan struct{}, error) {
			wake := make(chan struct{}, 1)
			wakes[s] = wake
			context.AfterFunc(ctx, func() { close(wake) })
			return wake, nil
		},
		release: func(s *memstore.Store, r store.Release) error {
			if wake := wakes[s]; wake != nil {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
			return release(s, r)
		},
	}
}
