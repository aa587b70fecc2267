package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

const (
	hour     = time.Hour        // the TTL of a lease that must outlive its law
	minute   = time.Minute      // the tolerance for the time left of a lease of an hour
	patience = 2 * time.Minute  // how much longer than its duration something may take
	longest  = 15 * time.Minute // the bound of a law
)

// A probe checks one law and keeps a trail of what was done for it.
type probe struct {
	t       testing.TB
	h       Harness
	law     law
	ctx     context.Context
	open    []store.Store
	trail   []string
	names   int // counts the names that name returned
	handles int // counts the handles that reopen opened
	fault   error

	shown map[string]bool // whether each name that was granted has been listed since; only with Harness.LateLists
}

// A subject is one handle on the store being checked. Each method does one step, adds it to the trail and stops the law
// if the result is wrong. The methods must be called on the law's goroutine.
type subject struct {
	*probe
	store.Store
	label string // identifies the handle in the trail
}

// stopped unwinds a law that has been broken.
type stopped struct{}

func judge(t testing.TB, l law, h Harness) error {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	p := &probe{t: t, h: h, law: l, ctx: ctx}
	s := h.Open(t)
	p.open = append(p.open, s)
	defer p.closeAll() // if the law panics, or cannot be checked
	for _, n := range l.needs {
		if why := n(h, s); why != "" {
			return fmt.Errorf("not checked: %s: %w", why, errors.ErrUnsupported)
		}
	}
	p.run(&subject{probe: p, Store: s})
	p.closeAll()
	return p.fault
}

func (p *probe) run(s *subject) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stopped); !ok {
				panic(r)
			}
		}
	}()
	p.law.check(s)
}

// closeAll closes the handles that the law has left open.
func (p *probe) closeAll() {
	for _, s := range p.open {
		if err := s.Close(); err != nil && p.fault == nil {
			p.fault = fmt.Errorf("law %s: Close answered %w", p.law.name, err)
		}
	}
	p.open = nil
}

// fail stops the law: it is broken.
func (p *probe) fail(got any, want string, args ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "law %s is broken: %s\n", p.law.name, p.law.rule)
	const shown = 16
	if n := len(p.trail) - shown; n > 0 {
		fmt.Fprintf(&b, "  … %d steps\n", n)
		p.trail = p.trail[n:]
	}
	for _, step := range p.trail {
		fmt.Fprintf(&b, "  did:  %s\n", step)
	}
	fmt.Fprintf(&b, "  got:  %v\n  want: %s", got, fmt.Sprintf(want, args...))
	p.fault = errors.New(b.String())
	panic(stopped{})
}

// did adds a step to the trail.
func (p *probe) did(format string, args ...any) {
	p.trail = append(p.trail, fmt.Sprintf(format, args...))
}

// name returns a name that the law has not used yet.
func (p *probe) name() string {
	p.names++
	return fmt.Sprintf("%s/%d", p.law.name, p.names)
}

// reopen returns another handle on the same data.
func (s *subject) reopen() *subject {
	other := s.h.Reopen(s.t, s.Store)
	s.open = append(s.open, other)
	s.handles++
	label := fmt.Sprintf("[handle %d] ", s.handles+1)
	s.did("%sopened on the same data", label)
	return &subject{probe: s.probe, Store: other, label: label}
}

// forget leaves the closing of the handle to the law.
func (s *subject) forget() {
	s.open = slices.DeleteFunc(s.open, func(open store.Store) bool { return open == s.Store })
}

// close closes the handle now rather than at the end of the law.
func (s *subject) close() {
	s.forget()
	err := s.Close()
	s.did("%sClose: %s", s.label, tell(err))
	if err != nil {
		s.fail(err, "Close returns nil")
	}
}

// until waits for cond, which reads from the store. It fails the law if that takes longer than any store may.
func (p *probe) until(what string, cond func() bool) {
	pause := max(p.h.TTL/20, time.Millisecond)
	start, bound := time.Now(), 20*p.h.TTL+patience
	for !cond() {
		if time.Since(start) > bound {
			p.fail(fmt.Sprintf("not so after %v", time.Since(start).Round(time.Millisecond)), "%s", what)
		}
		time.Sleep(pause)
	}
}

// timely calls try with a new name, and each time a longer ttl, until try reports that its steps were quick enough to
// check ttl.
func (p *probe) timely(try func(name string, ttl time.Duration) bool) {
	ttl := p.h.TTL
	for range 7 {
		if try(p.name(), ttl) {
			return
		}
		ttl *= 2
	}
	p.fail(fmt.Sprintf("steps that took longer than a TTL of %v", ttl/2), "a quicker store, or a longer Harness.TTL")
}

// together runs f in n goroutines and fails the law with the first error, after which the context of the others ends.
func (p *probe) together(n int, f func(ctx context.Context, i int) error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(ctx, i) }()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	if first != nil {
		p.fail(first, "all %d goroutines end well", n)
	}
}

// tell formats an error for the trail.
func tell(err error) string {
	if err == nil {
		return "nil"
	}
	return err.Error()
}
