package temporalstore

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"

	"github.com/soloist-dev/soloist/store/casstore"
)

// signal is the name of the signals that are writes. Others have no meaning here.
const signal = "soloist-write"

// A log is what the history of one run says.
type log struct {
	name     string
	run      string // its ID
	previous string // the ID of the run that it continues, or ""
	writes   int    // whether they took effect or not
	events   int
	last     int64          // the ID of the last event
	bytes    int            // of writes
	took     map[string]int // the versions of the writes that took effect, each with its place among all writes, from 1
	refused  map[string]int // those of the others
	current  entry          // what took effect last
	closed   string         // how the run has ended, or ""
	moved    bool           // it has ended because another run continues it
	broken   error          // something else has written to it
}

// read returns the log of a run, or of the one that is current or was the last if run is "". It returns nil if there is none.
func (b *backend) read(ctx context.Context, name, run string) (*log, error) {
	for {
		l, err := b.readRun(ctx, name, run)
		if err != nil || l == nil || !l.moved || run != "" {
			return l, err
		}
	}
}

// look returns the record of a name, and its log if there is one. A history that Temporal has lost is an error of this record, and not of the request: what
// is wrong with one name harms no other.
func (b *backend) look(ctx context.Context, name string) (casstore.Item, *log, error) {
	l, err := b.read(ctx, name, "")
	if code(err) == codes.DataLoss {
		return casstore.Item{Name: name, Err: unreadable(name, err)}, nil, nil
	}
	return itemOf(name, l), l, err
}

// unreadable says what to do about an execution whose history Temporal has lost. Temporal does not mend one by itself.
func unreadable(of string, err error) error {
	return fmt.Errorf("%q: Temporal cannot read the history of its workflow execution: delete that when nobody holds the name: %w", of, err)
}

func (b *backend) readRun(ctx context.Context, name, run string) (*log, error) {
	l := newLog(name)
	err := b.readPages(ctx, l, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: b.cfg.Namespace, Execution: &common.WorkflowExecution{WorkflowId: b.cfg.workflowID(name), RunId: run},
	})
	var none *serviceerror.NotFound
	switch {
	case errors.As(err, &none):
		return nil, nil //nolint:nilnil // there is no such run
	case err != nil:
		return nil, wrap("reading", err)
	}
	return l, nil
}

// readPages adds the pages of a history to a log, from the page that the request names.
func (b *backend) readPages(ctx context.Context, l *log, request *workflowservice.GetWorkflowExecutionHistoryRequest) error {
	for {
		page, err := b.service.GetWorkflowExecutionHistory(ctx, request)
		if err = known(err); err != nil {
			return err
		}
		l.add(page.GetHistory())
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return nil
		}
	}
}

func newLog(name string) *log {
	return &log{name: name, took: map[string]int{}, refused: map[string]int{}}
}

// add takes the next page of the history.
func (l *log) add(page *history.History) {
	for _, event := range page.GetEvents() {
		l.addEvent(event)
	}
	if l.current.Version == "" && l.broken == nil {
		l.broken = errors.New("its history does not begin with its start")
	}
}

// addEvent takes the next event of the history.
func (l *log) addEvent(event *history.HistoryEvent) {
	l.events++
	l.last = event.GetEventId()
	switch event.GetEventType() { //nolint:exhaustive // the others are of no concern
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		start := event.GetWorkflowExecutionStartedEventAttributes()
		l.run, l.previous = start.GetOriginalExecutionRunId(), start.GetContinuedExecutionRunId()
		l.write(start.GetInput())
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		if s := event.GetWorkflowExecutionSignaledEventAttributes(); s.GetSignalName() == signal {
			l.write(s.GetInput())
		}
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		l.closed, l.moved = "continued as new", true
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		l.closed = "completed"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		l.closed = "failed"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		l.closed = "timed out"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		l.closed = "canceled"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		l.closed = "terminated"
	}
}

// write takes the next write. It takes effect if nothing else has replaced what it replaces.
func (l *log) write(input *common.Payloads) {
	for _, p := range input.GetPayloads() {
		l.bytes += len(p.GetData())
	}
	e, err := parse(input)
	if err == nil && e.Name != l.name {
		err = fmt.Errorf("it is of the name %q", e.Name)
	}
	_, again := l.took[e.Version]
	l.writes++
	switch {
	case l.broken != nil:
	case err != nil:
		l.broken = err
	case again: // a request that was carried out twice
	case l.current.Version != "" && e.Replaces != l.current.Version || l.current.Deleted:
		l.refused[e.Version] = l.writes
	default:
		l.current, l.took[e.Version] = e, l.writes
	}
}

// gone reports whether the record was forgotten, so that the run stands for nothing.
func (l *log) gone() bool { return l.broken == nil && l.current.Deleted }

// item returns the record as it is after the last write, with no version if there is none.
func (l *log) item() casstore.Item {
	item := casstore.Item{Name: l.name}
	switch {
	case l.broken != nil:
		item.Err = fmt.Errorf("the record of %q: %w: something else has written to its workflow execution; terminate that and delete it when nobody holds the name", l.name, l.broken)
	case l.gone():
	case l.closed != "":
		item.Err = fmt.Errorf("the record of %q: its workflow execution was %s by something else; delete that when nobody holds the name", l.name, l.closed)
	default:
		item.Version, item.Record = l.current.Version, l.current.record()
	}
	return item
}

// itemOf is item for a log that may be nil.
func itemOf(name string, l *log) casstore.Item {
	if l == nil {
		return casstore.Item{Name: name}
	}
	return l.item()
}
