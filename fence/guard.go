package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrStale reports that a token is lower than one that the guard has seen. See StaleError.
var ErrStale = errors.New("stale fencing token")

// A StaleError reports that a guard refused a token. errors.Is(err, ErrStale) is true for it.
type StaleError struct {
	Resource string
	Token    int64 // the refused token
	Seen     int64 // the greatest token that the guard has seen
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("stale fencing token: %q has seen token %d, and %d is lower: its lease has gone to another holder", e.Resource, e.Seen, e.Token)
}

// Is makes errors.Is(e, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// A TokenError reports a number that cannot be a fencing token.
type TokenError struct{ Token int64 }

func (e *TokenError) Error() string {
	return fmt.Sprintf("fencing token %d: a token is greater than 0; send that of the lease", e.Token)
}

// A Guard refuses the writes of stale holders to resources. It must be safe for concurrent use.
type Guard interface {
	// Do runs write unless token is lower than one seen before for the resource: then it returns a *StaleError. A
	// successor's write cannot overtake it: either other tokens for the resource wait while write runs, or, if a greater
	// one has passed meanwhile, what write did is discarded, and Do returns a *StaleError. A guard says which, and of
	// what: of a guard in a database only what write does in its transaction is guarded. If write returns an error, Do
	// returns it. The token counts as seen however write ends: with nil, with an error, by a panic or by runtime.Goexit.
	Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error

	// Claim is Do without a write: after it has returned, lower tokens are refused.
	Claim(ctx context.Context, resource string, token int64) error
}

// Memory is a guard in the memory of one process, for resources to which only this process writes. It forgets its
// tokens when the process ends; use Seen and NewMemory to keep them. The zero value is ready to use. It is safe for
// concurrent use.
type Memory struct {
	mu    sync.Mutex
	marks map[string]*mark
}

type mark struct {
	turn chan struct{} // holds one value while no write is running
	seen int64         // changed only by the caller whose turn it is; guarded by Memory.mu
}

// NewMemory returns a guard that has seen these tokens, by resource: those that Seen returned before a restart.
func NewMemory(seen map[string]int64) *Memory {
	g := &Memory{}
	for resource, token := range seen {
		g.mark(resource).seen = token
	}
	return g
}

// Seen returns the greatest token of each resource.
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
		return err // immediately, without waiting for a running write
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
	m.seen = token // only the caller whose turn it is changes it
	return nil
}
