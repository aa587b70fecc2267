package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var queueLaws = []law{
	{name: "queue-free", needs: []need{queues}, check: queueFree,
		rule: "Queue grants a free name immediately, and returns to a holder that has it the same grant again, which began before the request."},
	{name: "queue-hands-over", needs: []need{queues}, check: queueHandsOver,
		rule: "A release grants the name to the first holder in the queue, in the same step: nobody else gets it in between."},
	{name: "queue-after", needs: []need{queues}, check: queueAfter,
		rule: "A lease that was handed over began as long after the request as Queue returns, and lasts for its claim's TTL from then on."},
	{name: "queue-order", needs: []need{queues}, check: queueOrder,
		rule: "Holders in the queue are served in the order in which they first called Queue, also if they have called again."},
	{name: "queue-state", needs: []need{queues}, check: queueState,
		rule: "A grant that is handed over has the mark and the state, both or one of them, that the previous holder left with its release, and a greater token."},
	{name: "queue-leave", needs: []need{queues}, check: queueLeave,
		rule: "A holder that has left is skipped. Leave returns true if the holder was in the queue, else false."},
	{name: "queue-expiry", needs: []need{queues}, check: queueExpiry,
		rule: "When the lease in the way would have ended, Queue returns a *HeldError; called again, it grants the name to the first in the queue."},
	{name: "queue-shorter", needs: []need{queues}, check: queueShorter,
		rule: "Holders in the queue behind a lease that was handed over for a short time get the name when that has ended."},
	{name: "queue-linger", needs: []need{queues}, check: queueLinger,
		rule: "A name that lingers after its release is not handed over. The calls in the queue return immediately with how long it lingers."},
	{name: "queue-forgotten", needs: []need{queues, sweeps}, check: queueForgotten,
		rule: "Queue grants a name that was forgotten immediately, also to a holder that was in its queue before, and that place is gone."},
	{name: "queue-other-handle", needs: []need{queues, reopening}, check: queueOtherHandle,
		rule: "A release by another handle hands over to the queue of this one."},
	{name: "queue-checks", needs: []need{queues}, check: queueChecks,
		rule: "Queue refuses a mark, an invalid name, holder or TTL, and Leave an invalid name, with an *InvalidError, and takes nothing."},
	{name: "close-ends-queues", needs: []need{queues, reopening}, check: closeEndsQueues,
		rule: "Close ends the calls of Queue that wait."},
}

// A queued is the result of a call of Queue.
type queued struct {
	store.Outcome
	after time.Duration
}

func (q queued) String() string {
	return fmt.Sprintf("%s, after %v", answer(q.Outcome), q.after)
}

// queue calls Queue and waits for it to return.
func (s *subject) queue(ctx context.Context, c store.Claim) queued {
	var q queued
	q.Grant, q.after, q.Err = as[store.Queuer](s).Queue(ctx, c)
	s.did("%sQueue %.80q for %q, TTL %v: %v", s.label, c.Name, c.Holder, c.TTL, q)
	return q
}

// stands adds a holder to the queue of a name that is held, for an hour.
func (s *subject) stands(name, holder string) { s.standsFor(name, holder, hour) }

// standsFor adds a holder to the queue of a name that is held. It repeats the call, because its context may end before the request has
// reached the store, or before the reply has come: a connection can notice that earlier than the context does.
func (s *subject) standsFor(name, holder string, ttl time.Duration) {
	for within := s.h.TTL; ; within *= 2 {
		ctx, cancel := context.WithTimeout(s.ctx, within)
		q := s.queue(ctx, claim(name, holder, ttl))
		early := q.Err != nil && (ctx.Err() != nil || errors.Is(q.Err, context.DeadlineExceeded)) && within < patience
		cancel()
		switch {
		case errors.Is(q.Err, store.ErrHeld):
			return
		case !early:
			s.fail(q, "a place in the queue of %.80q, and a *HeldError when the context has ended", name)
		}
	}
}

// waits calls Queue in the background.
func (s *subject) waits(c store.Claim) <-chan queued {
	answer := make(chan queued, 1)
	go func() {
		var q queued
		q.Grant, q.after, q.Err = as[store.Queuer](s).Queue(s.ctx, c)
		answer <- q
	}()
	s.did("%sQueue %.80q for %q, TTL %v, in the background", s.label, c.Name, c.Holder, c.TTL)
	return answer
}

// served waits for a result that must be a grant.
func (s *subject) served(waiting <-chan queued, name, holder string) (lease, time.Duration) {
	select {
	case q := <-waiting:
		s.did("%sthe call of %q returned: %v", s.label, holder, q)
		if q.Err != nil {
			s.fail(q, "a grant of %.80q to %q", name, holder)
		}
		return lease{q.Grant, name, holder}, q.after
	case <-time.After(patience):
		s.fail(fmt.Sprintf("nothing for %v", patience), "a grant of %.80q to %q", name, holder)
	}
	panic("unreachable")
}

func queueFree(s *subject) {
	name := s.name()
	first := s.queue(s.ctx, claim(name, "a", hour))
	if first.Err != nil || first.after != 0 || first.Grant.Mark != 0 || first.Grant.State != nil || first.Grant.ExpiredAge != 0 {
		s.fail(first, "a grant of a name that nobody has had, that began with the request: after 0")
	}
	s.held(claim(name, "b", hour))
	time.Sleep(s.h.TTL)
	s.did("waited for %v", s.h.TTL)
	again := s.queue(s.ctx, claim(name, "a", hour))
	if again.Err != nil || again.Grant.Token != first.Grant.Token || again.after > -s.h.TTL*9/10 || again.after < -patience {
		s.fail(again, "the grant with token %d, that began about %v before the request", first.Grant.Token, s.h.TTL)
	}
	s.released(lease{first.Grant, name, "a"}.ending())
	s.released(s.take(name, "b", hour).ending())
}

func queueHandsOver(s *subject) {
	name := s.name()
	l := s.take(name, "a", hour)
	for i := range 5 {
		heir := fmt.Sprint("heir ", i)
		s.stands(name, heir)
		waiting := s.waits(claim(name, heir, hour))
		s.released(l.ending())
		if r := s.held(claim(name, "z", hour)); r.Holder != heir {
			s.fail(sketch(r), "a refusal because of %q", heir)
		}
		next, _ := s.served(waiting, name, heir)
		if next.Token <= l.Token {
			s.fail(fmt.Sprint("token ", next.Token), "a token greater than %d", l.Token)
		}
		s.lost(s.extend(l.extension(hour)))
		s.extended(next.extension(hour))
		l = next
	}
}

func queueAfter(s *subject) {
	name := s.name()
	l := s.take(name, "a", hour)
	s.stands(name, "b") // a first request, which must not count
	begin := time.Now()
	const ttl = time.Minute
	waiting := s.waits(claim(name, "b", ttl))
	time.Sleep(2 * s.h.TTL)
	s.did("waited for %v", 2*s.h.TTL)
	s.released(l.ending())
	_, after := s.served(waiting, name, "b")
	r := s.record(name)
	longest := time.Since(begin)
	if after > longest+slack(longest) {
		s.fail(fmt.Sprintf("after %v", after), "at most %v, which is all the time that has passed", longest)
	}
	if after <= 0 { // the request had not reached the store when the name was released
		return
	}
	if r.Left > ttl || r.Age > longest || r.Left+r.Age < ttl-slack(ttl) {
		s.fail(sketch(r), "a lease of %v that began since the request", ttl)
	}
	if _, late := store.As[store.Clockless](s.Store); late { // it may begin when its holder notices it, however long after the release that is
		return
	}
	if r.Left+r.Age > ttl+slack(ttl) {
		s.fail(sketch(r), "a lease of %v that began since the request", ttl)
	}
	if sum := after + r.Age; sum > longest+slack(longest) {
		s.fail(fmt.Sprintf("after %v, and an age of %v since", after, r.Age), "at most %v together", longest)
	}
}

// slack is how much two measurements of a time may differ by the rounding of instants.
func slack(d time.Duration) time.Duration { return d/1000 + time.Millisecond }

func queueOrder(s *subject) {
	name := s.name()
	l := s.take(name, "first", hour)
	holders := []string{"c", "a", "d", "b"}
	for _, h := range holders {
		s.stands(name, h)
	}
	s.stands(name, "d") // again
	for _, h := range holders {
		waiting := s.waits(claim(name, h, hour))
		s.released(l.ending())
		l, _ = s.served(waiting, name, h)
	}
	s.released(l.ending())
	s.released(s.take(name, "last", hour).ending())
}

func queueState(s *subject) {
	for _, left := range []struct {
		mark  int64
		state string
	}{{7, "a b\nc"}, {7, ""}, {0, "a b\nc"}} {
		name := s.name()
		l := s.take(name, "a", hour)
		s.stands(name, "b")
		waiting := s.waits(claim(name, "b", hour))
		s.stands(name, "c") // by now b has probably entered the queue
		s.released(l.leaving(left.mark, []byte(left.state)))
		next, _ := s.served(waiting, name, "b")
		if next.Mark != left.mark || string(next.State) != left.state || next.Token <= l.Token || next.ExpiredAge != 0 {
			s.fail(answer(store.Outcome{Grant: next.Grant}), "mark %d, state %q, a token greater than %d, not abandoned", left.mark, left.state, l.Token)
		}
	}
}

// leave leaves a queue.
func (s *subject) leave(name, holder string, want bool) {
	left, err := as[store.Queuer](s).Leave(s.ctx, name, holder)
	s.did("%sLeave %.80q by %q: %v, %s", s.label, name, holder, left, tell(err))
	if err != nil || left != want {
		s.fail(fmt.Sprintf("%v, %s", left, tell(err)), "%v", want)
	}
}

func queueLeave(s *subject) {
	name := s.name()
	s.leave(name, "a", false)
	l := s.take(name, "first", hour)
	for _, h := range []string{"a", "b", "c"} {
		s.stands(name, h)
	}
	s.leave(name, "z", false)
	s.leave(name, "a", true)
	s.leave(name, "a", false)
	s.leave(name, "c", true)
	waiting := s.waits(claim(name, "b", hour))
	s.released(l.ending())
	l, _ = s.served(waiting, name, "b")
	s.leave(name, "b", false)
	s.released(l.ending())
	s.released(s.take(name, "last", hour).ending())
}

func queueExpiry(s *subject) {
	name := s.name()
	s.take(name, "dead", s.h.TTL)
	var l lease
	for q := s.queue(s.ctx, claim(name, "a", hour)); ; q = s.queue(s.ctx, claim(name, "a", hour)) {
		if q.Err == nil {
			l = lease{q.Grant, name, "a"}
			break
		}
		if !errors.Is(q.Err, store.ErrHeld) {
			s.fail(q, "a *HeldError, or a grant once the lease has ended")
		}
	}
	s.held(claim(name, "b", hour))
	s.leave(name, "a", false)
	s.released(l.ending())
	s.take(name, "b", hour)
}

func queueShorter(s *subject) {
	name := s.name()
	l := s.take(name, "a", hour)
	s.standsFor(name, "dead", s.h.TTL)
	s.stands(name, "b")
	waiting := s.waits(claim(name, "b", hour))
	s.stands(name, "c") // by now b has probably entered the queue
	s.released(l.ending())
	for {
		select {
		case q := <-waiting:
			s.did("the call of \"b\" returned: %v", q)
			if q.Err == nil {
				return
			}
			if !errors.Is(q.Err, store.ErrHeld) {
				s.fail(q, "a *HeldError, or a grant once the lease of \"dead\" has ended")
			}
			waiting = s.waits(claim(name, "b", hour))
		case <-time.After(patience):
			s.fail(fmt.Sprintf("nothing for %v", patience), "an answer to \"b\", since \"dead\" had the name for %v only", s.h.TTL)
		}
	}
}

func queueLinger(s *subject) {
	name := s.name()
	l := s.take(name, "a", hour)
	s.stands(name, "b")
	waiting := s.waits(claim(name, "b", hour))
	s.stands(name, "c") // by now b has probably entered the queue
	r := l.ending()
	r.Linger = hour
	s.released(r)
	select {
	case q := <-waiting:
		s.did("the call of \"b\" returned: %v", q)
		if !errors.Is(q.Err, store.ErrHeld) {
			s.fail(q, "a *HeldError: the name lingers")
		}
	case <-time.After(patience):
		s.fail(fmt.Sprintf("nothing for %v", patience), "a *HeldError: the name lingers")
	}
	if r := s.record(name); r.Holder != "" || r.Left <= 0 {
		s.fail(sketch(r), "a name that lingers, held by nobody")
	}
}

func queueForgotten(s *subject) {
	name := s.name()
	l := s.take(name, "a", hour)
	s.stands(name, "b")
	r := l.ending()
	r.Linger, r.Retain = s.h.TTL, 0
	s.released(r)
	s.forgotten(name)
	q := s.queue(s.ctx, claim(name, "b", hour))
	if q.Err != nil {
		s.fail(q, "a grant of a name that was forgotten")
	}
	s.leave(name, "b", false)
	s.released(lease{q.Grant, name, "b"}.ending())
	s.released(s.take(name, "c", hour).ending())
}

func queueOtherHandle(s *subject) {
	other := s.reopen()
	name := s.name()
	l := other.take(name, "a", hour)
	for i := range 5 {
		heir := fmt.Sprint("heir ", i)
		s.stands(name, heir)
		waiting := s.waits(claim(name, heir, hour))
		other.released(l.ending())
		l, _ = s.served(waiting, name, heir)
	}
}

func queueChecks(s *subject) {
	name := s.name()
	before := s.records("")
	for what, c := range map[string]store.Claim{
		"a mark":    marked(name, "a", 1),
		"no name":   claim("", "a", hour),
		"no holder": claim(name, "", hour),
		"no TTL":    claim(name, "a", 0),
	} {
		q := s.queue(s.ctx, c)
		s.invalid(q.Err, what)
	}
	for text, what := range invalidTexts() {
		s.invalid(s.queue(s.ctx, claim(text, "a", hour)).Err, "a name that is "+what)
		s.invalid(s.queue(s.ctx, claim(name, text, hour)).Err, "a holder that is "+what)
		_, err := as[store.Queuer](s).Leave(s.ctx, text, "a")
		s.did("%sLeave %.80q: %s", s.label, text, tell(err))
		s.invalid(err, "a name that is "+what)
	}
	s.unchanged(before)
	s.released(s.take(name, "b", hour).ending())
}

func closeEndsQueues(s *subject) {
	other := s.reopen()
	name := s.name()
	s.take(name, "a", hour)
	other.stands(name, "b")
	waiting := other.waits(claim(name, "b", hour))
	if err := other.Close(); err != nil {
		s.fail(err, "nil of Close")
	}
	s.did("closed the other handle")
	select {
	case q := <-waiting:
		if q.Err == nil {
			s.fail(q, "an error or a refusal")
		}
	case <-time.After(patience):
		s.fail(fmt.Sprintf("nothing for %v", patience), "an answer of Queue")
	}
}
