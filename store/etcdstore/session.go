package etcdstore

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A session is a lease of etcd that leases of this process share, with a key that is attached to it. A name is held while the session that its record names is there. Its fields are guarded by Store.mu.
type session struct {
	name  string // of its key, which is there for as long as the lease
	id    clientv3.LeaseID
	class int64         // the longest TTL that it is for, in seconds
	ttl   time.Duration // what etcd has granted
	bound time.Time     // etcd keeps it at least until then, by the monotonic clock
	wall  time.Time     // the same by the wall clock, which runs on while the machine is suspended
	names int           // that are attached to it
	used  time.Time     // when it was last wanted

	// given up: no name is attached to it any more, and it is not kept alive for its own sake. It is gone, or a write that attaches
	// a name to it may be under way still, or the lease of a name could not be ended.
	abandoned bool
	gone      bool // etcd has ended it, or its key is not there
}

// classOf returns the class of a TTL: whole seconds with four significant bits, rounded up. So there are few classes, and a class is at most an
// eighth longer than the TTL, or a second.
func classOf(ttl time.Duration) int64 {
	seconds := max(1, int64((ttl+time.Second-1)/time.Second))
	step := int64(1) << max(0, bits.Len64(uint64(seconds))-4) //nolint:gosec // it is positive
	return (seconds + step - 1) / step * step
}

// keptUntil notes how long etcd keeps the session at least.
func (of *session) keptUntil(end time.Time) { of.bound, of.wall = end, end.Round(0) }

// lastsFor reports whether etcd keeps the session for a TTL from now. It must last by both clocks: the monotonic clock stands still while the
// machine is suspended, and the wall clock can be set back.
func (of *session) lastsFor(ttl time.Duration) bool {
	end := time.Now().Add(ttl)
	return !of.bound.Before(end) && !of.wall.Before(end.Round(0))
}

// slackOf returns how many seconds the lease of etcd is longer than its class: it need not be kept alive before every request.
func slackOf(class int64) int64 { return max(2, class/4) }

// session returns a session whose lease lasts for a TTL from now.
func (s *Store) session(ctx context.Context, ttl time.Duration) (*session, error) {
	class := classOf(ttl)
	gate := s.gate(class)
	for {
		if now := s.current(class, ttl); now != nil {
			return now, nil
		}
		select { // one request at a time for each class
		case gate <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		err := s.renewOrGrant(ctx, class, ttl)
		<-gate
		if err != nil {
			return nil, err
		}
	}
}

// gate returns the lock of a class.
func (s *Store) gate(class int64) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[class] == nil {
		s.gates[class] = make(chan struct{}, 1)
	}
	return s.gates[class]
}

// current returns the session of a class if it lasts for a TTL from now.
func (s *Store) current(class int64, ttl time.Duration) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.classes[class]
	if now == nil || !now.lastsFor(ttl) {
		return nil
	}
	now.used = time.Now()
	return now
}

// renewOrGrant makes a session of a class last for a TTL, or makes a new one. The gate of the class is held.
func (s *Store) renewOrGrant(ctx context.Context, class int64, ttl time.Duration) error {
	if s.current(class, ttl) != nil { // another goroutine has done it
		return nil
	}
	s.mu.Lock()
	of := s.classes[class]
	s.mu.Unlock()
	if of != nil {
		switch err := s.renew(ctx, of); {
		case err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound):
			return err
		case err == nil && s.current(class, ttl) != nil:
			return nil
		}
		s.abandon(of)
	}
	return s.grant(ctx, class, ttl)
}

// renew keeps a session's lease alive.
func (s *Store) renew(ctx context.Context, of *session) error {
	client, err := s.clients.get(ctx)
	if err != nil {
		return err
	}
	sent, ttl, err := s.alive.renew(ctx, client, of.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		of.gone = true
		s.abandonLocked(of)
		return err
	case err != nil && s.closed:
		return errClosedMeanwhile
	case err != nil:
		return s.wrap("keeping its lease alive", err)
	}
	of.ttl = ttl
	if end := sent.Add(of.ttl); end.After(of.bound) {
		of.keptUntil(end)
	}
	return nil
}

// grant makes a new session of a class. If etcd's replies come so late that its lease is too short by then, it tries a longer one.
func (s *Store) grant(ctx context.Context, class int64, ttl time.Duration) (err error) {
	for slack := slackOf(class); slack <= 16*slackOf(class); slack *= 2 {
		if err = s.grantFor(ctx, class, class+slack, ttl); !errors.Is(err, errTooSlow) {
			break
		}
	}
	return err
}

// grantFor makes a session whose lease is for some seconds.
func (s *Store) grantFor(ctx context.Context, class, seconds int64, ttl time.Duration) error {
	client, err := s.clients.get(ctx)
	if err != nil {
		return err
	}
	sent := time.Now()
	lease, err := s.height.grant(ctx, client, seconds)
	if err != nil {
		return s.wrap("granting a lease", err)
	}
	name := newSession(lease.ID)
	written, err := client.Put(ctx, s.keys.session(name), "", clientv3.WithLease(lease.ID))
	if err == nil && written.Header == nil {
		err = errReply
	}
	if err != nil {
		return s.wrap("writing the key of a lease", err) // the lease ends by itself
	}
	now := &session{
		name: name, id: lease.ID, class: class, ttl: time.Duration(lease.TTL) * time.Second, used: time.Now(),
	}
	if now.keptUntil(sent.Add(now.ttl)); !now.lastsFor(ttl) {
		return s.wrap("granting a lease", errTooSlow)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosedMeanwhile
	}
	s.classes[class], s.sessions[name] = now, now
	s.background(&s.renewing, s.keepAlive)
	select {
	case s.hurry <- struct{}{}:
	default:
	}
	return nil
}

// presence reads whether sessions are there, with one request for each hundred.
func (s *Store) presence(ctx context.Context, sessions []string) (presence, error) {
	now := newPresence()
	client, err := s.clients.get(ctx)
	if err != nil {
		return now, err
	}
	for len(sessions) > 0 {
		some := sessions[:min(len(sessions), s.chunk())]
		ops := make([]clientv3.Op, len(some))
		for i, session := range some {
			ops[i] = s.keys.isThere(session)
		}
		reply, err := s.height.commit(client.Txn(ctx), ask{then: ops})
		switch {
		case errors.Is(err, rpctypes.ErrTooManyOps):
			if err := s.shrink(len(some)); err != nil {
				return now, err
			}
			continue
		case err != nil:
			return now, s.wrap("reading", err)
		}
		s.sawSessions(some, reply.Responses, now)
		sessions = sessions[len(some):]
	}
	return now, nil
}

// sawSessions notes what the replies to isThere say.
func (s *Store) sawSessions(sessions []string, replies []*etcdserverpb.ResponseOp, now presence) {
	for i, session := range sessions {
		r := replies[i].GetResponseRange()
		if now.there[session] = r.Count > 0; !now.there[session] {
			s.sights.end(session)
		}
		for _, kv := range r.Kvs {
			now.saw(session, kv)
		}
	}
}

// isThere reads whether a session is there. Without the value, which is empty, etcd does not tell the lease of the key.
func (k keys) isThere(session string) clientv3.Op {
	return clientv3.OpGet(k.session(session))
}

// abandon keeps names from being attached to a session.
func (s *Store) abandon(of *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandonLocked(of)
}

func (s *Store) abandonLocked(of *session) {
	of.abandoned = true
	if s.classes[of.class] == of {
		delete(s.classes, of.class)
	}
}

// lasts makes a session last for a TTL from now, with one request if it does not. It reports false if it is gone or abandoned.
func (s *Store) lasts(ctx context.Context, of *session, ttl time.Duration) (bool, error) {
	s.mu.Lock()
	usable, enough := !of.abandoned, of.lastsFor(ttl)
	of.used = time.Now()
	s.mu.Unlock()
	if !usable || enough {
		return usable, nil
	}
	switch err := s.renew(ctx, of); {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return of.lastsFor(ttl), nil
}

// How long one request of the background may take, and how long after a failure it is repeated.
const (
	patience = 5 * time.Second
	again    = time.Second
)

// keepAlive renews the sessions in use, until there are none.
func (s *Store) keepAlive() {
	for {
		due, next := s.due()
		for _, of := range due {
			ctx, cancel := context.WithTimeout(s.ctx, patience)
			err := s.renew(ctx, of)
			cancel()
			if err != nil {
				next = again
			}
		}
		if len(due) > 0 && next != again {
			continue
		}
		if next == 0 {
			return
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-s.hurry:
			timer.Stop()
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// due returns the sessions to renew now, and the time until the next one must be renewed; 0 if there is none. Then the goroutine
// must end. Sessions that are not used any more are left to etcd, which ends them.
func (s *Store) due() (due []*session, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for name, of := range s.sessions {
		idle := of.names == 0 && now.Sub(of.used) > of.ttl
		if idle || of.gone || of.abandoned && now.After(of.bound) {
			s.abandonLocked(of)
			if of.names == 0 {
				delete(s.sessions, name)
			}
		}
		if of.abandoned {
			if s.sessions[name] != nil {
				next = shorter(next, max(again, of.bound.Sub(now)))
			}
			continue
		}
		slack := of.ttl - time.Duration(of.class)*time.Second
		early := slack/2 - of.ttl
		switch wait := min(of.bound.Add(early).Sub(now), of.wall.Add(early).Sub(now.Round(0))); {
		case wait <= 0:
			due = append(due, of)
		default:
			next = shorter(next, wait)
		}
	}
	if len(due) == 0 && next == 0 {
		s.renewing = false
	}
	slices.SortFunc(due, func(a, b *session) int { return a.bound.Compare(b.bound) })
	return due, next
}

// shorter returns the shorter of two waits. A wait of 0 means none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}
