package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A place is the place of one holder in the queue of a name.
type place struct {
	claim store.Claim
	told  chan struct{} // closed when the calls that wait at it have to look at the record
}

// tell ends the waits of all calls at the place. Later calls wait for what comes after them.
func (p *place) tell() {
	close(p.told)
	p.told = make(chan struct{})
}

// Queue implements store.Queuer.
func (s *Store) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	if err := store.CheckQueued(c); err != nil {
		return store.Grant{}, 0, err
	}
	m, now, err := s.lock(ctx)
	if err != nil {
		return store.Grant{}, 0, err
	}
	g, err := m.acquire(c, now)
	r := m.records[c.Name]
	if err == nil {
		r.leave(c.Holder)
		after := r.since.Sub(now)
		m.mu.Unlock()
		return g, after, nil
	}
	if r == nil || !now.Before(r.until) { // the error has another reason than a lease
		m.mu.Unlock()
		return store.Grant{}, 0, err
	}
	told := r.stand(c).told
	timer := time.NewTimer(r.until.Sub(now))
	m.mu.Unlock()
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
		return store.Grant{}, 0, err
	case <-ctx.Done():
		return store.Grant{}, 0, err
	case <-s.ctx.Done():
		return store.Grant{}, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	then := time.Now()
	if r := m.records[c.Name]; r != nil && r.liveFor(c.Holder, then) {
		return r.grant(), r.since.Sub(now), nil
	} else if r != nil && then.Before(r.until) {
		return store.Grant{}, 0, &store.HeldError{Record: r.lease(c.Name, then)}
	}
	return store.Grant{}, 0, err
}

// Leave implements store.Queuer.
func (s *Store) Leave(ctx context.Context, name, holder string) (bool, error) {
	if err := store.CheckName(name); err != nil {
		return false, err
	}
	m, _, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	r := m.records[name]
	return r != nil && r.leave(holder), nil
}

func (r *record) placeOf(holder string) int {
	return slices.IndexFunc(r.line, func(p *place) bool { return p.claim.Holder == holder })
}

// stand returns the place of a claim's holder: its existing one, or a new one at the end of the queue.
func (r *record) stand(c store.Claim) *place {
	if i := r.placeOf(c.Holder); i >= 0 {
		r.line[i].claim = c
		return r.line[i]
	}
	p := &place{claim: c, told: make(chan struct{})}
	r.line = append(r.line, p)
	return p
}

// leave removes the place of a holder, and reports whether it had one.
func (r *record) leave(holder string) bool {
	i := r.placeOf(holder)
	if i >= 0 {
		r.line = slices.Delete(r.line, i, i+1)
	}
	return i >= 0
}

// handOver grants a released name to the first holder in its queue. All others are woken if the name lingers, or if the
// new lease ends before the time that they were told.
func (m *memory) handOver(r *record, told, now time.Time) {
	lingers := now.Before(r.until)
	if !lingers && len(r.line) > 0 {
		p := r.line[0]
		r.line = r.line[1:]
		_, _ = m.acquire(p.claim, now) // if the tokens have run out, the waiter gets the error when it asks again
		p.tell()
	}
	if lingers || r.until.Before(told) {
		for _, p := range r.line {
			p.tell()
		}
	}
}
