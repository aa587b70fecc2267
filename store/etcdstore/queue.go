package etcdstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// How long a free name that was not handed over is left to the first in its queue. So one that is stopped does not hold up the others for longer.
const grace = time.Second

// idleTurns is for how long a handle that waited for a name continues to watch it: if it waits again soon, it need not begin another watch.
const idleTurns = 10 * time.Second

// Queue implements store.Queuer: one request takes the name if it is free, or a place in its queue. The release hands the name over by naming the session of
// the place in the record, and leaves a note in the inbox of its handle. The lease begins when this handle notices that: until then nobody counts its time, and etcd keeps the name
// for as long as the lease of etcd lasts.
func (s *Store) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	if err := s.ready(ctx); err != nil {
		return store.Grant{}, 0, err
	}
	if err := store.CheckQueued(c); err != nil {
		return store.Grant{}, 0, err
	}
	client, err := s.clients.get(ctx)
	if err != nil {
		return store.Grant{}, 0, err
	}
	asked := time.Now()
	if err := s.openInbox(ctx, client); err != nil {
		return store.Grant{}, 0, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	free, err := s.watch(watching, &s.turns, s.followEnds, []string{c.Name})
	if err != nil {
		return store.Grant{}, 0, err
	}
	at := s.enter(c)
	grant, began, err := s.queue(ctx, c, at, free, asked)
	if handed := s.exit(at, err == nil); handed != nil && err != nil { // the call ended at that moment
		grant, began, err = s.inherit(ctx, c.Name, *handed)
	}
	if err != nil {
		return store.Grant{}, 0, err
	}
	return grant, began.Sub(asked), nil
}

// followEnds is the follower of Queue: the name is free and was not handed over, or it lingers.
func (s *Store) followEnds(ctx context.Context, client *clientv3.Client, name string, of *watched) {
	s.turns.follow(name, of, client.Watch(ctx, s.keys.queued(name), clientv3.WithFilterPut(), clientv3.WithCreatedNotify()),
		func(events []*clientv3.Event) bool { return len(events) > 0 })
}

// queue takes the name or a place, and waits until the name is handed over, or the caller must call again. It returns when the lease began.
func (s *Store) queue(ctx context.Context, c store.Claim, at *place, free <-chan struct{}, asked time.Time) (grant store.Grant, began time.Time, err error) {
	p, mine, expired, err := s.stand(ctx, c, at)
	switch {
	case err != nil:
		return store.Grant{}, time.Time{}, err
	case mine:
		if grant, began, err = s.granted(ctx, c, p, asked); began.After(asked) {
			began = asked // it was taken by this call
		}
		grant.ExpiredAge = expired
		return grant, began, err
	}
	handed := s.await(ctx, at, free)
	if handed != nil {
		return s.inherit(ctx, c.Name, *handed)
	}
	if err := s.ready(context.WithoutCancel(ctx)); err != nil { // the place stays, and the name may be handed over to it
		return store.Grant{}, time.Time{}, store.AsUnknown(err)
	}
	if now, ok := s.sights.of(c.Name); ok && now.err == nil && now.taken {
		p = now
	}
	r := s.view(c.Name, p, time.Now(), false)
	r.Left = max(r.Left, retryAfter)
	return store.Grant{}, time.Time{}, &store.HeldError{Record: r}
}

// await waits until the name was handed over to a place. It returns nil if the caller must call again: the name is free, or it lingers, or a watch is lost,
// or ctx has ended.
func (s *Store) await(ctx context.Context, at *place, free <-chan struct{}) *pair {
	var turn <-chan time.Time // of a name that is left to others
	if freed := s.seenFree(at); !freed.IsZero() {
		timer := time.NewTimer(time.Until(freed.Add(grace)))
		defer timer.Stop()
		turn = timer.C
	}
	for {
		handed, lost, woken := s.took(at)
		if handed != nil || lost {
			return handed
		}
		select {
		case <-woken:
			continue
		case <-free:
		case <-turn:
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		handed, _, _ = s.took(at)
		return handed
	}
}

// stand takes the name for the holder of a place, or a place in its queue. p is what etcd has replied; mine reports that the holder has the name, and expired is the
// ExpiredAge of its grant.
func (s *Store) stand(ctx context.Context, c store.Claim, at *place) (p pair, mine bool, expired time.Duration, err error) {
	before, _ := s.sights.of(c.Name)
	stands := false // a ticket that this call has written may be there
	defer func() {
		if stands && err != nil && !errors.Is(err, store.ErrHeld) {
			err = store.AsUnknown(err)
		}
	}()
	for range attempts {
		of, err := s.session(ctx, c.TTL)
		if err != nil {
			return pair{}, false, 0, err
		}
		waits, p, err := s.ask(ctx, c, at, of, before)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			s.check(ctx, []*task{{session: of}})
			s.writeAgain(at)
			pairs, err := s.read(ctx, []string{c.Name}) // it may be the session that has the name
			if err != nil {
				return pair{}, false, 0, err
			}
			before = pairs[0]
			continue
		case err != nil:
			return pair{}, false, 0, err
		case p.unsure && waits:
			before, stands = p, true
			continue
		case p.unsure: // another session has the name than this handle knew
			before = p
			s.writeAgain(at)
			continue
		case p.err != nil || p.taken && !p.record.Released && p.record.Holder == c.Holder: // nobody waits for what he has
			if waits || stands {
				_, err = s.Leave(ctx, c.Name, c.Holder)
				err, stands = store.AsUnknown(err), false
			}
			s.ticketGone(at.placeKey)
			return p, p.err == nil && err == nil, 0, errors.Join(p.err, err)
		case waits:
			s.seenTaken(at)
			return p, false, 0, nil
		case p.taken: // the record has changed, or the ticket is gone: written again, a ticket keeps its place
			before = p
			s.writeAgain(at)
			continue
		case !s.turn(at, p):
			return p, false, 0, nil
		}
		if p, expired, err = s.take(ctx, c, p); !errors.Is(err, store.ErrHeld) {
			return p, err == nil, expired, err
		}
	}
	return pair{}, false, 0, &store.HeldError{Record: store.Record{Name: c.Name, Left: retryAfter}}
}

// turn reports whether a place may take a name that is free: nobody is before it in the queue, or those who are have not taken the name for a while.
func (s *Store) turn(at *place, p pair) bool {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	switch {
	case len(p.line) == 0 || p.line[0].Holder == at.holder:
		return true
	case at.freed.IsZero():
		at.freed = time.Now()
	}
	return time.Since(at.freed) >= grace
}

// take claims a name that was seen free, and deletes the ticket of its holder.
func (s *Store) take(ctx context.Context, c store.Claim, p pair) (pair, time.Duration, error) {
	var out store.Outcome
	t := s.claim(c, &out)
	t.pair, t.ticket = p, s.keys.ticket(c.Name, c.Holder)
	s.run(ctx, []*task{t})
	return t.pair, out.Grant.ExpiredAge, t.err
}

// ask reads the name, and writes a ticket that is attached to a session if the name is taken and the place has no such ticket as far as it knows. before is how the name was seen
// last. waits reports that there is a ticket.
//
// The key by which those who wait hear of the end of a lease is attached to the session that has the name: while it is there, the name is taken. The first who waits writes it, and
// must know that session. If somebody has deleted the record by hand, the key is that of a session which does not have the name: then it is deleted, and p is unsure, although there is a ticket.
func (s *Store) ask(ctx context.Context, c store.Claim, at *place, of *session, before pair) (waits bool, p pair, err error) {
	client, err := s.clients.get(ctx)
	if err != nil {
		return false, pair{}, err
	}
	key, queued := s.keys.ticket(c.Name, c.Holder), s.keys.queued(c.Name)
	is, then := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(queued), ">", 0)}, []clientv3.Op{s.keys.get(c.Name)}
	var has []clientv3.Cmp
	writes := s.writes(c, at, of)
	if writes {
		value, err := json.Marshal(ticketValue{c.TTL, s.inbox.id, of.name})
		if err != nil {
			return false, pair{}, err
		}
		then = append(then, clientv3.OpPut(key, string(value), clientv3.WithLease(of.id)))
	} else {
		has = []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)}
	}
	no := step{line: true}
	otherwise := no.otherwise(s.keys, c.Name)
	if before.taken {
		no.there, no.looks = []string{before.record.Session}, []string{before.record.Session}
		first := append(no.conditions(s.keys), clientv3.Compare(clientv3.ModRevision(s.keys.record(c.Name)), "=", before.revision))
		tell := clientv3.OpPut(queued, "", clientv3.WithLease(leaseOf(before.record.Session)))
		otherwise = []clientv3.Op{clientv3.OpTxn(append(first, has...), append(slices.Clip(then), tell), no.otherwise(s.keys, c.Name))}
	}
	told := clientv3.OpGet(queued) // not the key only: etcd's reply to that has no lease
	reply, err := s.height.commit(client.Txn(ctx), ask{append(is, has...), append(slices.Clip(then), told), otherwise})
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return false, pair{}, err
	case err != nil:
		full := errors.Is(err, rpctypes.ErrNoSpace) // with that etcd has decided, as in commit
		switch err = s.unsure("waiting", err); {
		case !writes || !errors.Is(err, store.ErrUnknown):
		case full:
			s.findTicket(ctx, client, at)
		default:
			s.abandon(of)
		}
		return false, pair{}, err
	}
	waits, seen := reply.Succeeded, reply.Responses
	if !waits && before.taken {
		inner := seen[0].GetResponseTxn()
		waits, seen = inner.Succeeded, inner.Responses
	}
	if !waits {
		return false, s.inTheWay(&task{name: c.Name}, no, seen), nil
	}
	p = pairOf(c.Name, seen[0].GetResponseRange().Kvs, presence{})
	p.unsure = false
	if reply.Succeeded && p.err == nil {
		if kvs := seen[len(seen)-1].GetResponseRange().Kvs; !p.taken || len(kvs) == 1 && kvs[0].Lease != int64(leaseOf(p.record.Session)) {
			p.unsure = true
			return true, p, s.untell(ctx, client, queued, kvs)
		}
	}
	return true, s.sights.see(c.Name, p), nil
}

// untell deletes the key by which those who wait hear of the end of a lease, as it was read: it is that of another session than has the name. All who wait ask again.
func (s *Store) untell(ctx context.Context, client *clientv3.Client, queued string, kvs []*mvccpb.KeyValue) error {
	for _, kv := range kvs {
		_, err := s.height.commit(client.Txn(ctx), ask{
			are: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(queued), "=", kv.ModRevision)}, then: []clientv3.Op{clientv3.OpDelete(queued)},
		})
		if err != nil {
			return store.AsUnknown(s.wrap("waiting", err)) // there is a ticket
		}
	}
	return nil
}

// findTicket forgets the ticket of a place if etcd has not written it.
func (s *Store) findTicket(ctx context.Context, client *clientv3.Client, at *place) {
	reply, err := s.height.get(ctx, client, s.keys.ticket(at.name, at.holder), clientv3.WithCountOnly())
	if err == nil && reply.Count == 0 {
		s.ticketGone(at.placeKey)
	}
}

// writes reports whether a place needs a ticket, and notes to which session that will be attached.
func (s *Store) writes(c store.Claim, at *place, of *session) bool {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	if s.holds(c) || at.session == of && at.ttl == c.TTL && !at.again {
		return false
	}
	at.ttl, at.again = c.TTL, false
	s.attach(at, of)
	return true
}

// holds reports whether this handle holds a name for the holder of a claim.
func (s *Store) holds(c store.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[c.Name]
	return h != nil && h.holder == c.Holder
}

// granted returns the grant of a name that the holder has, and when it began. What was handed over before this call was asked for began before, for its caller: a
// moment, for nobody has counted its time.
func (s *Store) granted(ctx context.Context, c store.Claim, p pair, asked time.Time) (store.Grant, time.Time, error) {
	s.mu.Lock()
	h := s.holdingLocked(c.Name, p)
	var until time.Time
	if h != nil {
		until = h.until
	}
	s.mu.Unlock()
	if h == nil { // it was handed over, and the watch did not report that
		grant, _, err := s.inherit(ctx, c.Name, p)
		return grant, asked.Add(-time.Nanosecond), err
	}
	s.recover(c, p)
	return s.kept(ctx, c.Name, p, h.session, until)
}

// inherit begins the lease of a name that was handed over.
func (s *Store) inherit(ctx context.Context, name string, p pair) (store.Grant, time.Time, error) {
	of, began := s.beginLease(name, p)
	return s.kept(ctx, name, p, of, began.Add(p.record.TTL))
}

// kept returns the grant of a lease that this handle ends at an instant, after it has made sure that etcd keeps it until then.
func (s *Store) kept(ctx context.Context, name string, p pair, of *session, until time.Time) (store.Grant, time.Time, error) {
	s.mu.Lock()
	enough := of != nil && !of.gone && of.lastsFor(time.Until(until))
	s.mu.Unlock()
	if !enough {
		r := p.record
		errs, err := s.Extend(ctx, []store.Extension{{Name: name, Holder: r.Holder, Token: r.Token, TTL: r.TTL}})
		switch err = errors.Join(append(errs, err)...); {
		case errors.Is(err, store.ErrLost):
			return store.Grant{}, time.Time{}, &store.HeldError{Record: store.Record{Name: name, Left: retryAfter}}
		case err != nil:
			return store.Grant{}, time.Time{}, store.AsUnknown(err)
		}
	}
	return grantOf(p), until.Add(-p.record.TTL), nil
}

// grantOf returns the grant of a pair.
func grantOf(p pair) store.Grant {
	return store.Grant{Token: p.record.Token, Mark: p.record.Mark, State: bytes.Clone(p.record.State)}
}

// Leave implements store.Queuer, with one request.
func (s *Store) Leave(ctx context.Context, name, holder string) (bool, error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	if err := store.CheckName(name); err != nil {
		return false, err
	}
	client, err := s.clients.get(ctx)
	if err != nil {
		return false, err
	}
	key := s.keys.ticket(name, holder)
	reply, err := s.height.commit(client.Txn(ctx), ask{are: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)}, then: []clientv3.Op{clientv3.OpDelete(key)}})
	switch {
	case err != nil:
		s.forsake(placeKey{name, holder})
		return false, s.unsure("leaving the queue", err)
	case !reply.Succeeded: // the name may have been handed over
		s.forsake(placeKey{name, holder})
		return false, nil
	}
	s.ticketGone(placeKey{name, holder})
	return true, nil
}
