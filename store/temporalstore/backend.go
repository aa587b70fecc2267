package temporalstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// flights is how many requests of one batch are under way at once.
const flights = 16

// identity is what Temporal notes as the client of a request.
const identity = "soloist"

// A backend is the executions of one prefix in one namespace.
type backend struct {
	service workflowservice.WorkflowServiceClient
	cfg     Config
	rolls   rolls
	closer  func() error
}

// Read implements casstore.Backend.
func (b *backend) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	items, errs := make([]casstore.Item, len(names)), make([]error, len(names))
	parallel.Do(len(names), flights, func(i int) {
		items[i], _, errs[i] = b.look(ctx, names[i])
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// Write implements casstore.Backend.
func (b *backend) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	results := make([]casstore.Result, len(changes))
	parallel.Do(len(changes), flights, func(i int) {
		switch c := changes[i]; {
		case c.Record == nil:
			results[i] = b.forget(ctx, c)
		case c.Version == "":
			results[i] = b.create(ctx, c)
		default:
			results[i] = b.replace(ctx, c)
		}
	})
	return results, nil
}

// attempts is how often a create is tried when a run that stands for nothing is in its way.
const attempts = 3

// create starts an execution, if the name has none, not even one that has ended: what a person has ended is not free, and this process may not have read
// that. Only after a run whose record was forgotten another one is started; if nobody has ended that run since, it is ended first.
func (b *backend) create(ctx context.Context, c casstore.Change) casstore.Result {
	e := entryOf(c)
	input, err := e.payloads()
	if err != nil {
		return casstore.Result{Err: wrap("writing", err)}
	}
	id, reuse := b.cfg.workflowID(c.Name), enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	for range attempts {
		_, err := b.service.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
			Namespace: b.cfg.Namespace, WorkflowId: id, WorkflowType: b.workflowType(), TaskQueue: b.queue(id), Input: input, Identity: identity, RequestId: e.Version,
			WorkflowTaskTimeout: durationpb.New(taskTimeout), WorkflowIdReusePolicy: reuse,
			WorkflowIdConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		})
		var taken *serviceerror.WorkflowExecutionAlreadyStarted
		if err = known(err); err == nil {
			return casstore.Result{Version: e.Version}
		} else if !errors.As(err, &taken) {
			return casstore.Result{Err: unsure("writing", err)}
		}
		reuse = enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
		l, err := b.read(ctx, c.Name, taken.RunId)
		switch {
		case err != nil:
			return casstore.Result{Err: store.AsUnknown(err)} // it may be this very request, carried out twice
		case l == nil || l.moved: // it is not the last one any more
		case l.took[e.Version] > 0:
			return casstore.Result{Version: e.Version}
		case !l.gone():
			now := l.item()
			return casstore.Result{Err: casstore.ErrConflict, Current: &now}
		case l.closed == "":
			if err := b.end(ctx, l); err != nil {
				return casstore.Result{Err: err}
			}
			fallthrough
		default:
			reuse = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
		}
	}
	return casstore.Result{Err: casstore.ErrConflict}
}

func (b *backend) workflowType() *common.WorkflowType {
	return &common.WorkflowType{Name: b.cfg.Prefix}
}

// queue is the task queue of one execution, for which only the store asks.
func (b *backend) queue(id string) *taskqueue.TaskQueue { return &taskqueue.TaskQueue{Name: id} }

// replace sends a write, and looks whether it took effect.
func (b *backend) replace(ctx context.Context, c casstore.Change) casstore.Result {
	e := entryOf(c)
	l, result := b.send(ctx, e)
	if l != nil && l.begins(e.Version) {
		b.roll(e.Name)
	}
	return result
}

// forget ends an execution, after a write that says so: no other write takes effect after that.
func (b *backend) forget(ctx context.Context, c casstore.Change) casstore.Result {
	l, result := b.send(ctx, entry{Name: c.Name, Version: rand.Text(), Replaces: c.Version, Deleted: true})
	if result.Err == nil && l.gone() {
		_ = b.end(ctx, l) // if that fails, the next that wants the name or sweeps ends it
	}
	result.Version = ""
	return result
}

// send sends a write and returns the log in which it stands.
func (b *backend) send(ctx context.Context, e entry) (*log, casstore.Result) {
	input, err := e.payloads()
	if err != nil {
		return nil, casstore.Result{Err: wrap("writing", err)}
	}
	b.rolls.wait(ctx, e.Name)
	for again := true; again; again = busy(err) && sleep(ctx, longLook) {
		_, err = b.service.SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: b.cfg.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: b.cfg.workflowID(e.Name)}, SignalName: signal, Input: input,
			Identity: identity, RequestId: e.Version,
		})
	}
	var none *serviceerror.NotFound
	if err = known(err); err != nil && !errors.As(err, &none) {
		if code(err) == codes.InvalidArgument { // so Temporal says that a run has all the signals that it takes
			b.roll(e.Name)
		}
		return nil, casstore.Result{Err: unsure("writing", err)}
	}
	return b.find(ctx, e, err == nil)
}

// The waits between looks for a write that is not in the history yet. Temporal keeps signals back while a run is being continued. If a process has begun that
// and ended, another one takes it up, after so many looks.
const (
	firstLook = 5 * time.Millisecond
	longLook  = 200 * time.Millisecond
	manyLooks = 10
)

// find looks for a write in the history. One that was sent will be there sooner or later.
func (b *backend) find(ctx context.Context, e entry, sent bool) (*log, casstore.Result) {
	wait := firstLook
	for looks := 1; ; looks++ {
		l, err := b.read(ctx, e.Name, "")
		if err != nil {
			return nil, casstore.Result{Err: store.AsUnknown(err)}
		}
		now := itemOf(e.Name, l)
		switch found, err := b.search(ctx, l, e); {
		case err != nil:
			return l, casstore.Result{Err: store.AsUnknown(err), Current: &now}
		case found == tookEffect:
			return l, casstore.Result{Version: e.Version}
		case found == wasRefused || !sent && !(found == isLost && e.Released):
			return l, casstore.Result{Err: casstore.ErrConflict, Current: &now}
		case found == isLost: // a release may have been carried out twice, at first with effect, and met no run the second time
			err := fmt.Errorf("temporalstore: the run of %q that the write was sent to is not known any more", e.Name)
			return l, casstore.Result{Err: store.AsUnknown(err), Current: &now}
		}
		if looks%manyLooks == 0 {
			b.roll(e.Name)
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, longLook)
		case <-ctx.Done():
			return l, casstore.Result{Err: store.AsUnknown(fmt.Errorf("temporalstore: the write to %q is not in the history yet: %w", e.Name, ctx.Err())), Current: &now}
		}
	}
}

// A finding is where a write was found.
type finding int

const (
	notYet finding = iota
	tookEffect
	wasRefused
	isLost // it is in a run that nothing leads to: the record was forgotten, and perhaps made anew since
)

// runsBack is how many runs before the current one are searched. A write whose sender has seen an old run only is not looked for in all since.
const runsBack = 8

// search looks for a write in a run and, if that was continued in between, in those before: back to the run that has the write that it replaces. A run that
// has refused the write is not the end of that: a signal may be carried out twice, as where a client or a proxy repeats it, so the write may have taken effect in
// a run before. If that was a release, its record may have been forgotten and made anew since, in a run that does not lead back.
func (b *backend) search(ctx context.Context, l *log, e entry) (finding, error) {
	here, lost := notYet, isLost // what it is if nothing more is found
	for range 1 + runsBack {
		if l != nil && l.refused[e.Version] > 0 {
			if here = wasRefused; !e.Released {
				lost = wasRefused
			}
		}
		switch {
		case l == nil:
			return lost, nil
		case l.took[e.Version] > 0:
			return tookEffect, nil
		case l.broken != nil:
			return wasRefused, nil
		case l.took[e.Replaces] > 0:
			return here, nil
		case l.previous == "":
			return lost, nil
		}
		var err error
		if l, err = b.read(ctx, e.Name, l.previous); err != nil {
			return notYet, err
		}
	}
	return here, nil
}

// end terminates the run of a record that was forgotten.
func (b *backend) end(ctx context.Context, l *log) error {
	_, err := b.service.TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
		Namespace: b.cfg.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: b.cfg.workflowID(l.name), RunId: l.run},
		Reason: "forgotten", Identity: identity,
	})
	var ended *serviceerror.NotFound
	if err = known(err); err == nil || errors.As(err, &ended) {
		return nil
	}
	return wrap(fmt.Sprintf("ending the execution of %q, which is forgotten,", l.name), err)
}

// Close implements casstore.Backend.
func (b *backend) Close() error {
	b.rolls.close()
	return b.closer()
}
