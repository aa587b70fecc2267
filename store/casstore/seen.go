package casstore

import (
	"sync"
	"time"
)

// seenLimit bounds how many items are remembered: at least as many, and at most twice as many.
const seenLimit = 1 << 16

// A sight is an item and when this process first saw this version of it.
type sight struct {
	item Item
	at   time.Time // with a monotonic reading, taken after the reply had arrived

	// compared is the version of the last grant by this process whose token was compared with the floor, and sure whether it was above it.
	compared string
	sure     bool
}

// left returns how long the lease or linger of the item lasts from now.
func (s sight) left(now time.Time) time.Duration {
	if s.item.Version == "" {
		return 0
	}
	return max(0, s.item.Record.TTL-max(0, now.Sub(s.at)))
}

// overdue returns what is left if the lease or the linger should be over by the wall clock of the client that wrote the item, else 0. Nothing may be granted
// because of it: clocks differ.
func (s sight) overdue(now time.Time) time.Duration {
	if r := s.item.Record; now.Round(0).Sub(r.written()) < r.TTL {
		return 0
	}
	return s.left(now)
}

// liveFor reports whether a holder has the lease.
func (s sight) liveFor(holder string, now time.Time) bool {
	r := s.item.Record
	return s.item.Version != "" && !r.Released && r.Holder == holder && s.left(now) > 0
}

// sights remembers the latest version of each item that was seen. It is safe to forget one: its TTL is then measured
// again from when it is next seen.
type sights struct {
	mu       sync.Mutex
	now, old map[string]sight
}

// see records an item from a reply, and returns when this process first saw this version of it.
func (s *sights) see(item Item) sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.find(item.Name)
	if !ok || seen.item.Version != item.Version { // it may be an older one, in a reply that was late: what was compared stays so
		seen = sight{item: item, at: time.Now(), compared: seen.compared, sure: seen.sure}
	}
	seen.settle()
	s.put(seen)
	return seen
}

func (s *sights) put(seen sight) {
	if len(s.now) >= seenLimit {
		s.old, s.now = s.now, nil
	}
	if s.now == nil {
		s.now = map[string]sight{}
	}
	s.now[seen.item.Name] = seen
}

// of returns the remembered item of a name.
func (s *sights) of(name string) (sight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(name)
}

func (s *sights) find(name string) (sight, bool) {
	seen, ok := s.now[name]
	if !ok {
		seen, ok = s.old[name]
	}
	return seen, ok
}

// compare records whether the token of a grant is above the floor, and returns what was recorded first for that grant. So all claims of its holder get
// the same token, although the floor may rise between them, and the next write of this process includes that the token is sure.
func (s *sights) compare(granted sight, above bool) (sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.find(granted.item.Name)
	if !ok {
		known = granted
	}
	if version := granted.item.Version; known.compared != version {
		known.compared, known.sure = version, above
	}
	known.settle()
	s.put(known)
	return known.sure
}

func (s *sight) settle() {
	if s.sure && s.compared == s.item.Version {
		s.item.Record.Unsure = false
	}
}
