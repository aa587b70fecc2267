package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var callLaws = []law{
	{name: "refusal-writes-nothing", check: refusalWritesNothing,
		rule: "A refused claim writes nothing."},
	{name: "cancelled-before", check: cancelledBefore,
		rule: "A call whose context has ended is refused as a whole, and unless that is ErrUnknown nothing was done."},
	{name: "cancelled-during", check: cancelledDuring,
		rule: "A call whose context ends while it runs returns a result or an error, ErrUnknown if it may have taken effect, and breaks nothing."},
	{name: "close-ends", check: closeEnds,
		rule: "Calls after Close return ErrClosed."},
	{name: "close-during", check: closeDuring,
		rule: "Calls that run during Close return a result, ErrClosed or ErrUnknown, and no call waits forever."},
	{name: "close-ends-watches", needs: []need{watches}, check: closeEndsWatches,
		rule: "Close closes the channels of the handle's watches."},
	{name: "close-leaves-others", needs: []need{reopening}, check: closeLeavesOthers,
		rule: "Closing a handle leaves its leases live and other handles working."},
	{name: "close-leaves-no-goroutine", check: closeLeavesNoGoroutine,
		rule: "No goroutine of the store outlives Close."},
}

func refusalWritesNothing(s *subject) {
	live, lingers, done, none := s.name(), s.name(), s.name(), s.name()
	s.take(live, "a", hour)
	r := s.take(lingers, "a", hour).ending()
	r.Linger = hour
	s.released(r)
	s.released(s.take(done, "a", hour).leaving(5, []byte("state")))

	before, written := s.records(""), s.written()
	for range 3 {
		s.held(claim(live, "b", 9*hour))
		s.held(marked(live, "b", 9))
		s.held(claim(lingers, "b", 9*hour))
		s.held(claim(lingers, "a", 9*hour))
		s.done(marked(done, "b", 5))
		s.done(marked(none, "b", -1))
		s.done(marked(live, "b", -1))
	}
	if now := s.written(); now != written {
		s.fail(fmt.Sprintf("%d written", now-written), "nothing written by claims that are refused")
	}
	after := s.records("")
	s.unchanged(before)
	for i := range after {
		if after[i].Left > before[i].Left || after[i].Left < before[i].Left-minute || after[i].Age < before[i].Age {
			s.fail("a record with "+sketch(after[i]), "it as it was: %s", sketch(before[i]))
		}
	}
}

func (s *subject) written() int64 {
	if s.h.Writes == nil {
		return 0
	}
	return s.h.Writes(s.t, s.Store)
}

func cancelledBefore(s *subject) {
	name := s.name()
	l := s.take(s.name(), "a", hour)
	before := s.records("")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	e := l.extension(9 * hour)
	e.Mark = 7
	certain := true
	refused := func(verb string, n int, err error) {
		s.did("%s with a context that has ended: %s", verb, tell(err))
		if err == nil || n > 0 {
			s.fail(fmt.Sprintf("%d answers, error %s", n, tell(err)), "no answers and an error")
		}
		certain = certain && !errors.Is(err, store.ErrUnknown)
	}
	out, err := s.Acquire(ctx, []store.Claim{claim(name, "a", hour)})
	refused("Acquire", len(out), err)
	errs, err := s.Extend(ctx, []store.Extension{e})
	refused("Extend", len(errs), err)
	errs, err = s.Release(ctx, []store.Release{l.leaving(8, nil)})
	refused("Release", len(errs), err)
	s.listRefused(ctx, nil)
	for verb, call := range s.more(ctx, name) {
		if err := call(); !errors.Is(err, errors.ErrUnsupported) {
			refused(verb, 0, err)
		}
	}
	if certain {
		s.unchanged(before)
		s.extended(l.extension(hour))
		s.take(name, "b", hour)
	}
	s.take(s.name(), "c", hour)
}

// listRefused checks that List yields an error, any if want is nil, and ends after it.
func (s *subject) listRefused(ctx context.Context, want error) {
	var errs []error
	for _, err := range s.List(ctx, "") {
		errs = append(errs, err)
	}
	if len(errs) != 1 || errs[0] == nil || want != nil && !errors.Is(errs[0], want) {
		s.fail(fmt.Sprintf("List yielded errors %v", errs), "one and no more: %s", tell(want))
	}
}

// cancelledDuring cancels calls after increasing times, from before they can have been sent to after they must have
// returned.
func cancelledDuring(s *subject) {
	s.did("Acquire with contexts that end after 0 to %v", 64*50*time.Microsecond)
	for i := range 64 {
		name := s.name()
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i)*50*time.Microsecond)
		out, err := s.Acquire(ctx, []store.Claim{claim(name, "a", hour)})
		cancel()
		if err == nil {
			err = out[0].Err
		}
		r := s.done(marked(name, "reader", -1))
		switch {
		case err == nil && r.Holder != "a":
			s.fail("a record with "+sketch(r), "holder %q: the call answered with a grant", "a")
		case err != nil && !errors.Is(err, store.ErrUnknown) && r.Holder != "":
			s.fail("a record with "+sketch(r), "none, or an error that is ErrUnknown; it was %q", err)
		}
	}
	for range 8 { // by then, pooled resources have been used again
		s.released(s.take(s.name(), "a", hour).ending())
	}
}

func closeEnds(s *subject) {
	l := s.take(s.name(), "a", hour)
	s.close()
	closed := func(verb string, err error) {
		s.did("%s after Close: %s", verb, tell(err))
		if !errors.Is(err, store.ErrClosed) {
			s.fail(tell(err), "ErrClosed")
		}
	}
	_, err := s.Acquire(s.ctx, []store.Claim{claim(l.name, "a", hour)})
	closed("Acquire", err)
	_, err = s.Extend(s.ctx, []store.Extension{l.extension(hour)})
	closed("Extend", err)
	_, err = s.Release(s.ctx, []store.Release{l.ending()})
	closed("Release", err)
	s.listRefused(s.ctx, store.ErrClosed)
	for verb, call := range s.more(s.ctx, l.name) {
		if err := call(); !errors.Is(err, errors.ErrUnsupported) {
			closed(verb, err)
		}
	}
	asks := map[string]func() error{}
	if p, ok := store.As[store.Prober](s.Store); ok {
		asks["Capabilities"] = func() error { _, err := p.Capabilities(s.ctx); return err }
	}
	if e, ok := store.As[store.Examiner](s.Store); ok {
		asks["Examine"] = func() error { _, err := e.Examine(s.ctx); return err }
	}
	if m, ok := store.As[store.Migrator](s.Store); ok {
		asks["Migrate"] = func() error { _, err := m.Migrate(s.ctx); return err }
	}
	for verb, ask := range asks {
		if err := ask(); !errors.Is(err, errors.ErrUnsupported) {
			closed(verb, err)
		}
	}
}

// more returns calls of the optional interfaces that the store has and that read or change records, by their names. Each returns its error.
func (s *subject) more(ctx context.Context, name string) map[string]func() error {
	calls := map[string]func() error{}
	if p, ok := store.As[store.Pager](s.Store); ok {
		calls["ListAfter"] = func() error {
			for _, err := range p.ListAfter(ctx, "", name) {
				return err
			}
			return nil
		}
	}
	if w, ok := store.As[store.Watcher](s.Store); ok {
		calls["Watch"] = func() error { _, err := w.Watch(ctx, []string{name}); return err }
	}
	if c, ok := store.As[store.Chooser](s.Store); ok {
		calls["Choose"] = func() error { _, _, err := c.Choose(ctx, []string{name}, claim("", "a", hour)); return err }
	}
	if q, ok := store.As[store.Queuer](s.Store); ok {
		calls["Queue"] = func() error { _, _, err := q.Queue(ctx, claim(name, "a", hour)); return err }
		calls["Leave"] = func() error { _, err := q.Leave(ctx, name, "a"); return err }
	}
	if p, ok := store.As[store.Pinger](s.Store); ok {
		calls["Ping"] = func() error { return p.Ping(ctx) }
	}
	if w, ok := store.As[store.Sweeper](s.Store); ok {
		calls["Sweep"] = func() error { _, err := w.Sweep(ctx, 1); return err }
	}
	if f, ok := store.As[store.Filler](s.Store); ok {
		calls["Fill"] = func() error { _, err := f.Fill(ctx, []store.Filling{{Name: name, Mark: 1, Retain: hour}}); return err }
	}
	return calls
}

func closeDuring(s *subject) {
	const callers = 16
	var busy, closed atomic.Int64
	s.forget()
	defer func() {
		if closed.Load() == 0 {
			_ = s.Close()
		}
	}()
	s.did("%d goroutines took and released names until one of them closed the store", callers)
	s.together(callers, func(ctx context.Context, i int) error {
		for turn := 0; ctx.Err() == nil; turn++ {
			if turn == 3 && busy.Add(1) == callers {
				closed.Store(1)
				if err := s.Close(); err != nil {
					return fmt.Errorf("Close: %w", err)
				}
			}
			c := claim(fmt.Sprintf("name %d", i), fmt.Sprintf("turn %d", turn), hour)
			switch err := s.takeAndRelease(ctx, []store.Claim{c}); {
			case errors.Is(err, store.ErrClosed):
				return nil
			case err != nil && !errors.Is(err, store.ErrUnknown):
				return err
			}
			time.Sleep(time.Duration(i+1) * 10 * time.Microsecond)
		}
		return errors.New("no call has answered that the store is closed")
	})
}

func closeEndsWatches(s *subject) {
	var watches []<-chan struct{}
	for _, name := range []string{"one", "one", "two"} {
		watches = append(watches, s.watch(s.ctx, name))
	}
	s.close()
	for _, w := range watches {
		s.ends(w)
	}
}

func closeLeavesOthers(s *subject) {
	name := s.name()
	l := s.take(name, "a", hour)
	other := s.reopen()
	s.close()
	other.held(claim(name, "b", hour))
	other.extended(l.extension(hour))
	other.released(l.ending())
	other.take(name, "b", hour)
}

// closeLeavesNoGoroutine looks for the store's package in the stacks of goroutines. Their number alone is not enough,
// because what the store was given, such as a connection pool, has goroutines that may stay.
func closeLeavesNoGoroutine(s *subject) {
	t := reflect.TypeOf(s.Store)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	l := s.take(s.name(), "a", hour)
	if w, ok := store.As[store.Watcher](s.Store); ok {
		_, _ = w.Watch(s.ctx, []string{l.name}) // an error leaves no goroutine either
		_, _ = w.Watch(s.ctx, []string{"another"})
	}
	s.released(l.ending())
	s.close()
	var left string
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(10 * time.Millisecond) {
		if left = goroutineOf(t.PkgPath()); left == "" {
			return
		}
	}
	s.fail("a goroutine:\n"+left, "none in %s", t.PkgPath())
}

// goroutineOf returns the stack of a goroutine that contains a function of a package, other than those that run tests.
func goroutineOf(pkg string) string {
	buf := make([]byte, 1<<20)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, pkg+".") && !strings.Contains(stack, "testing.tRunner") {
			return stack
		}
	}
	return ""
}
