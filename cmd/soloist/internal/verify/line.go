package verify

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// lines are the last claims of this replica's holders who may be in the line of a name. What has become of one is known
// when the next is answered, or when it has left.
type lines struct {
	mu   sync.Mutex
	last map[string]asking // by holder
}

// An asking is a claim by someone who may be in a line.
type asking struct {
	event
	answered bool // it is not on its way any more
}

// swap replaces the event of a holder's last claim, and returns the event before. A nil event ends the wait in the
// queue.
func (l *lines) swap(holder string, next *asking) (asking, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, there := l.last[holder]
	if next == nil {
		delete(l.last, holder)
		return before, there
	}
	if l.last == nil {
		l.last = map[string]asking{}
	}
	l.last[holder] = *next
	return before, there
}

// Queue is as in store.Queuer, behind the network. A store that is none says so.
func (l *link) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	q, ok := store.As[store.Queuer](l.Store)
	if !ok {
		return store.Grant{}, 0, errors.ErrUnsupported
	}
	type answer struct {
		grant store.Grant
		after time.Duration
		held  error
	}
	answers, err := through(ctx, l.net, []store.Claim{c}, func(ctx context.Context, claims []store.Claim) ([]answer, error) {
		e := l.net.rec.begin([]event{claiming(claims[0])})[0]
		grant, after, err := q.Queue(ctx, claims[0])
		l.queued(e, c, grant, after, err)
		if errors.Is(err, store.ErrHeld) {
			return []answer{{held: err}}, nil
		}
		return []answer{{grant, after, nil}}, err
	})
	if err != nil {
		return store.Grant{}, 0, err
	}
	return answers[0].grant, answers[0].after, answers[0].held
}

// queued reports what a call of Queue has shown of itself and of the one before.
func (l *link) queued(e event, c store.Claim, grant store.Grant, after time.Duration, err error) {
	without := func(e event) event {
		e.Result = proof.Failed
		return e
	}
	switch {
	case err == nil:
		before, there := l.lines.swap(c.Holder, nil)
		if there && after < 0 && before.At <= e.At+after { // it was the earlier one that was granted
			before.claimed(store.Outcome{Grant: grant})
			l.net.rec.end([]event{before.event, without(e)})
			return
		}
		e.claimed(store.Outcome{Grant: grant})
		// It has waited in the line until then, but where a store without a clock has only heard by then that the name was handed over: others may have seen that before.
		began := e.At + time.Duration(float64(after)*(1-drift))
		if _, clockless := store.As[store.Clockless](l.Store); after > 0 && !clockless {
			e.At = min(began, fleet.Now())
		}
		l.net.rec.end([]event{e})
	case errors.Is(err, store.ErrHeld), errors.Is(err, store.ErrUnknown):
		before, there := l.lines.swap(c.Holder, &asking{e, errors.Is(err, store.ErrHeld)})
		if there && before.answered && errors.Is(err, store.ErrHeld) && fleet.Now()-before.At < c.TTL { // a lease that it was granted would be live
			l.net.rec.end([]event{without(before.event)})
		}
	default:
		l.net.rec.end([]event{without(e)})
	}
}

// Leave is as in store.Queuer, behind the network.
func (l *link) Leave(ctx context.Context, name, holder string) (bool, error) {
	q, ok := store.As[store.Queuer](l.Store)
	if !ok {
		return false, errors.ErrUnsupported
	}
	answers, err := through(ctx, l.net, []string{holder}, func(ctx context.Context, _ []string) ([]bool, error) {
		left, err := q.Leave(ctx, name, holder)
		if err == nil && left {
			if a, there := l.lines.swap(holder, nil); there && a.answered { // it has had no effect, and cannot have one
				a.Result = proof.Failed
				l.net.rec.end([]event{a.event})
			}
		}
		return []bool{left}, err
	})
	if err != nil {
		return false, err
	}
	return answers[0], nil
}
