package temporalstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/filter/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"

	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// page is how many executions are listed in one request.
const page = 100

// executions returns the IDs of running executions after a cursor, and the cursor after them, "" at the end. Temporal shows an execution a moment after its
// start, and takes ten such requests a second by default. What it refuses because there are more is asked again until ctx ends.
func (b *backend) executions(ctx context.Context, cursor string, n int) (ids []string, next string, err error) {
	for {
		ids, next, err = b.executionsOnce(ctx, cursor, n)
		if code(err) != codes.ResourceExhausted || !sleep(ctx, longLook) {
			return ids, next, err
		}
	}
}

func (b *backend) executionsOnce(ctx context.Context, cursor string, n int) (ids []string, next string, err error) {
	var found []*workflow.WorkflowExecutionInfo
	var token []byte
	response, err := b.service.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: b.cfg.Namespace, PageSize: int32(n), NextPageToken: []byte(cursor), //nolint:gosec // small
		Query: `WorkflowType = "` + b.cfg.Prefix + `" AND ExecutionStatus = "Running"`,
	})
	found, token = response.GetExecutions(), response.GetNextPageToken()
	if err = known(err); code(err) == codes.Unimplemented { // without queries
		var response *workflowservice.ListOpenWorkflowExecutionsResponse
		response, err = b.service.ListOpenWorkflowExecutions(ctx, &workflowservice.ListOpenWorkflowExecutionsRequest{
			Namespace: b.cfg.Namespace, MaximumPageSize: int32(n), NextPageToken: []byte(cursor), //nolint:gosec // small
			Filters: &workflowservice.ListOpenWorkflowExecutionsRequest_TypeFilter{TypeFilter: &filter.WorkflowTypeFilter{Name: b.cfg.Prefix}},
		})
		found, token = response.GetExecutions(), response.GetNextPageToken()
	}
	if err = known(err); err != nil {
		return nil, "", wrap("listing", err)
	}
	for _, e := range found {
		if id := e.GetExecution().GetWorkflowId(); strings.HasPrefix(id, b.cfg.Prefix+":") {
			ids = append(ids, id)
		}
	}
	return ids, string(token), nil
}

// nameOfRun returns the name of an execution whose ID does not have the whole of it, "" if something else has started it. It reports false if the execution is
// there no more: Temporal lists one for a while after that.
func (b *backend) nameOfRun(ctx context.Context, id string) (name string, there bool, err error) {
	first, err := b.service.GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: b.cfg.Namespace, Execution: &common.WorkflowExecution{WorkflowId: id}, MaximumPageSize: 1,
	})
	var none *serviceerror.NotFound
	switch err = known(err); {
	case errors.As(err, &none):
		return "", false, nil
	case err != nil:
		return "", false, wrap("listing", err)
	}
	for _, event := range first.GetHistory().GetEvents() {
		e, err := parse(event.GetWorkflowExecutionStartedEventAttributes().GetInput())
		if err == nil && b.cfg.workflowID(e.Name) == id {
			return e.Name, true, nil
		}
	}
	return "", true, nil
}

// names returns the names of executions, and the items of those that something else has started or whose history is lost.
func (b *backend) names(ctx context.Context, ids []string) (names []string, foreign []casstore.Item, err error) {
	for _, id := range ids {
		name, ok := b.cfg.nameOf(id)
		if !ok {
			var there bool
			name, there, err = b.nameOfRun(ctx, id)
			switch {
			case code(err) == codes.DataLoss:
				foreign = append(foreign, casstore.Item{Name: id, Err: unreadable(id, err)})
				continue
			case err != nil:
				return nil, nil, err
			case !there:
				continue
			}
		}
		if name == "" {
			foreign = append(foreign, casstore.Item{Name: id, Err: fmt.Errorf("the workflow execution %q was started by something else: terminate it, or use another prefix", id)})
			continue
		}
		names = append(names, name)
	}
	return names, foreign, nil
}

// List implements casstore.Backend. It lists all executions, and then reads their histories, some at a time: Temporal has no order of workflow IDs. The
// execution of the name that is the whole prefix is read whether Temporal lists it or not: a caller that wants the record of one name must not miss it.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		names, foreign, err := b.allNames(ctx, prefix)
		if err != nil {
			yield(casstore.Item{}, err)
			return
		}
		for item, err := range casstore.InPages(ctx, b.Read, names, page) {
			if !yield(item, err) || err != nil {
				return
			}
		}
		for _, item := range foreign {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// allNames returns the names that begin with a prefix, in ascending order, and the items of executions that something else has started.
func (b *backend) allNames(ctx context.Context, prefix string) (names []string, foreign []casstore.Item, err error) {
	for cursor, more := "", true; more; more = cursor != "" {
		var ids []string
		if ids, cursor, err = b.executions(ctx, cursor, page); err != nil {
			return nil, nil, err
		}
		some, others, err := b.names(ctx, ids)
		if err != nil {
			return nil, nil, err
		}
		names, foreign = append(names, some...), append(foreign, others...)
	}
	if prefix != "" {
		names = append(names, prefix)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.Sort(names)
	return slices.Compact(names), foreign, nil
}

// Walk implements casstore.Backend. The cursor is Temporal's. It ends the runs of records that were forgotten, and that nobody has ended since.
func (b *backend) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	ids, next, err := b.executions(ctx, cursor, n)
	if err != nil {
		return nil, "", err
	}
	names, items, err := b.names(ctx, ids)
	if err != nil {
		return nil, "", err
	}
	read, errs := make([]casstore.Item, len(names)), make([]error, len(names))
	parallel.Do(len(names), flights, func(i int) {
		var l *log
		if read[i], l, errs[i] = b.look(ctx, names[i]); l != nil && l.gone() && l.closed == "" {
			if err := b.end(ctx, l); err != nil { // it stays in the list, and must not keep those behind it from being swept
				read[i] = casstore.Item{Name: names[i], Err: err}
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, "", err
	}
	for _, item := range read {
		if item.Version != "" || item.Err != nil {
			items = append(items, item)
		}
	}
	return items, next, nil
}
