package etcdstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// attempts is how often a change is decided again after a conflict. Each conflict means that another client succeeded, so after that many the caller
// gets a *HeldError.
const attempts = 16

// retryAfter is the pause before the next claim after that many conflicts.
const retryAfter = 10 * time.Millisecond

// A task is one request of a batch for one name. It decides what to write from the two keys of the name.
type task struct {
	name string

	// decide returns the change to write, nil if there is nothing to write and the task has succeeded, or the error with which it failed. It may be
	// called several times; the last call counts.
	decide func(p pair) (*change, error)

	// guess, if not nil, reports whether decide would return a change. Then a name that was seen before need not be read again: the condition of the
	// write checks that it has not changed.
	guess func(p pair) bool

	// shares reports whether the task may be decided by what an earlier one of the batch for the same name has read or written.
	shares bool

	// wrote is called when the change has been written, at a revision. unknown is called when its outcome is unknown.
	wrote   func(c *change, now pair)
	unknown func(c *change)

	err  error // the outcome
	pair pair  // as decide has seen it last

	ticket string // the key of the holder's place in the queue, which a claim that is granted deletes; "" if it has none

	change  *change
	session *session // that the change attaches the name to
	linger  *linger
	guessed bool // pair is what this handle remembers, and was not read for the task
	alone   bool // an earlier change of it was not made, so this one does not depend on other names
}

// A change is what a task writes.
type change struct {
	record *record       // the new record; nil deletes both keys
	take   time.Duration // the name is taken for so long, in a session
	linger time.Duration // the name lingers for so long
	frees  bool          // the name is handed over to the first of line, or free if nobody is in the queue
	line   []ticket
}

// heir returns whom a release hands over to, nil if that is nobody.
func (c *change) heir() *ticket {
	if len(c.line) > 0 && c.line[0].TTL > 0 {
		return &c.line[0]
	}
	return nil
}

// layers divides a batch into parts in each of which no name occurs twice.
func layers(tasks []*task) (parts [][]*task) {
	seen := make(map[string]int, len(tasks))
	for _, t := range tasks {
		n := seen[t.name]
		seen[t.name]++
		if n == len(parts) {
			parts = append(parts, nil)
		}
		parts[n] = append(parts[n], t)
	}
	return parts
}

// run carries out the tasks of a batch: it reads the names that it has to, decides, and writes, and repeats that for the names that another client
// changed meanwhile.
func (s *Store) run(ctx context.Context, tasks []*task) {
	before := map[string]*task{} // the last one of each name
	for _, part := range layers(tasks) {
		known := map[*task]bool{}
		all := part
		part = decideNext(part, before, known)
		for _, t := range part {
			if known[t] {
				continue
			}
			if p, _ := s.sights.of(t.name); p.err == nil && t.guess != nil && t.guess(p) {
				t.pair, t.guessed, known[t] = p, true, true
			}
		}
		for range attempts {
			part = s.look(ctx, part, known)
			if part = s.write(ctx, part, known); len(part) == 0 {
				break
			}
		}
		for _, t := range part {
			t.err = &store.HeldError{Record: store.Record{Name: t.name, Left: retryAfter}}
		}
		for _, t := range all {
			before[t.name] = t
		}
	}
}

// decideNext decides tasks by the pair that the one before them has left, which was read or written during this call: as if they came at that moment. It
// returns those that were not decided by that: they have something to write, or the one before has failed.
func decideNext(tasks []*task, before map[string]*task, known map[*task]bool) (rest []*task) {
	for _, t := range tasks {
		b := before[t.name]
		if !t.shares || b == nil || b.err != nil && !errors.Is(b.err, store.ErrHeld) && !errors.Is(b.err, store.ErrDone) {
			rest = append(rest, t)
			continue
		}
		t.pair = b.pair
		if t.change, t.err = t.decide(t.pair); t.err != nil || t.change == nil {
			continue
		}
		known[t] = true
		rest = append(rest, t)
	}
	return rest
}

// look reads the names that are not known. It returns the tasks that can continue.
func (s *Store) look(ctx context.Context, tasks []*task, known map[*task]bool) (rest []*task) {
	var names []string
	for _, t := range tasks {
		if !known[t] {
			names = append(names, t.name)
		}
	}
	if len(names) == 0 {
		return tasks
	}
	pairs, err := s.read(ctx, names)
	for _, t := range tasks {
		if !known[t] {
			if t.err = err; err == nil {
				t.pair, pairs = pairs[0], pairs[1:]
				t.err = t.pair.err
			}
			if t.err != nil {
				continue
			}
		}
		rest = append(rest, t)
	}
	return rest
}

// read returns the keys of names, with one request for each hundred.
func (s *Store) read(ctx context.Context, names []string) ([]pair, error) {
	client, err := s.clients.get(ctx)
	if err != nil {
		return nil, err
	}
	pairs := make([]pair, 0, len(names))
	for len(names) > 0 {
		some := names[:min(len(names), s.chunk())]
		ops := make([]clientv3.Op, len(some))
		for i, name := range some {
			ops[i] = s.keys.get(name)
		}
		reply, err := s.height.commit(client.Txn(ctx).Then(ops...))
		switch {
		case errors.Is(err, rpctypes.ErrTooManyOps):
			if err := s.shrink(len(some)); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, s.wrap("reading", err)
		}
		for i, name := range some {
			pairs = append(pairs, s.sights.see(name, s.keys.pairOf(name, reply.Responses[i].GetResponseRange().Kvs)))
		}
		names = names[len(some):]
	}
	return pairs, nil
}

// get reads both keys of a name.
func (k keys) get(name string) clientv3.Op {
	from, to := k.both(name)
	return clientv3.OpGet(from, clientv3.WithRange(to))
}

// write decides tasks, and writes their changes. It returns the tasks that met a conflict, and those that what this handle remembers would refuse: a lease
// of its own may end for it while other names are being read, and only what is read says whether somebody else has extended it.
func (s *Store) write(ctx context.Context, tasks []*task, known map[*task]bool) (rest []*task) {
	clear(known)
	var writing []*task
	for _, t := range tasks {
		t.change, t.err = t.decide(t.pair)
		switch writes := t.err == nil && t.change != nil; {
		case writes:
			writing = append(writing, t)
		case t.guessed:
			rest = append(rest, t)
		}
		t.guessed = false
	}
	for len(writing) > 0 {
		some := writing[:s.fitting(writing)]
		again, err := s.commit(ctx, some, known)
		if err != nil {
			for _, t := range some {
				t.err = err
			}
			again = nil
		}
		rest, writing = append(rest, again...), writing[len(some):]
	}
	return rest
}

// mostBytes is how large the values of one transaction may be together. A server takes 1.5 MiB, if it is not configured otherwise.
const mostBytes = 1 << 20

// fitting returns how many changes go into one transaction. A change of a name that is held by another process goes alone with others of that process:
// the key of its session is changed with it.
func (s *Store) fitting(tasks []*task) int {
	bytes, of := 0, s.foreign(tasks[0].pair)
	for i, t := range tasks {
		if t.change.record != nil {
			bytes += 3*len(t.name) + len(t.change.record.State)*4/3 + 512
			if t.change.heir() != nil {
				bytes += len(t.name) + len(t.change.record.State)*4/3 + 512*len(t.change.line)
			}
		}
		if i > 0 && (i >= s.chunk() || bytes > mostBytes || s.foreign(t.pair) != of) {
			return i
		}
	}
	return len(tasks)
}

// foreign returns the lease of etcd that a name is attached to if it is one of another process, and not of a linger.
func (s *Store) foreign(p pair) clientv3.LeaseID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.taken == 0 || p.record.Released || s.sessions[p.lease] != nil {
		return clientv3.NoLease
	}
	return p.lease
}

// commit writes the changes of one transaction, and returns the tasks that are to be decided again, because they met a conflict or because the
// transaction was too large. The error is for all of them.
func (s *Store) commit(ctx context.Context, tasks []*task, known map[*task]bool) (again []*task, err error) {
	client, err := s.clients.get(ctx)
	if err != nil {
		return nil, err
	}
	steps := make([]step, len(tasks))
	for i, t := range tasks {
		if steps[i], err = s.step(ctx, t); err != nil {
			return nil, err
		}
	}
	b := s.bundle(tasks, steps)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.changing(tasks)
	reply, err := s.height.commit(client.Txn(ctx).If(b.are...).Then(b.then...).Else(b.otherwise...))
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.check(ctx, tasks)
		return tasks, nil
	case errors.Is(err, rpctypes.ErrTooManyOps) && len(tasks) > 1:
		return tasks, s.shrink(b.size())
	case err != nil:
		late := !errors.Is(err, rpctypes.ErrNoSpace) // with that etcd has decided: nothing comes later, and no lease of etcd could be had for another session
		if err = s.unsure("writing", err); errors.Is(err, store.ErrUnknown) {
			s.lostSight(tasks, late)
		}
		return nil, err
	}
	for i, t := range tasks {
		made, seen := reply.Succeeded, reply.Responses
		if at := b.alone[i]; at >= 0 {
			inner := reply.Responses[at].GetResponseTxn()
			made, seen = inner.Succeeded, inner.Responses
		}
		switch {
		case made:
			s.written(t, reply.Header.Revision)
			continue
		case b.alone[i] < 0 && len(tasks) > 1: // one of those that share its conditions is in the way
			t.guessed = true
		default:
			t.pair = s.keys.pairOf(t.name, seen[0].GetResponseRange().Kvs)
			if t.change.frees {
				t.pair.line, t.pair.asked = s.keys.lineOf(t.name, seen[1].GetResponseRange().Kvs), true
			}
			t.pair = s.sights.see(t.name, t.pair)
		}
		if t.err = t.pair.err; t.err == nil {
			t.alone, known[t] = true, true
			again = append(again, t)
		}
	}
	return again, nil
}

// A step is a transaction, or what one has to do with one name.
type step struct {
	are             []clientv3.Cmp
	then, otherwise []clientv3.Op
}

// size returns how many operations etcd counts.
func (s step) size() int { return max(len(s.are), len(s.then), len(s.otherwise)) }

// A bundle is the transaction of a batch. Names that nobody is expected to be changing share its conditions: if one of them does not hold, none is
// changed, and each is tried again alone. A name alone has a transaction inside the transaction, which does not depend on other names and
// reads the name if its conditions do not hold, but costs etcd half as much again. So has a name that does not fit otherwise.
type bundle struct {
	step
	alone []int // of each task, the place of its transaction inside this one; -1 if it shares the conditions
}

// bundle puts the steps of tasks together.
func (s *Store) bundle(tasks []*task, steps []step) bundle {
	b, size := bundle{alone: make([]int, len(tasks))}, len(tasks)
	var inside, shared []clientv3.Op
	for i, of := range steps {
		if more := of.size() - 1; !tasks[i].alone && size+more <= s.chunk() {
			size += more
			b.are, shared, b.alone[i] = append(b.are, of.are...), append(shared, of.then...), -1
			continue
		}
		b.alone[i] = len(inside)
		inside = append(inside, clientv3.OpTxn(of.are, of.then, of.otherwise))
	}
	if of := s.foreign(tasks[0].pair); of != clientv3.NoLease {
		put := clientv3.OpPut(s.keys.session(of), "", clientv3.WithLease(of))
		if len(inside) > 0 {
			inside = append(inside, put) // whether the conditions hold or not
		} else {
			shared = append(shared, put)
		}
	}
	b.then, b.otherwise = slices.Concat(inside, shared), inside
	if len(tasks) == 1 && len(inside) == 0 { // then it costs no second request to learn what is in the way
		b.otherwise = steps[0].otherwise
	}
	return b
}

// changing notes that changes are sent. Whatever becomes of them, a lease of one of these names is not extended before its keys were read again.
func (s *Store) changing(tasks []*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		if h := s.held[t.name]; h != nil {
			h.changing = true
		}
	}
}

// step returns what the transaction of a task has to do.
func (s *Store) step(ctx context.Context, t *task) (of step, err error) {
	record, taken := s.keys.record(t.name), s.keys.taken(t.name)
	t.session, t.linger = nil, nil
	are := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(record), "=", t.pair.revision),
		clientv3.Compare(clientv3.ModRevision(taken), "=", t.pair.taken),
	}
	otherwise := []clientv3.Op{s.keys.get(t.name)}
	var then []clientv3.Op
	if t.change.record == nil {
		then = append(then, clientv3.OpDelete(record))
	} else {
		value, err := t.change.record.encode()
		if err != nil {
			return of, err
		}
		then = append(then, clientv3.OpPut(record, value))
	}
	switch {
	case t.change.take > 0:
		if t.session, err = s.session(ctx, t.change.take); err != nil {
			return of, err
		}
		then = append(then, clientv3.OpPut(taken, "", clientv3.WithLease(t.session.id)))
		if t.ticket != "" {
			then = append(then, clientv3.OpDelete(t.ticket))
		}
	case t.change.linger > 0:
		if t.linger, err = s.linger(ctx, t.change.linger); err != nil {
			return of, err
		}
		then = append(then, clientv3.OpPut(taken, "", clientv3.WithLease(t.linger.id)), clientv3.OpDelete(s.keys.queued(t.name)))
	case t.change.frees:
		is, ops, err := s.handOver(t)
		if err != nil {
			return of, err
		}
		are, then, otherwise = append(are, is), append(then, ops...), append(otherwise, s.keys.getLine(t.name))
	case t.pair.taken != 0:
		then = append(then, clientv3.OpDelete(taken))
	}
	return step{are, then, otherwise}, nil
}

// written records that the change of a task has been written at a revision.
func (s *Store) written(t *task, revision int64) {
	now := pair{at: time.Now()}
	if r := t.change.record; r != nil {
		now.record, now.revision = *r, revision
		if now.record.Token == 0 {
			now.record.Token = revision
		}
	}
	switch {
	case t.session != nil:
		now.taken, now.lease = revision, t.session.id
	case t.linger != nil:
		now.taken, now.lease = revision, t.linger.id
	case t.change.heir() != nil:
		now.taken, now.lease = revision, t.change.heir().Lease
	}
	t.pair = s.sights.see(t.name, now)
	if t.wrote != nil {
		t.wrote(t.change, now)
	}
}

// lostSight is for changes whose outcome is unknown: if they may be carried out late, what they attach names to is not used any more.
func (s *Store) lostSight(tasks []*task, late bool) {
	for _, t := range tasks {
		if t.session != nil && late {
			s.abandon(t.session)
		}
		if t.unknown != nil {
			t.unknown(t.change)
		}
	}
}

// check finds out which lease of etcd is gone, after one was.
func (s *Store) check(ctx context.Context, tasks []*task) {
	var seen []*session
	for _, t := range tasks {
		switch {
		case t.linger != nil:
			s.mu.Lock()
			t.linger.gone = true
			s.mu.Unlock()
		case t.session != nil && !slices.Contains(seen, t.session):
			seen = append(seen, t.session)
			if err := s.renew(ctx, t.session); err != nil {
				s.abandon(t.session)
			}
		}
	}
}
