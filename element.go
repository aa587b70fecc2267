package soloist

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/soloist-dev/soloist/store"
)

// Forever as a Retain keeps the record indefinitely.
const Forever = store.Forever

// ElementsOptions configure the elements of a job. As in Options, zero means the default.
type ElementsOptions struct {
	// Retain is how long the record of a processed element is kept after that. For as long, the element is not processed
	// again. The default is Forever. A negative value is an error. (In store.Release.Retain, to which it is passed, 0
	// keeps nothing.) The record of an element that has failed is kept as long, if it has no more than the failure; until
	// the element is processed, if it has a state or Retry is set.
	Retain time.Duration

	// Retry bounds the attempts at an element. With Attempts > 0, claims of an element that failed or crashed that often
	// return ErrFailed, until Admin.RetryElement. By default there is no bound. After a failure nobody can claim the
	// element for Backoff, which doubles each time.
	Retry Retry
}

// Elements is the set of units of a job's work. Each element is processed once: one replica claims it, processes it,
// and records it as processed. Elements is safe for concurrent use.
type Elements struct {
	client *Client
	job    string
	kind   string
	retain time.Duration
	retry  Retry
	err    error // why the options or the job are not valid
}

// Elements returns the elements of a job. The job can be any name; it need not be one that Run runs. All replicas
// should give the same options. If the options are not valid, every method returns an *InvalidError.
func (c *Client) Elements(job string, opts ElementsOptions) *Elements {
	e := &Elements{client: c, job: job, kind: partsOf(kindElement, job), retain: cmp.Or(opts.Retain, Forever)}
	if e.retry, e.err = opts.Retry.filled(); e.err == nil {
		e.err = store.CheckName(job)
	}
	if opts.Retain < 0 {
		e.err = invalid("Retain", opts.Retain.String(), "must be >= 0; 0 means Forever")
	}
	return e
}

// An Element is an element that this client has claimed. The caller must end it with Done, Fail or Release.
type Element struct {
	*Lease
	of      *Elements
	id      string
	attempt int
	state   elementState
}

// elementState is the state of an element's record.
type elementState struct {
	Attempts int    `json:"attempts,omitempty"` // that have failed or crashed
	Failed   bool   `json:"failed,omitempty"`   // has used up its attempts
	Error    string `json:"error,omitempty"`    // of the last attempt
	At       int64  `json:"at,omitempty"`       // when it failed, unix ms by the replica's clock
	By       string `json:"by,omitempty"`       // replica
	User     []byte `json:"user,omitempty"`     // what Lease.SetState has set
}

// A FailedError reports that an element has used up its attempts. errors.Is(err, ErrFailed) is true for it.
type FailedError struct {
	ID       string
	Attempts int
	Reason   string
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("element %q has failed %d times, last: %s", e.ID, e.Attempts, e.Reason)
}

// Is makes errors.Is(e, ErrFailed) true.
func (e *FailedError) Is(target error) bool { return target == ErrFailed }

// Process claims an element, runs fn, and records the element as processed. If fn returns an error or panics, the
// element is recorded as failed once more, and Process returns that error, a *PanicError for a panic. If the context of
// fn ended for another reason than a lost lease, a failure of fn does not count as an attempt. The contexts and
// runtime.Goexit are as in Client.Do.
//
// Process returns a *DoneError if the element is processed already, a *HeldError if another replica has it (see
// Options.Wait and Options.Overdue), and ErrFailed if its attempts are used up: fn did not run then. If fn ran and the
// record could not be written, Process returns ErrLost (another replica may have taken the element over, or fn has
// released or failed it) or ErrUnknown (the store did not respond).
func (e *Elements) Process(ctx context.Context, id string, fn func(ctx context.Context, element *Element) error) error {
	if err := e.client.enter(); err != nil {
		return err
	}
	defer e.client.runs.Done()
	el, err := e.Claim(ctx, id)
	if err != nil {
		return err
	}
	return el.run(ctx, Work{Attempt: el.attempt}, func(ctx context.Context) error { return fn(ctx, el) }, el.ended)
}

// ended records how a function for the element has ended: err is its error; cause is why its context had ended before,
// or nil. That may be the loss of another lease, which the caller has.
func (el *Element) ended(err, cause error) error {
	if err == nil || el.completed(err) {
		return el.Done()
	}
	var recorded error
	if cause != nil && !errors.Is(context.Cause(el.Context()), ErrLost) { // the attempt was only interrupted
		recorded = el.giveBack()
	} else {
		recorded = el.Fail(err)
	}
	if recorded != nil {
		err = errors.Join(err, recorded)
	}
	return err
}

// Claim acquires an element to process it. Errors are as in Process. The lease outlives ctx: the caller must end it
// with Done, Fail or Release, and stop working when its Context ends.
func (e *Elements) Claim(ctx context.Context, id string) (*Element, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	t, err := e.target(id)
	if err != nil {
		return nil, err
	}
	l, err := e.client.acquire(ctx, t, e.client.opts.Wait != 0)
	if err != nil {
		return nil, err
	}
	return e.granted(ctx, id, l)
}

// usable returns the reason why no element can be claimed, or nil.
func (e *Elements) usable() error {
	if e.err != nil {
		return e.err
	}
	return e.client.usable()
}

func (e *Elements) target(id string) (target, error) {
	name, err := e.client.names.name(e.kind, id)
	return target{kind: KindElement, shown: id, parent: e.job, name: name, mark: 1}, err
}

// granted returns the element of a lease, or ErrFailed if its attempts are used up.
func (e *Elements) granted(ctx context.Context, id string, l *Lease) (*Element, error) {
	el := &Element{Lease: l, of: e, id: id}
	var err error
	if el.state, err = parseElementState(id, l.granted.State); err != nil {
		return nil, errors.Join(err, l.giveBack())
	}
	el.state.Failed = el.state.Failed || e.exhausts(el.state.Attempts)
	if l.granted.ExpiredAge > 0 && !el.state.Failed {
		el.state.failed(e, errors.New("its replica died or was cut off"), l.holder)
		if !el.state.Failed { // so that the next replica that takes it over counts this attempt too
			if err := l.setRecord(ctx, el.state.json()); err != nil {
				return nil, errors.Join(err, el.release(store.Release{State: el.state.json(), Retain: Forever}))
			}
		}
	}
	if el.state.Failed {
		failed := &FailedError{ID: id, Attempts: el.state.Attempts, Reason: el.state.Error}
		return nil, errors.Join(failed, el.release(store.Release{State: el.state.json(), Retain: Forever}))
	}
	el.attempt = el.state.Attempts + 1
	l.done.Store(&elementDone)
	l.keepState(el.state.User, func(user []byte) []byte {
		state := el.state
		state.User = user
		return state.json()
	})
	return el, nil
}

var elementDone doneFunc = func() (int64, []byte) { return 1, []byte{} }

// ID returns the ID by which the element was claimed.
func (el *Element) ID() string { return el.id }

// Attempt returns the number of this attempt at the element, from 1. Crashes count.
func (el *Element) Attempt() int { return el.attempt }

// Done records the element as processed and releases it. Errors are as in Lease.Release. After ErrLost it is not
// recorded, as when it was released, or failed, before. Done twice has the same answer twice.
func (el *Element) Done() error { return el.release(el.processed()) }

func (el *Element) processed() store.Release {
	return store.Release{Mark: 1, State: []byte{}, Retain: el.of.retain}
}

// Fail records a failed attempt and releases the element. A nil reason is recorded as one that was not given. Errors
// are as in Done: Fail twice records one attempt.
func (el *Element) Fail(reason error) error { return el.release(el.failed(reason)) }

// failed returns the release that records a failed attempt.
func (el *Element) failed(reason error) store.Release {
	state := el.state
	state.User = el.keptState(state.User)
	state.failed(el.of, reason, el.holder)
	r := store.Release{State: state.json(), Retain: el.of.retain}
	if el.of.retry.Attempts > 0 || el.of.retry.Backoff > 0 || len(state.User) > 0 { // the next attempt needs the record, however late it is
		r.Retain = Forever
	}
	if !state.Failed {
		r.Linger = el.of.retry.after(state.Attempts)
	}
	return r
}

func (s *elementState) failed(e *Elements, reason error, holder string) {
	s.Attempts++
	s.Failed = e.exhausts(s.Attempts)
	s.Error = "no reason was given"
	if reason != nil {
		s.Error = shorten(reason.Error())
	}
	s.At = time.Now().UnixMilli()
	s.By = replicaOf(holder)
}

// exhausts reports whether an element may not be tried again after so many attempts.
func (e *Elements) exhausts(attempts int) bool {
	return e.retry.Attempts > 0 && attempts >= e.retry.Attempts
}

// crashedInVain returns the state with which to release an element that nobody gets who claimed it, after its holder before had died: nil if nothing is to be counted. Whether
// its attempts are used up is for those to say who claim it next.
func crashedInVain(g store.Grant, holder string) []byte {
	state, err := parseElementState("", g.State)
	if err != nil || state.Failed {
		return nil
	}
	state.failed(&Elements{}, errors.New("its replica died or was cut off"), holder)
	return state.json()
}

func (s *elementState) json() []byte {
	b, _ := json.Marshal(s) // of strings and numbers; it cannot fail
	return b
}

// A Claimed is the result of ClaimAll for one ID: an element, or the error why it could not be claimed.
type Claimed struct {
	ID      string
	Element *Element
	Err     error
}

// ClaimAll claims many elements in few requests. The results are in the order of ids. Their errors are as in Process:
// only ErrDone means that an element is processed, and only ErrHeld that another replica has it; one that was lost
// while others were being claimed has ErrLost. If ClaimAll itself
// returns an error, nothing is claimed: grants that the store may have made are released. ClaimAll does not wait but for Options.Overdue: with
// Options.Wait it returns an *InvalidError.
func (e *Elements) ClaimAll(ctx context.Context, ids []string) ([]Claimed, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	if wait := e.client.opts.Wait; wait != 0 {
		return nil, invalid("Wait", wait.String(), "ClaimAll does not wait; use a client without it, or Claim")
	}
	claimed := make([]Claimed, len(ids))
	open := make([]int, 0, len(ids))
	for i, id := range ids {
		claimed[i].ID = id
		if _, claimed[i].Err = e.target(id); claimed[i].Err == nil {
			open = append(open, i)
		}
	}
	late, err := e.claimSome(ctx, claimed, open)
	if err == nil && e.outwaitSome(ctx, claimed, late) {
		late, err = e.claimSome(ctx, claimed, late)
	}
	if err == nil {
		err = e.client.usable() // it may have been closed during the wait
	}
	for _, i := range late {
		e.tellRefused(ctx, ids[i], claimed[i].Err)
	}
	if err != nil {
		return nil, errors.Join(err, e.client.releaseElements(claimed))
	}
	dropLost(claimed)
	return claimed, nil
}

// claimSome claims the elements of claimed whose indices are given. It returns those that are refused because of what is overdue; of the others that are refused
// it emits events.
func (e *Elements) claimSome(ctx context.Context, claimed []Claimed, some []int) (late []int, err error) {
	c := e.client
	for at := range slices.Chunk(some, batchLimit) {
		claims := make([]store.Claim, len(at))
		for i, n := range at {
			t, err := e.target(claimed[n].ID)
			if err != nil {
				return late, err
			}
			claims[i] = store.Claim{Name: t.name, Holder: c.newHolder(), TTL: c.opts.TTL, Mark: t.mark}
		}
		before := c.clock.earliest()
		outs, _, err := c.claimBatch(ctx, claims, before)
		if err != nil {
			for _, n := range at {
				e.tellRefused(ctx, claimed[n].ID, err)
			}
			return late, err
		}
		late = append(late, e.take(ctx, claimed, at, claims, outs, before)...)
		if err := c.usable(); err != nil { // if it was closed meanwhile, no lease is kept
			return late, err
		}
	}
	return late, nil
}

// dropLost takes back the elements that were lost while others were being claimed: each that a dead replica had costs
// a request before it is handed out, and one that is not answered may take longer than the leases of the others last.
func dropLost(claimed []Claimed) {
	for i, c := range claimed {
		if c.Element == nil {
			continue
		}
		if err := c.Element.Err(); err != nil {
			claimed[i] = Claimed{ID: c.ID, Err: err}
		}
	}
}

// tellRefused emits EventRefused for the element of one ID of a batch.
func (e *Elements) tellRefused(ctx context.Context, id string, err error) {
	e.client.observe(ctx, Event{Kind: EventRefused, Subject: Subject{Kind: KindElement, Name: id, Parent: e.job}, Err: err})
}

// take turns the grants of a batch into elements. It returns the indices of what was refused because of what is overdue.
func (e *Elements) take(ctx context.Context, claimed []Claimed, at []int, claims []store.Claim, outs []outcome, before time.Time) (late []int) {
	for i, out := range outs {
		c := &claimed[at[i]]
		t := target{kind: KindElement, shown: c.ID, parent: e.job, name: claims[i].Name, again: out.again}
		var l *Lease
		if c.Err = t.named(out.Err); c.Err == nil {
			l, c.Err = e.client.adopt(ctx, t, claims[i], out.Grant, before)
		}
		switch {
		case c.Err == nil:
			c.Element, c.Err = e.granted(ctx, c.ID, l)
		case !dueOf(c.Err).IsZero():
			late = append(late, at[i])
		default:
			e.tellRefused(ctx, c.ID, c.Err)
		}
	}
	return late
}

func (c *core) releaseElements(claimed []Claimed) error {
	var leases []*Lease
	for _, one := range claimed {
		if one.Element != nil {
			leases = append(leases, one.Element.Lease)
		}
	}
	return errors.Join(releaseLeases(context.Background(), c, leases, func(i int) store.Release { return store.Release{Retain: leases[i].retain()} })...)
}

// DoneAll records many elements as processed in few requests. It returns the errors of Element.Done, in the order of
// elements.
func (e *Elements) DoneAll(elements []*Element) []error {
	return releaseLeases(context.Background(), e.client.core, leasesOf(elements), func(i int) store.Release { return elements[i].processed() })
}

// FailAll records a failed attempt at many elements, for one reason, in few requests. It returns the errors of
// Element.Fail, in the order of elements.
func (e *Elements) FailAll(elements []*Element, reason error) []error {
	return releaseLeases(context.Background(), e.client.core, leasesOf(elements), func(i int) store.Release { return elements[i].failed(reason) })
}

func leasesOf(elements []*Element) []*Lease {
	leases := make([]*Lease, len(elements))
	for i, el := range elements {
		leases[i] = el.Lease
	}
	return leases
}

// An ElementInfo describes an element.
type ElementInfo struct {
	ID       string
	Status   string        // "processed", "claimed", "failed", "waiting" (to be tried again), "abandoned"
	Holder   string        // the current holder, or the last one
	Token    int64         // of the last claim
	Left     time.Duration // until the claim or the pause before the next attempt ends
	Age      time.Duration // since the last claim
	Attempts int           // that have failed or crashed
	Error    string        // of the last failed attempt
}

// elementInfo returns the description of a record's element, or an error if its state cannot be read.
func elementInfo(id string, r store.Record) (ElementInfo, error) {
	s, err := parseElementState(id, r.State)
	info := ElementInfo{ID: id, Holder: r.Holder, Token: r.Token, Left: r.Left, Age: r.Age, Attempts: s.Attempts, Error: s.Error}
	switch {
	case r.Mark >= 1:
		info.Status = "processed"
	case !r.Free() && r.Holder != "":
		info.Status = "claimed"
	case s.Failed:
		info.Status = "failed"
	case r.Holder != "":
		info.Status = "abandoned"
	default:
		info.Status = "waiting"
	}
	return info, err
}

// shorten bounds text that goes into a record. Control characters become spaces, because each would need six bytes in
// JSON.
func shorten(s string) string {
	const longest = 1000
	cut := len(s) > longest
	if cut {
		s = strings.TrimRightFunc(s[:longest], func(r rune) bool { return r == utf8.RuneError })
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
	if cut {
		s += "…"
	}
	return s
}
