package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrStale says that a token is lower than one that the guard has seen. A *StaleError has both.
var ErrStale = errors.New("stale fencing token")

// A StaleError refuses a token. It is ErrStale.
type StaleError struct {
	Resource string
	Token    int64 // that was shown
	Seen     int64 // the greatest that the guard has seen
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("stale fencing token: %q has seen token %d, and %d is lower: its lease has gone to another holder", e.Resource, e.Seen, e.Token)
}

// Is makes errors.Is(e, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// A TokenError refuses what cannot be a fencing token.
type TokenError struct{ Token int64 }

func (e *TokenError) Error() string {
	return fmt.Sprintf("fencing token %d: a token is greater than 0; send that of the lease", e.Token)
}

// A Guard keeps stale holders from a resource. It is safe for use by many goroutines at once.
type Guard interface {
	// Do runs write unless token is lower than one seen before for the resource. No other token is let in for the resource
	// until write has returned, so a write is never overtaken by its successor's. What write answers is passed on. The
	// token counts as seen however write ends: with nil, with an error, by a panic or by runtime.Goexit.
	Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error

	// Claim is Do without a write: from its return on, lower tokens are refused.
	Claim(ctx context.Context, resource string, token int64) error
}

// Memory is a guard in the memory of one process, for a resource that this process alone writes to. It forgets when the
// process ends; NewMemory can be given what it has to remember. The zero value is ready to use.
type Memory struct {
	mu    sync.Mutex
	marks map[string]*mark
}

type mark struct {
	turn chan struct{} // holds one value while nobody is in
	seen int64         // changed by who is in; guarded by Memory.mu
}

// NewMemory makes a guard that has seen these tokens, by resource: what Seen answered before a restart.
func NewMemory(seen map[string]int64) *Memory {
	g := &Memory{}
	for resource, token := range seen {
		g.mark(resource).seen = token
	}
	return g
}

// Seen answers the greatest token of each resource.
func (g *Memory) Seen() map[string]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := make(map[string]int64, len(g.marks))
	for resource, m := range g.marks {
		seen[resource] = m.seen
	}
	return seen
}

// Do is as in Guard. It waits for its turn until ctx ends.
func (g *Memory) Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error {
	if token <= 0 {
		return &TokenError{token}
	}
	m := g.mark(resource)
	if err := g.check(m, resource, token); err != nil {
		return err // at once, without waiting for whoever is in
	}
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("waiting to write to %q: %w", resource, context.Cause(ctx))
	}
	if err := g.advance(m, resource, token); err != nil {
		return err
	}
	return write(ctx)
}

// Claim is as in Guard.
func (g *Memory) Claim(ctx context.Context, resource string, token int64) error {
	return g.Do(ctx, resource, token, func(context.Context) error { return nil })
}

func (g *Memory) mark(resource string) *mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.marks[resource]
	if m == nil {
		m = &mark{turn: make(chan struct{}, 1)}
		m.turn <- struct{}{}
		if g.marks == nil {
			g.marks = map[string]*mark{}
		}
		g.marks[resource] = m
	}
	return m
}

func (g *Memory) check(m *mark, resource string, token int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if token < m.seen {
		return &StaleError{Resource: resource, Token: token, Seen: m.seen}
	}
	return nil
}

func (g *Memory) advance(m *mark, resource string, token int64) error {
	if err := g.check(m, resource, token); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m.seen = token // only who is in changes it
	return nil
}
