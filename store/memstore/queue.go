package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A place is one holder's in the line of a name.
type place struct {
	claim store.Claim
	told  chan struct{} // of what has become of it
}

func (p *place) tell() {
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// Queue is as in store.Queuer.
func (s *Store) Queue(ctx context.Context, c store.Claim) (store.Outcome, time.Duration, error) {
	if err := store.CheckQueued(c); err != nil {
		return store.Outcome{Err: err}, 0, nil
	}
	m, now, err := s.lock(ctx)
	if err != nil {
		return store.Outcome{}, 0, err
	}
	out := m.claim(c, now)
	r := m.records[c.Name]
	if out.Err == nil {
		r.leave(c.Holder)
		after := r.since.Sub(now)
		m.mu.Unlock()
		return out, after, nil
	}
	if r == nil || !now.Before(r.until) { // it is something else that is in the way
		m.mu.Unlock()
		return out, 0, nil
	}
	p := r.stand(c)
	timer := time.NewTimer(r.until.Sub(now))
	m.mu.Unlock()
	defer timer.Stop()
	select {
	case <-p.told:
	case <-timer.C:
		return out, 0, nil
	case <-ctx.Done():
		return out, 0, nil
	case <-s.ctx.Done():
		return out, 0, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.records[c.Name]; r != nil && r.liveFor(c.Holder, time.Now()) {
		return store.Outcome{Grant: r.grant()}, r.since.Sub(now), nil
	}
	return out, 0, nil
}

// Leave is as in store.Queuer.
func (s *Store) Leave(ctx context.Context, name, holder string) (bool, error) {
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

// stand answers the place of a claim's holder: that which it has, or one at the end.
func (r *record) stand(c store.Claim) *place {
	if i := r.placeOf(c.Holder); i >= 0 {
		r.line[i].claim = c
		return r.line[i]
	}
	p := &place{claim: c, told: make(chan struct{}, 1)}
	r.line = append(r.line, p)
	return p
}

// leave gives up the place of a holder, if it has one.
func (r *record) leave(holder string) bool {
	i := r.placeOf(holder)
	if i >= 0 {
		r.line = slices.Delete(r.line, i, i+1)
	}
	return i >= 0
}

// handOver grants a name that has been released to the first of its line. All others look again if it lingers, or is taken for a time that
// ends before what they were told.
func (m *memory) handOver(r *record, told, now time.Time) {
	lingers := now.Before(r.until)
	if !lingers && len(r.line) > 0 {
		p := r.line[0]
		r.line = r.line[1:]
		m.claim(p.claim, now) // an error, that tokens have ended, is told when it asks again
		p.tell()
	}
	if lingers || r.until.Before(told) {
		for _, p := range r.line {
			p.tell()
		}
	}
}
