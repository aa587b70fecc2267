package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// A completer completes the work of leases in its own transactions. Its leases are long, because a completion that is under way when its
// lease ends takes effect at no instant of which the model knows.
type completer struct {
	s        *recorded
	complete func(ctx context.Context, c store.Completion, hold time.Duration, commit bool) error
	id       string
	names    []string
	count    int
}

const completerTTL = time.Minute

func (c *completer) work(ctx context.Context, left *atomic.Int64) {
	for left.Load() > 0 && ctx.Err() == nil {
		bound, cancel := context.WithTimeout(ctx, requestTimeout)
		c.once(bound)
		cancel()
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond) // so that others have the store as well
	}
}

func (c *completer) once(ctx context.Context) {
	c.count++
	claim := store.Claim{Name: c.names[rand.IntN(len(c.names))], Holder: fmt.Sprintf("%s-%d", c.id, c.count), TTL: completerTTL}
	if rand.IntN(2) == 0 {
		claim.Mark = 1 + rand.Int64N(1000)
	}
	begun := c.s.rec.now()
	outs, err := c.s.Acquire(ctx, []store.Claim{claim})
	if err != nil || outs[0].Err != nil {
		return
	}
	token := outs[0].Grant.Token
	done := store.Completion{Name: claim.Name, Holder: claim.Holder, Token: token, Mark: 1 + rand.Int64N(1000), State: state()}
	c.transaction(ctx, done)
	_, _ = c.s.Release(ctx, []store.Release{{Name: claim.Name, Holder: claim.Holder, Token: token, Retain: store.Forever}})
	if c.s.rec.now()-begun > completerTTL/2 {
		c.s.rec.tooLate(claim.Name)
	}
}

// transaction records a completion as an extension that does not extend: it needs a live lease, and raises the mark when it commits.
func (c *completer) transaction(ctx context.Context, done store.Completion) {
	commit := rand.IntN(4) > 0
	e := proof.Extended(store.Extension{Name: done.Name, Holder: done.Holder, Token: done.Token, Mark: done.Mark, State: done.State})
	e.Replica, e.At = c.s.replica, c.s.rec.now()
	err := c.complete(ctx, done, time.Duration(rand.IntN(10))*time.Millisecond, commit)
	e.Until = c.s.rec.now()
	switch e.Result = proof.ResultOf(err); {
	case !commit && err == nil:
		e.Result = proof.Failed
	case errors.Is(err, store.ErrDone):
		e = refusedAsDone(e, err)
	case err == nil:
		c.s.rec.fault("completed") // which the tally counts
	case e.Result == proof.Unknown:
		e.Until = proof.Never
	}
	c.s.rec.add(e)
}

// refusedAsDone is the event of a completion that was refused because the work was completed before: as a claim of somebody else, it tells the mark and the state.
func refusedAsDone(completion proof.Event, err error) proof.Event {
	e := proof.Claimed(store.Claim{Name: completion.Name, Holder: "-", Mark: completion.Mark})
	e.Replica, e.At, e.Until = completion.Replica, completion.At, completion.Until
	e.Answer(store.Outcome{Err: err})
	return e
}
