package move

import (
	"maps"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A memory keeps what this process has learned of leases, for as long as their holders may ask for more.
type memory[V any] struct {
	keep time.Duration // at least this long, and for the TTL

	mu    sync.Mutex
	of    map[leaseKey]*remembered[V]
	sweep int // how many there have to be before the next look for those that are over
}

type leaseKey struct{ name, holder string }

// A remembered value is what is known of one lease.
type remembered[V any] struct {
	what  V
	until time.Time
}

// repeatTime is how long a request is remembered at least that may be repeated.
const repeatTime = 15 * time.Second

// fewRemembered is how many leases may be remembered although they are over.
const fewRemembered = 1024

func newMemory[V any](keep time.Duration) *memory[V] {
	return &memory[V]{keep: keep, of: map[leaseKey]*remembered[V]{}, sweep: fewRemembered}
}

func (m *memory[V]) put(c store.Claim, what V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.of[leaseKey{c.Name, c.Holder}] = &remembered[V]{what, now.Add(max(c.TTL, m.keep))}
	if len(m.of) > m.sweep {
		maps.DeleteFunc(m.of, func(_ leaseKey, r *remembered[V]) bool { return now.After(r.until) })
		m.sweep = max(fewRemembered, 2*len(m.of))
	}
}

func (m *memory[V]) remove(c store.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, leaseKey{c.Name, c.Holder})
}

// get returns what is known of a lease, nil if there is nothing.
func (m *memory[V]) get(c store.Claim) *remembered[V] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[leaseKey{c.Name, c.Holder}]
}

// settle forgets what was known of a lease, unless it has been put once more since then.
func (m *memory[V]) settle(c store.Claim, r *remembered[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if key := (leaseKey{c.Name, c.Holder}); m.of[key] == r {
		delete(m.of, key)
	}
}
