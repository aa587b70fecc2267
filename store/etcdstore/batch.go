package etcdstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// attempts is how often a change is decided again after a conflict. Each conflict means that another client succeeded, so after that many the caller
// gets a *HeldError.
const attempts = 16

// retryAfter is the pause before the next claim after that many conflicts.
const retryAfter = 10 * time.Millisecond

// A task is one request of a batch for one name. It decides what to write from the record of the name, and whether its session is there.
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
	sent    []*sending
	unheard *sending // its transaction was refused, and the name was not read since: etcd's client may have sent it twice, so it may have been made
	session *session // that the change attaches the name to
	linger  *linger
	guessed bool // pair is what this handle remembers, and was not read for the task
	alone   bool // an earlier change of it was not made, so this one does not depend on other names
}

// A sending is a change that was sent, with what it attaches the name to.
type sending struct {
	record  string // as it was sent; "" if it was to be deleted
	change  *change
	session *session
	linger  *linger
}

// A change is what a task writes.
type change struct {
	record *record       // the new record; nil deletes it
	take   time.Duration // the name is taken for so long, in a session
	keeps  bool          // and its lease goes on: the session that had it must be there still
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
			t.doubt()
			before[t.name] = t
		}
	}
}

// doubt makes the outcome of a task unknown that has failed before it could read whether a change of it, which was refused, was made nevertheless.
func (t *task) doubt() {
	if t.err == nil || t.unheard == nil || errors.Is(t.err, store.ErrUnknown) {
		return
	}
	t.err, t.session = store.AsUnknown(t.err), t.unheard.session
	if t.unknown != nil {
		t.unknown(t.unheard.change)
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
				t.err, t.unheard = t.pair.err, nil
			}
			if t.err != nil {
				continue
			}
		}
		rest = append(rest, t)
	}
	return rest
}

// read returns the records of names and whether their sessions are there, with one request for each hundred of both. Names whose sessions are not those that this process
// expects are read once more.
func (s *Store) read(ctx context.Context, names []string) ([]pair, error) {
	pairs := make([]pair, len(names))
	todo := make([]int, len(names)) // places in names
	for i := range names {
		todo[i] = i
	}
	for range attempts {
		var again []int
		for rest := todo; len(rest) > 0; {
			n, unsure, err := s.readSome(ctx, names, rest, pairs)
			if err != nil {
				return nil, err
			}
			rest, again = rest[n:], append(again, unsure...)
		}
		mended := mends{}
		for _, i := range todo {
			if s.mend(ctx, pairs[i], mended) {
				again = append(again, i)
			}
		}
		if todo = again; len(todo) == 0 {
			break
		}
	}
	return pairs, nil // one that is unsure still was taken anew each time
}

// readSome reads the first n of those that are to be read. It returns those of which it does not know whether their session is there.
func (s *Store) readSome(ctx context.Context, names []string, todo []int, pairs []pair) (n int, unsure []int, err error) {
	client, err := s.clients.get(ctx)
	if err != nil {
		return 0, nil, err
	}
	var ops, looks []clientv3.Op
	var sessions []string
	for _, i := range todo {
		if n+len(looks) >= s.chunk() {
			break
		}
		n++
		ops = append(ops, s.keys.get(names[i]))
		p := pairs[i] // as it was read before
		if !p.unsure {
			p, _ = s.sights.of(names[i])
		}
		if p.taken && !slices.Contains(sessions, p.record.Session) {
			sessions, looks = append(sessions, p.record.Session), append(looks, s.keys.isThere(p.record.Session))
		}
	}
	reply, err := s.height.commit(client.Txn(ctx), ask{then: append(ops, looks...)})
	switch {
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return 0, nil, s.shrink(n + len(looks))
	case err != nil:
		return 0, nil, s.wrap("reading", err)
	}
	now := newPresence()
	s.sawSessions(sessions, reply.Responses[n:], now)
	for j, i := range todo[:n] {
		if pairs[i] = s.sights.see(names[i], pairOf(names[i], reply.Responses[j].GetResponseRange().Kvs, now)); pairs[i].unsure {
			unsure = append(unsure, i)
		}
	}
	return n, unsure, nil
}

// get reads the record of a name.
func (k keys) get(name string) clientv3.Op { return clientv3.OpGet(k.record(name)) }

// write decides tasks, and writes their changes. It returns the tasks that met a conflict, and those that what this handle remembers would refuse: a lease
// of its own may end for it while other names are being read, and only what is read says whether somebody else has extended it.
func (s *Store) write(ctx context.Context, tasks []*task, known map[*task]bool) (rest []*task) {
	clear(known)
	var writing []*task
	for _, t := range tasks {
		if s.wasMade(t) {
			continue
		}
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

// foreign returns the session that has a name if it is one of another process, and not of a linger; "" otherwise.
func (s *Store) foreign(p pair) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.taken || p.record.Released || s.sessions[p.record.Session] != nil {
		return ""
	}
	return p.record.Session
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
	reply, err := s.height.commit(client.Txn(ctx), ask{b.are, b.then, b.otherwise})
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
	s.wroteLingers(b, reply.Succeeded)
	var suspects []*task
	mended := mends{}
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
			t.guessed, known[t], t.unheard = true, true, t.sent[len(t.sent)-1]
		default:
			before := t.pair
			t.pair, t.unheard = s.inTheWay(t, steps[i], seen), nil
			if s.wasMade(t) {
				continue
			}
			if known[t] = !s.mend(ctx, t.pair, mended) && !t.pair.unsure; t.pair.same(before) {
				suspects = append(suspects, t)
			}
		}
		if t.err = t.pair.err; t.err == nil {
			t.alone = true
			again = append(again, t)
		}
	}
	if len(suspects) > 0 {
		s.check(ctx, suspects)
	}
	return again, nil
}

// inTheWay returns the name of a task as a reply shows it, whose conditions did not hold.
func (s *Store) inTheWay(t *task, of step, seen []*etcdserverpb.ResponseOp) pair {
	now := newPresence()
	if of.all {
		sessions := seen[1].GetResponseRange()
		for _, kv := range sessions.Kvs {
			now.upTo = strings.TrimPrefix(string(kv.Key), s.keys.sessions())
			now.saw(now.upTo, kv)
		}
		now.all = !sessions.More
		for _, session := range of.there {
			if there, known := now.of(session); known && !there {
				s.sights.end(session)
			}
		}
	} else {
		s.sawSessions(of.looks, seen[1:], now)
	}
	p := pairOf(t.name, seen[0].GetResponseRange().Kvs, now)
	if of.line {
		p.line, p.asked = s.keys.lineOf(t.name, seen[len(seen)-1].GetResponseRange().Kvs), true
	}
	return s.sights.see(t.name, p)
}

// A step is a transaction, or what one has to do with one name.
type step struct {
	are          []clientv3.Cmp
	there, ended []string // sessions that must be there, or not
	then         []clientv3.Op
	linger       *linger // that has no key yet

	looks []string // if its conditions do not hold, it reads the record, and looks for these sessions,
	all   bool     // or for the first of all there are,
	line  bool     // and reads the queue
}

// conditions returns the conditions on sessions.
func (of step) conditions(k keys) (are []clientv3.Cmp) {
	for _, session := range of.there {
		are = append(are, clientv3.Compare(clientv3.CreateRevision(k.session(session)), ">", 0))
	}
	for _, session := range of.ended {
		are = append(are, clientv3.Compare(clientv3.CreateRevision(k.session(session)), "=", 0))
	}
	return are
}

// firstSessions is how many sessions are read at most to learn which of them are there.
const firstSessions = 32

// otherwise returns what is read if the conditions do not hold.
func (of step) otherwise(k keys, name string) []clientv3.Op {
	ops := append(make([]clientv3.Op, 0, 4), k.get(name))
	switch {
	case of.all:
		ops = append(ops, clientv3.OpGet(k.sessions(), clientv3.WithPrefix(), clientv3.WithLimit(firstSessions)))
	default:
		for _, session := range of.looks {
			ops = append(ops, k.isThere(session))
		}
	}
	if of.line {
		ops = append(ops, k.getLine(name))
	}
	return ops
}

// A bundle is the transaction of a batch. Names that nobody is expected to be changing share its conditions: if one of them does not hold, none is
// changed, and each is tried again alone. A name alone has a transaction inside the transaction, which does not depend on other names and
// reads the name if its conditions do not hold, but costs etcd half as much again. So has a name that does not fit otherwise.
type bundle struct {
	are             []clientv3.Cmp
	then, otherwise []clientv3.Op
	alone           []int     // of each task, the place of its transaction inside this one; -1 if it shares the conditions
	lingers         []*linger // whose keys it writes
	always          bool      // it does so whether its conditions hold or not
}

// size returns how many operations etcd counts.
func (b bundle) size() int { return max(len(b.are), len(b.then), len(b.otherwise)) }

// bundle puts the steps of tasks together.
func (s *Store) bundle(tasks []*task, steps []step) bundle {
	b := bundle{alone: make([]int, len(tasks))}
	var inside, shared []clientv3.Op
	var there, ended []string
	for i, of := range steps {
		of.there, of.ended = without(of.there, there), without(of.ended, ended) // each condition once
		rest := len(tasks) - i - 1                                              // of which each has an operation at least
		if !tasks[i].alone && max(len(b.are)+len(of.are)+len(of.there)+len(of.ended), len(inside)+len(shared)+len(of.then))+rest <= s.chunk() {
			there, ended = append(there, of.there...), append(ended, of.ended...)
			b.are, shared, b.alone[i] = append(append(b.are, of.are...), of.conditions(s.keys)...), append(shared, of.then...), -1
		} else {
			steps[i].all, b.alone[i] = true, len(inside)
			of = steps[i]
			inside = append(inside, clientv3.OpTxn(append(of.are, of.conditions(s.keys)...), of.then, of.otherwise(s.keys, tasks[i].name)))
		}
		if l := steps[i].linger; l != nil && !slices.Contains(b.lingers, l) {
			b.lingers = append(b.lingers, l)
		}
	}
	var beside []clientv3.Op
	if of := s.foreign(tasks[0].pair); of != "" {
		beside = append(beside, clientv3.OpTxn(step{there: []string{of}}.conditions(s.keys), []clientv3.Op{clientv3.OpPut(s.keys.session(of), "", clientv3.WithLease(leaseOf(of)))}, nil))
	}
	for _, l := range b.lingers {
		beside = append(beside, clientv3.OpPut(s.keys.session(l.name), "", clientv3.WithLease(l.id)))
	}
	if b.always = len(inside) > 0; b.always {
		inside = append(inside, beside...)
	} else {
		shared = append(shared, beside...)
	}
	b.then, b.otherwise = slices.Concat(inside, shared), inside
	if len(tasks) == 1 && len(inside) == 0 { // then it costs no second request to learn what is in the way
		b.otherwise = steps[0].otherwise(s.keys, tasks[0].name)
	}
	return b
}

// without returns those of all that are not in others.
func without(all, others []string) (rest []string) {
	for _, one := range all {
		if !slices.Contains(others, one) {
			rest = append(rest, one)
		}
	}
	return rest
}

// changing notes that changes are sent. Whatever becomes of them, a lease of one of these names is not extended before the name was read again.
func (s *Store) changing(tasks []*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		if h := s.held[t.name]; h != nil {
			h.changing = true
		}
	}
}

// step returns what the transaction of a task has to do. The record must be as it was: so nobody has been granted the name since. What else must be depends on the session that
// the record names, and on the one that the name is for. A session that the record does not name any more has nothing of the name: so what tells of its end goes with it.
func (s *Store) step(ctx context.Context, t *task) (of step, err error) {
	t.session, t.linger = nil, nil
	key, had := s.keys.record(t.name), t.pair.record.Session
	of.are = []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", t.pair.revision)}
	if of.all = t.pair.revision == 0; had != "" {
		of.looks = []string{had}
	}
	if t.change.record == nil {
		t.sent = append(t.sent, &sending{change: t.change})
		of.then = []clientv3.Op{clientv3.OpDelete(key)}
		return of, nil
	}
	switch {
	case t.change.take > 0:
		if t.session, err = s.session(ctx, t.change.take); err != nil {
			return of, err
		}
		t.change.record.Session = t.session.name
		of.there = []string{t.session.name}
		switch {
		case had == t.session.name, had == "":
		case t.change.keeps:
			of.there = append(of.there, had)
		case !t.pair.taken: // else it is a lease of this handle, which has ended
			of.ended = []string{had}
		}
		if t.ticket != "" {
			of.then = append(of.then, clientv3.OpDelete(t.ticket))
		}
	case t.change.linger > 0:
		if t.linger, err = s.linger(ctx, t.change.linger); err != nil {
			return of, err
		}
		t.change.record.Session = t.linger.name
		of.there = []string{had}
		s.mu.Lock()
		if t.linger.written {
			of.there = append(of.there, t.linger.name)
		} else {
			of.linger = t.linger
		}
		s.mu.Unlock()
	case t.change.frees:
		of.there, of.line = []string{had}, true
		if heir := t.change.heir(); heir != nil {
			of.looks = append(of.looks, heir.Session)
		}
		if err = s.handOver(t, &of); err != nil {
			return of, err
		}
	}
	if !t.change.frees && had != "" && had != t.change.record.Session {
		of.then = append(of.then, clientv3.OpDelete(s.keys.queued(t.name)))
	}
	value, err := t.change.record.encode()
	if err != nil {
		return of, err
	}
	t.sent = append(t.sent, &sending{value, t.change, t.session, t.linger})
	of.then = append(of.then, clientv3.OpPut(key, value))
	return of, nil
}

// written records that the change of a task has been written at a revision.
func (s *Store) written(t *task, revision int64) {
	now := pair{at: time.Now()}
	if r := t.change.record; r != nil {
		now.record, now.revision, now.taken = *r, revision, r.Session != ""
		if now.record.Token == 0 {
			now.record.Token = revision
		}
	}
	t.pair = s.sights.see(t.name, now)
	if t.wrote != nil {
		t.wrote(t.change, now)
	}
}

// wasMade reports whether the record of a task is one that was sent for it, and notes then that this one has been written. The client of etcd sends a request again that something on the way
// has cut off, so what is in the way of a change can be the change itself, or an earlier attempt at it, which may have attached the name to something else.
func (s *Store) wasMade(t *task) bool {
	made := t.pair.madeBy(t.sent)
	if made == nil {
		return false
	}
	t.change, t.session, t.linger, t.err = made.change, made.session, made.linger, nil
	s.written(t, t.pair.revision)
	return true
}

// wroteLingers notes that the keys of lingers are there.
func (s *Store) wroteLingers(b bundle, succeeded bool) {
	if len(b.lingers) == 0 || !succeeded && !b.always {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range b.lingers {
		l.written = true
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

// check finds out which sessions are gone, after one was.
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
			now, err := s.presence(ctx, []string{t.session.name})
			s.mu.Lock()
			t.session.gone = t.session.gone || err == nil && !now.there[t.session.name]
			if err != nil || t.session.gone {
				s.abandonLocked(t.session)
			}
			s.mu.Unlock()
		}
	}
}
