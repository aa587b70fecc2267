package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/proof"
)

const elementsName = "e"

func recordOfElement(id string) string { return "element/" + elementsName + "/" + id }

// attempts is how often an element may be tried; 0 is without bound.
func (p *Plan) attempts() int {
	if p.Seed%4 == 0 {
		return 3
	}
	return 0
}

// elements processes the elements in every way there is, until all are processed.
func (t *thread) elements(ctx context.Context) {
	w := t.world
	e := t.client.Elements(elementsName, soloist.ElementsOptions{
		Retain: w.plan.Retain,
		Retry:  soloist.Retry{Attempts: w.plan.attempts(), Backoff: w.plan.TTL / 10, MaxBackoff: w.plan.TTL / 2},
	})
	for n := 0; n < w.plan.Ops && t.busy(ctx); n++ {
		rest(ctx, t.rng.span(w.plan.TTL/2))
		switch id := fmt.Sprint(t.rng.upTo(w.plan.Names)); t.rng.upTo(4) {
		case 0:
			t.claim(ctx, e, id)
		case 1:
			t.claimAll(ctx, e)
		default:
			t.process(ctx, e, id, true)
		}
	}
	rest(ctx, w.plan.Trouble-w.now()+w.plan.TTL+w.plan.TTL/3+t.rng.span(w.plan.TTL/5))
	for range 2 + 3*int(w.plan.observed()/w.plan.TTL) { // more than once for what another has at this moment and fails, or has left and is seen for the first time
		for i := range w.plan.Names {
			t.process(ctx, e, fmt.Sprint(i), false)
		}
		rest(ctx, w.plan.TTL/2)
	}
}

// begin records that an element is being processed.
func (t *thread) begin(record string, lease *soloist.Lease, attempt int) int {
	w := t.world
	return w.add(proof.Event{Kind: proof.Element, At: w.now(), Until: proof.Never, Replica: t.name(), Name: record, Holder: of(lease.Holder()),
		Token: lease.Token(), Attempt: attempt, Result: proof.Unknown})
}

// finish records how it ended.
func (t *thread) finish(at int, result proof.Result, recorded bool) {
	w := t.world
	if t.lost() {
		return
	}
	w.change(at, func(e *proof.Event) {
		if e.Until == proof.Never {
			e.Until, e.Result = time.Since(w.begin), result
		}
		if recorded {
			e.Recorded = time.Since(w.begin)
		}
	})
}

func (t *thread) process(ctx context.Context, e *soloist.Elements, id string, fails bool) {
	if ctx.Err() != nil {
		return
	}
	w, record := t.world, recordOfElement(id)
	began, at := w.now(), -1
	err := t.heard(e.Process(ctx, id, func(ctx context.Context, el *soloist.Element) error {
		if t.lost() {
			return context.Canceled
		}
		lease := el.Lease
		t.took(began, lease, record)
		at = t.begin(record, lease, el.Attempt())
		b := t.believe(lease, record, "", 1)
		defer b.over()
		long := w.plan.TTL / 20
		if fails && t.rng.chance(30) {
			long = 3 * w.plan.TTL
		}
		rest(ctx, t.rng.span(long))
		result := proof.Okay
		if fails && t.rng.chance(20) {
			result = proof.Failed
		}
		if !b.look() || ctx.Err() != nil {
			result = proof.Lost
		}
		if result == proof.Okay && t.commits() {
			if err := t.commit(lease, proof.Event{Kind: proof.Commit, Name: record}, t.rng); err != nil {
				t.finish(at, proof.Failed, false)
				return err
			}
		}
		t.finish(at, result, false)
		if result != proof.Okay {
			return errOfTheUser
		}
		return nil
	}), &soloist.DoneError{})
	if at >= 0 && err == nil {
		t.finish(at, proof.Okay, true)
	}
	if at < 0 {
		t.refused(began, record, err)
	}
	if errors.Is(err, soloist.ErrFailed) && w.plan.Retries && t.rng.chance(50) {
		t.retry(ctx, e, id)
	}
}

// retry lets a failed element be tried again, as a person does. Then it has not failed.
func (t *thread) retry(ctx context.Context, e *soloist.Elements, id string) {
	w := t.world
	if ctx.Err() != nil || t.lost() {
		return
	}
	w.add(proof.Event{Kind: proof.Retry, At: w.now(), Replica: t.name(), Name: recordOfElement(id)})
	if t.client.Admin().RetryElement(ctx, elementsName, id) != nil || t.lost() {
		return
	}
	el, err := e.Claim(ctx, id)
	switch {
	case t.lost():
	case errors.Is(err, soloist.ErrFailed):
		w.violated("client", id, "%s has retried it, and was told at %v that it has failed: %v", t.name(), w.now(), err)
	case err == nil:
		at := t.begin(recordOfElement(id), el.Lease, el.Attempt())
		t.finish(at, proof.Back, false)
		_ = el.Release()
	}
}

func (t *thread) claim(ctx context.Context, e *soloist.Elements, id string) {
	w, record := t.world, recordOfElement(id)
	began := w.now()
	el, err := e.Claim(ctx, id)
	if err = t.heard(err, &soloist.DoneError{}); err != nil {
		t.refused(began, record, err)
		return
	}
	t.took(began, el.Lease, record)
	at := t.begin(record, el.Lease, el.Attempt())
	b := t.believe(el.Lease, record, "", 1)
	rest(ctx, t.rng.span(w.plan.TTL/2))
	ok := b.look()
	b.over()
	began = w.now()
	switch t.rng.upTo(4) {
	case 0:
		t.finish(at, proof.Failed, false)
		_ = t.given(began, record, el.Lease, el.Fail(errOfTheUser))
	case 1:
		t.finish(at, proof.Back, false)
		_ = t.given(began, record, el.Lease, el.Release())
	default:
		t.done(at, began, ok, record, el, el.Done())
	}
}

// done records what Done has answered.
func (t *thread) done(at int, began time.Duration, believed bool, record string, el *soloist.Element, err error) {
	if err == nil && !believed && !t.lost() { // the store may have had the lease still
		believed = true
	}
	t.finish(at, map[bool]proof.Result{true: proof.Okay, false: proof.Lost}[believed && err == nil], err == nil)
	_ = t.given(began, record, el.Lease, err)
}

func (t *thread) claimAll(ctx context.Context, e *soloist.Elements) {
	w := t.world
	var ids []string
	for i := range w.plan.Names {
		if t.rng.chance(70) {
			ids = append(ids, fmt.Sprint((i+t.rng.upTo(3))%w.plan.Names))
		}
	}
	began := w.now()
	claimed, err := e.ClaimAll(ctx, ids)
	if err != nil {
		return
	}
	if len(claimed) != len(ids) {
		w.violated("client", elementsName, "%d answers to %d ids", len(claimed), len(ids))
		return
	}
	var mine []*soloist.Element
	var at []int
	var beliefs []*belief
	for i, c := range claimed {
		if c.ID != ids[i] {
			w.violated("client", elementsName, "the answer for %s is about %s", ids[i], c.ID)
		}
		record := recordOfElement(c.ID)
		if c.Err = t.heard(c.Err, &soloist.DoneError{}); c.Err != nil {
			// The call itself may have it, which names it twice: also the second time, if the record was locked the first time.
			granted := func(o soloist.Claimed) bool { return o.ID == c.ID && o.Err == nil }
			twice := slices.Index(ids, c.ID) < i || slices.ContainsFunc(claimed[i+1:], granted)
			if !twice || !errors.Is(c.Err, soloist.ErrHeld) {
				t.refused(began, record, c.Err)
			}
			continue
		}
		t.took(began, c.Element.Lease, record)
		mine = append(mine, c.Element)
		at = append(at, t.begin(record, c.Element.Lease, c.Element.Attempt()))
		beliefs = append(beliefs, t.believe(c.Element.Lease, record, "", 1))
	}
	rest(ctx, t.rng.span(w.plan.TTL/2))
	for _, b := range beliefs {
		b.look()
		b.over()
	}
	if len(mine) == 0 {
		return
	}
	began = w.now()
	for i, err := range e.DoneAll(mine) {
		t.done(at[i], began, true, recordOfElement(mine[i].ID()), mine[i], err)
	}
}
