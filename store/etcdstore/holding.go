package etcdstore

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// A holding is a name that this handle holds for somebody. Its fields are guarded by Store.mu.
type holding struct {
	holder   string
	token    int64
	mark     int64
	ttl      time.Duration
	revision int64 // of the record; 0 if the outcome of the claim is unknown
	session  *session
	until    time.Time // when this handle ends the lease unless it is extended
	noted    bool      // it was handed over by a note
	line     []ticket  // who was next then
	pins     int       // extensions that are being decided: the lease is not ended meanwhile
	changing bool      // a change of the name was sent: until its reply replaces the holding, the record may be another
	ending   bool      // a request that ends it is under way, or has ended it
	ended    bool      // it is remembered for a while: a name that was read before must not look held again
	over     *holding  // the lease that a claim with an unknown outcome found over: if it was not carried out, that is to be ended still
}

// hold records what this handle holds now.
func (s *Store) hold(name string, h *holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdLocked(name, h)
}

func (s *Store) holdLocked(name string, h *holding) {
	before := s.held[name]
	if before != nil && h.revision > 0 && before.token > h.token { // a reply about an earlier lease
		return
	}
	if before != nil && before.holder == h.holder {
		if !h.noted {
			h.noted, h.line = before.noted, before.line
		}
		if before.token == h.token && before.until.After(h.until) { // another extension was heard of first
			h.until = before.until
		}
	}
	s.dropLocked(name)
	s.held[name] = h
	h.session.names++
	heap.Push(&s.ends, end{h.until, name, h})
	s.background(&s.lapsing, s.lapse)
	s.poke()
}

// suspect records a claim whose outcome is unknown. It was to replace the record that had a revision: if this handle holds a later one, that is what counts.
func (s *Store) suspect(name string, h *holding, replaces int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch before := s.held[name]; {
	case before == nil:
	case before.revision > replaces:
		return
	case before.revision == 0:
		h.over = before.over
	default:
		h.over = before
	}
	s.holdLocked(name, h)
}

// drop forgets that this handle holds a lease. It may hold the name for the next one already, also for the same holder.
func (s *Store) drop(of lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[of.name]; h != nil && h.holder == of.holder && h.token <= of.token {
		s.dropLocked(of.name)
	}
}

// knowsLocked reports whether a holding is that of its name, or what a claim with an unknown outcome has found over.
func (s *Store) knowsLocked(name string, h *holding) bool {
	now := s.held[name]
	return now != nil && (now == h || now.over == h)
}

// forgetLocked forgets a holding that has ended. If it was a claim with an unknown outcome, what that has found over is the holding again.
func (s *Store) forgetLocked(name string, h *holding) {
	now := s.held[name]
	if now != h {
		now.over = nil
		return
	}
	s.dropLocked(name)
	if h.over != nil {
		h.over.session.names++
		s.held[name] = h.over
	}
}

func (s *Store) dropLocked(name string) {
	if h := s.held[name]; h != nil {
		h.session.names--
		delete(s.held, name)
	}
}

// holdingOf returns what this handle holds of a pair: nil if it is not this handle's, or is not taken. The record may be another one than that which the holding is from: an extension was
// carried out, and etcd's reply has not come, or did not say so. Then the holding is that of the extension from now on.
func (s *Store) holdingOf(name string, p pair) *holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holdingLocked(name, p)
}

func (s *Store) holdingLocked(name string, p pair) *holding {
	h := s.held[name]
	if h == nil || !p.taken || p.record.Released {
		return nil
	}
	of := s.sessions[p.record.Session]
	switch claimed := h.revision == 0; {
	case h.revision == p.revision:
	case h.over != nil && h.over.revision == p.revision:
		return h.over
	case p.record.Holder != h.holder, of == nil:
		return nil
	case claimed && p.record.Session != h.session.name, !claimed && p.record.Token != h.token:
		return nil
	case !claimed && p.revision > h.revision && !h.ended:
		return s.extendedLocked(name, h, p, of)
	}
	return h
}

// extendedLocked records an extension that etcd has carried out, and of which it has not told yet, or something else. So the lease lasts for the TTL in the record
// from when this process has seen that.
func (s *Store) extendedLocked(name string, h *holding, p pair, of *session) *holding {
	since := p.at
	if since.IsZero() {
		since = time.Now()
	}
	now := s.holding(p, of, since.Add(p.record.TTL))
	now.changing = h.changing // a reply is to come
	s.holdLocked(name, now)
	return now
}

// over reports whether the lease of a pair is one of this handle, and has ended although the name is its own in etcd still.
func (s *Store) over(name string, p pair, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holdingLocked(name, p)
	return h != nil && (h.ending || h.pins == 0 && !now.Before(h.until))
}

// left returns how long a name stays taken. Of leases of other processes it is not known when they were extended last: it is the whole TTL
// from when the pair was first seen, and a quarter of it whenever that is over.
func (s *Store) left(name string, p pair, now time.Time) time.Duration {
	if !p.taken {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.holdingLocked(name, p); h != nil {
		return max(0, h.until.Sub(now))
	}
	if left := p.record.TTL - now.Sub(p.at); left > 0 {
		return left
	}
	return max(100*time.Millisecond, min(time.Minute, p.record.TTL/4))
}

// An end is when a holding ends unless it is extended.
type end struct {
	at   time.Time
	name string
	of   *holding
}

// ends is a heap: the first one ends first.
type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *ends) Push(x any) { *e = append(*e, x.(end)) } //nolint:forcetypeassert // of this package itself

// Pop implements heap.Interface.
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = end{}
	*e = (*e)[:len(*e)-1]
	return last
}

// poke lets lapse look again. Store.mu is held.
func (s *Store) poke() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

// lapse ends the leases that were not extended, and the lingers that are over, until there are none.
func (s *Store) lapse() {
	for {
		over, lingers, wait, more := s.overdue()
		if !more {
			return
		}
		s.endLingers(lingers)
		if len(over) > 0 {
			s.endLeases(over)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.poked:
			timer.Stop()
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// overdue returns the leases to end now, and the time until the next one. If there is none, the goroutine must end.
func (s *Store) overdue() (over []end, lingers []*linger, wait time.Duration, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	lingers, wait = s.overLingers(now)
	for len(s.ends) > 0 && len(over) < s.chunk() {
		first := s.ends[0]
		if left := first.at.Sub(now); left > 0 {
			wait = shorter(wait, left)
			break
		}
		heap.Pop(&s.ends)
		switch h := first.of; {
		case !s.knowsLocked(first.name, h): // released, or granted anew
		case h.ended:
			s.forgetLocked(first.name, h)
		case h.until.After(now):
			heap.Push(&s.ends, end{h.until, first.name, h})
		case h.pins > 0:
			heap.Push(&s.ends, end{now.Add(10 * time.Millisecond), first.name, h})
		default:
			over = append(over, first)
		}
	}
	s.lapsing = len(over) > 0 || len(lingers) > 0 || wait > 0
	return over, lingers, max(wait, time.Millisecond), s.lapsing
}

// endLeases frees the names of leases that are over, if they are as they were. If that fails, their sessions are abandoned, so that etcd ends them, unless its database is full.
func (s *Store) endLeases(over []end) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	tasks := make([]*task, len(over))
	for i, e := range over {
		tasks[i] = s.lapsed(e)
	}
	s.run(ctx, tasks)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range over {
		switch h, err := e.of, tasks[i].err; {
		case !s.knowsLocked(e.name, h):
		case err == nil, h.session.gone, time.Now().After(h.session.bound.Add(patience)):
			h.ending, h.ended = true, true
			heap.Push(&s.ends, end{time.Now().Add(patience), e.name, h})
		case errors.Is(err, errExtended):
			heap.Push(&s.ends, end{h.until, e.name, h})
		case errors.Is(err, rpctypes.ErrNoSpace): // nobody is granted a name meanwhile, and the other names of its session could not have another one
			h.ending = false
			heap.Push(&s.ends, end{time.Now().Add(again), e.name, h})
		default:
			h.ending = false
			s.abandonLocked(h.session)
			heap.Push(&s.ends, end{time.Now().Add(again), e.name, h})
		}
	}
}

// errExtended is the error of the end of a lease that was extended meanwhile.
var errExtended = errors.New("the lease was extended")

// lapsed is the task that frees a name whose lease is over.
func (s *Store) lapsed(e end) *task {
	t := &task{name: e.name}
	t.guess = func(p pair) bool { return s.holdingOf(e.name, p) == e.of }
	t.decide = func(p pair) (*change, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch h := e.of; {
		case !s.knowsLocked(e.name, h), s.holdingLocked(e.name, p) != h: // it is gone, or somebody else's
			return nil, nil //nolint:nilnil // nothing to write
		case h.pins > 0 || h.until.After(time.Now()):
			return nil, errExtended
		default:
			h.ending = true
		}
		freed := p.record
		freed.Session = ""
		return &change{record: &freed}, nil
	}
	return t
}
