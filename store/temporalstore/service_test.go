package temporalstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/filter/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A service is a Temporal that a test makes up: it returns the reply to a request.
type service func(request any) (proto.Message, error)

// Invoke implements grpc.ClientConnInterface.
func (s service) Invoke(ctx context.Context, _ string, request, reply any, _ ...grpc.CallOption) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	m, err := s(request)
	if err == nil && m != nil {
		proto.Merge(reply.(proto.Message), m)
	}
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (service) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

// noReply is the reply to a request that a test does not expect.
func noReply(request any) (proto.Message, error) {
	return nil, status.Errorf(codes.Unimplemented, "the test has no reply to %T", request)
}

func (s service) backend() *backend {
	return &backend{
		service: workflowservice.NewWorkflowServiceClient(s), cfg: Config{Namespace: "space", Prefix: "soloist"}, closer: func() error { return nil },
	}
}

var granted = time.Unix(1, 0).UTC()

// written returns a write of the name n.
func written(version, replaces string) entry {
	return entry{Name: "n", Version: version, Replaces: replaces, Holder: "h", Token: 1, TTL: int64(time.Hour), Granted: &granted}
}

// forgotten returns the write by which the record of n is forgotten.
func forgotten(version, replaces string) entry {
	return entry{Name: "n", Version: version, Replaces: replaces, Deleted: true}
}

// historyOf returns the history of a run that continues another one, or none.
func historyOf(t testing.TB, run, previous string, writes ...entry) *history.History {
	t.Helper()
	h := &history.History{}
	for i, e := range writes {
		event := &history.HistoryEvent{EventId: int64(i + 1)}
		if i == 0 {
			event.EventType = enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
			event.Attributes = &history.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: &history.WorkflowExecutionStartedEventAttributes{
				Input: inputOf(t, e), OriginalExecutionRunId: run, ContinuedExecutionRunId: previous,
			}}
		} else {
			event.EventType = enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
			event.Attributes = &history.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
				WorkflowExecutionSignaledEventAttributes: &history.WorkflowExecutionSignaledEventAttributes{SignalName: signal, Input: inputOf(t, e)},
			}
		}
		h.Events = append(h.Events, event)
	}
	return h
}

// closedBy adds the end of a run to its history.
func closedBy(h *history.History, how enums.EventType) *history.History {
	h.Events = append(h.Events, &history.HistoryEvent{EventId: int64(len(h.Events) + 1), EventType: how})
	return h
}

// reply returns a history as Temporal does, and that there is no run for nil.
func reply(h *history.History) (proto.Message, error) {
	if h == nil {
		return nil, serviceerror.ToStatus(serviceerror.NewNotFound("workflow not found")).Err()
	}
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: h}, nil
}

// TestWhereAWriteIsFound: a write is looked for in the current run, and in those that it continues, back to the one that has what the write replaces. What is said of it is certain only if one
// of them shows it.
func TestWhereAWriteIsFound(t *testing.T) {
	mine := written("mine", "before")
	release := mine
	release.Released = true
	chain := func(n int, first ...entry) map[string]*history.History { // of n runs; the oldest one begins with other writes
		runs := map[string]*history.History{"run 0": historyOf(t, "run 0", "", first...)}
		for i := 1; i < n; i++ {
			runs[fmt.Sprint("run ", i)] = historyOf(t, fmt.Sprint("run ", i), fmt.Sprint("run ", i-1), written(fmt.Sprint("other ", i), ""))
		}
		return runs
	}
	foreign := historyOf(t, "run 0", "", written("before", ""))
	foreign.Events[0].GetWorkflowExecutionStartedEventAttributes().Input = nil
	for what, c := range map[string]struct {
		write entry
		runs  map[string]*history.History // the last one is current
		want  finding
	}{
		"no run":                                   {mine, nil, isLost},
		"the run where it took effect":             {mine, chain(1, written("before", ""), mine), tookEffect},
		"the run where it was refused":             {mine, chain(1, written("before", ""), written("other", "before"), mine), wasRefused},
		"a run where it is not yet":                {mine, chain(1, written("before", "")), notYet},
		"a run that it did not reach":              {mine, chain(1, written("other", "")), isLost},
		"a run where it was refused, made anew":    {mine, chain(1, written("other", ""), mine), wasRefused},
		"a release that was refused, made anew":    {release, chain(1, written("other", ""), release), isLost},
		"a release that was refused":               {release, chain(1, written("before", ""), written("other", "before"), release), wasRefused},
		"a run before":                             {mine, chain(3, written("before", ""), mine), tookEffect},
		"none of the runs before":                  {mine, chain(3, written("before", "")), notYet},
		"the last run that is looked at":           {mine, chain(1+runsBack, written("before", ""), mine), tookEffect},
		"a run before those that are looked at":    {mine, chain(2+runsBack, written("before", ""), mine), notYet},
		"a run that something else has written to": {mine, map[string]*history.History{"run 0": foreign}, wasRefused},
	} {
		current := fmt.Sprint("run ", len(c.runs)-1)
		b := service(func(request any) (proto.Message, error) {
			run := request.(*workflowservice.GetWorkflowExecutionHistoryRequest).GetExecution().GetRunId()
			return reply(c.runs[cmp.Or(run, current)])
		}).backend()
		var l *log
		if len(c.runs) > 0 {
			l = newLog("n")
			l.add(c.runs[current])
		}
		if got, err := b.search(t.Context(), l, c.write); got != c.want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", what, got, err, c.want)
		}
	}
	b := service(func(any) (proto.Message, error) { return nil, status.Error(codes.Unavailable, "no") }).backend()
	l := newLog("n")
	l.add(chain(2, written("before", ""))["run 1"])
	if _, err := b.search(t.Context(), l, mine); err == nil {
		t.Error("a run before that cannot be read is no error")
	}
}

// TestStartThatMeetsARun: a start that is refused has taken effect if the run has it. Else the run has the name, unless it stands for nothing: then it is ended, and another one is started after it.
func TestStartThatMeetsARun(t *testing.T) {
	const terminated = enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED
	taken := serviceerror.ToStatus(serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", "another", "run")).Err()
	foreign := historyOf(t, "run", "", written("other", ""))
	foreign.Events[0].GetWorkflowExecutionStartedEventAttributes().Input = nil
	for what, c := range map[string]struct {
		run     *history.History
		denied  bool // to end the run
		err     error
		says    string
		started int
		ended   int
	}{
		"its own":                          {run: historyOf(t, "run", "", written("mine", ""), written("other", "mine")), started: 1},
		"another one":                      {run: historyOf(t, "run", "", written("other", "")), err: casstore.ErrConflict, started: 1},
		"one that a person has ended":      {run: closedBy(historyOf(t, "run", "", written("other", "")), terminated), err: casstore.ErrConflict, says: "terminated by something else", started: 1},
		"one that something else wrote to": {run: foreign, err: casstore.ErrConflict, says: "something else has written", started: 1},
		"one that is gone since":           {err: casstore.ErrConflict, started: attempts},
		"one that is continued":            {run: closedBy(historyOf(t, "run", "", written("other", "")), enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW), err: casstore.ErrConflict, started: attempts},
		"one of a forgotten record":        {run: historyOf(t, "run", "", written("other", ""), forgotten("gone", "other")), started: 2, ended: 1},
		"one of a forgotten record, ended": {run: closedBy(historyOf(t, "run", "", written("other", ""), forgotten("gone", "other")), terminated), started: 2},
		"one that cannot be ended":         {run: historyOf(t, "run", "", written("other", ""), forgotten("gone", "other")), denied: true, err: fs.ErrPermission, started: 1, ended: 1},
	} {
		var started, ended int
		b := service(func(request any) (proto.Message, error) {
			switch r := request.(type) {
			case *workflowservice.StartWorkflowExecutionRequest:
				started++
				if r.GetWorkflowIdReusePolicy() == enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE {
					return &workflowservice.StartWorkflowExecutionResponse{}, nil
				}
				return nil, taken
			case *workflowservice.TerminateWorkflowExecutionRequest:
				run := r.GetWorkflowExecution()
				if ended++; run.GetRunId() != "run" || run.GetWorkflowId() != "soloist:n" || r.GetNamespace() != "space" {
					t.Errorf("%s: ended %v", what, r)
				}
				if c.denied {
					return nil, status.Error(codes.PermissionDenied, "no")
				}
				return nil, serviceerror.ToStatus(serviceerror.NewNotFound("it has ended")).Err() // somebody was faster
			case *workflowservice.GetWorkflowExecutionHistoryRequest:
				if r.GetExecution().GetRunId() != "run" {
					t.Errorf("%s: read %v", what, r)
				}
				return reply(c.run)
			}
			return noReply(request)
		}).backend()
		r := b.create(t.Context(), casstore.Change{Name: "n", Record: &casstore.Record{Holder: "x", TTL: time.Hour, Write: "mine", Granted: granted}})
		switch {
		case !errors.Is(r.Err, c.err) || errors.Is(r.Err, store.ErrUnknown) || started != c.started || ended != c.ended:
			t.Errorf("%s: got %v after %d starts and %d ends; want %v, %d and %d", what, r.Err, started, ended, c.err, c.started, c.ended)
		case (r.Version == "mine") != (c.err == nil):
			t.Errorf("%s: got the version %q", what, r.Version)
		case c.started == 1 && c.err == casstore.ErrConflict: //nolint:errorlint // of the table
			if r.Current == nil || c.says == "" && r.Current.Version != "other" || c.says != "" && (r.Current.Err == nil || !strings.Contains(r.Current.Err.Error(), c.says)) {
				t.Errorf("%s: what is there is %+v, want %q", what, r.Current, c.says)
			}
		}
	}
}

// TestStartOfARun: a start says all that the run is, and that it is not to come in the place of another one.
func TestStartOfARun(t *testing.T) {
	var asked *workflowservice.StartWorkflowExecutionRequest
	var refusal error
	b := service(func(request any) (proto.Message, error) {
		if r, ok := request.(*workflowservice.StartWorkflowExecutionRequest); ok {
			asked = r
			return &workflowservice.StartWorkflowExecutionResponse{}, refusal
		}
		return noReply(request)
	}).backend()
	record := casstore.Record{Holder: "x", Token: 7, TTL: time.Hour, Write: "mine", Granted: granted}
	change := casstore.Change{Name: "n", Record: &record}
	if r := b.create(t.Context(), change); r.Err != nil || r.Version != "mine" {
		t.Fatalf("got %+v", r)
	}
	e, err := parse(asked.GetInput())
	if err != nil || e.Name != "n" || e.Version != "mine" || e.Replaces != "" || e.Holder != "x" || e.Token != 7 {
		t.Errorf("it begins with %+v, %v", e, err)
	}
	asked.Input = nil
	if want := (&workflowservice.StartWorkflowExecutionRequest{
		Namespace: "space", WorkflowId: "soloist:n", WorkflowType: &common.WorkflowType{Name: "soloist"},
		TaskQueue: &taskqueue.TaskQueue{Name: "soloist:n"}, Identity: identity, RequestId: "mine",
		WorkflowTaskTimeout:      durationpb.New(taskTimeout),
		WorkflowIdReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIdConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
	}); !proto.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	for code, unknown := range map[codes.Code]bool{codes.Unavailable: true, codes.PermissionDenied: false} {
		refusal = status.Error(code, "no")
		r := b.create(t.Context(), change)
		if r.Err == nil || errors.Is(r.Err, store.ErrUnknown) != unknown || r.Version != "" {
			t.Errorf("a start that fails with %v: got %+v; want it unknown: %t", code, r, unknown)
		}
	}
}

// TestWriteWithoutAnOpenRun: a write for which Temporal has no open run had no effect, which is told at once, with what
// is there. Only a release may have had one before, in a run that is not known any more.
func TestWriteWithoutAnOpenRun(t *testing.T) {
	ended := func(previous string, writes ...entry) *history.History {
		return closedBy(historyOf(t, "run", previous, writes...), enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED)
	}
	before, other, mine := written("before", ""), written("other", ""), written("mine", "before")
	const refused, unknown, done = "refused", "unknown", "done"
	for _, c := range []struct {
		what       string
		run        *history.History
		unreadable string // the run that nobody can read
		released   bool
		want       string
	}{
		{"no run", nil, "", false, refused},
		{"no run, of a release", nil, "", true, unknown},
		{"one that a person has ended", ended("", before), "", false, refused},
		{"one that a person has ended, of a release", ended("", before), "", true, refused},
		{"one that was made anew since", ended("", other), "", false, refused},
		{"one that was made anew since, of a release", ended("", other), "", true, unknown},
		{"one where it took effect the first time", ended("", before, mine), "", false, done},
		{"one that nobody can read", nil, "run", false, unknown},
		{"one that continues one that nobody can read", ended("old", other), "old", false, unknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := service(func(request any) (proto.Message, error) {
				switch r := request.(type) {
				case *workflowservice.SignalWorkflowExecutionRequest:
					return nil, serviceerror.ToStatus(serviceerror.NewNotFound("execution already completed")).Err()
				case *workflowservice.GetWorkflowExecutionHistoryRequest:
					if c.unreadable == cmp.Or(r.GetExecution().GetRunId(), "run") {
						return nil, status.Error(codes.Unavailable, "no")
					}
					return reply(c.run)
				}
				return noReply(request)
			}).backend()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begun := time.Now()
			record := casstore.Record{Holder: "h", TTL: time.Hour, Released: c.released, Write: "mine", Granted: granted}
			r := b.replace(ctx, casstore.Change{Name: "n", Version: "before", Record: &record})
			got := done
			switch {
			case errors.Is(r.Err, store.ErrUnknown):
				got = unknown
			case errors.Is(r.Err, casstore.ErrConflict):
				got = refused
			}
			if took := time.Since(begun); got != c.want || (r.Version == "mine") != (r.Err == nil) || took > 0 {
				t.Errorf("%s: got %+v after %v, want that it is %s, at once", c.what, r, took, c.want)
			}
			if got == done || c.unreadable == "run" {
				return
			}
			says := "<nil>" // what is there
			if c.run != nil {
				says = "terminated by something else"
			}
			now := r.Current
			if now == nil || now.Name != "n" || now.Version != "" || !strings.Contains(fmt.Sprint(now.Err), says) {
				t.Errorf("%s: what is there is %+v, want %s", c.what, now, says)
			}
		})
	}
}

// TestWriteDuringAContinuation: a write to a run that this process is continuing waits for the end of that, and one to
// another run does not.
func TestWriteDuringAContinuation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		sent := map[string]time.Duration{}
		b := service(func(request any) (proto.Message, error) {
			switch r := request.(type) {
			case *workflowservice.SignalWorkflowExecutionRequest:
				sent[r.GetWorkflowExecution().GetWorkflowId()] = time.Since(begun)
				return &workflowservice.SignalWorkflowExecutionResponse{}, nil
			case *workflowservice.GetWorkflowExecutionHistoryRequest:
				return reply(historyOf(t, "run", "", written("before", ""), written("mine", "before")))
			}
			return noReply(request)
		}).backend()
		_, end, ok := b.rolls.begin("n")
		if !ok {
			t.Fatal("the continuation does not begin")
		}
		time.AfterFunc(time.Second, end)
		for _, name := range []string{"other", "n"} {
			record := casstore.Record{Holder: "h", TTL: time.Hour, Write: "mine", Granted: granted}
			b.replace(t.Context(), casstore.Change{Name: name, Version: "before", Record: &record})
		}
		if want := map[string]time.Duration{"soloist:other": 0, "soloist:n": time.Second}; !maps.Equal(sent, want) {
			t.Errorf("the writes were sent after %v, want %v", sent, want)
		}
	})
}

// TestLateWrite: a write that Temporal has accepted is looked for until it is in the history. After some time, the client continues the run, in case another one has begun that and ended. At
// the end of the context the outcome is unknown.
func TestLateWrite(t *testing.T) {
	for what, never := range map[string]bool{"it comes": false, "it does not": true} {
		synctest.Test(t, func(t *testing.T) {
			const comes = 2*manyLooks + 1
			var signals, looks, polls int
			b := service(func(request any) (proto.Message, error) {
				switch request.(type) {
				case *workflowservice.SignalWorkflowExecutionRequest:
					signals++
					return &workflowservice.SignalWorkflowExecutionResponse{}, nil
				case *workflowservice.GetWorkflowExecutionHistoryRequest:
					if looks++; looks < comes || never {
						return reply(historyOf(t, "run", "", written("before", "")))
					}
					return reply(historyOf(t, "run", "", written("before", ""), written("mine", "before")))
				case *workflowservice.PollWorkflowTaskQueueRequest:
					polls++
					return &workflowservice.PollWorkflowTaskQueueResponse{}, nil
				}
				return noReply(request)
			}).backend()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begun := time.Now()
			r := b.replace(ctx, casstore.Change{Name: "n", Version: "before", Record: &casstore.Record{Holder: "x", TTL: time.Hour, Write: "mine", Granted: granted}})
			synctest.Wait()
			took := time.Since(begun)
			switch {
			case signals != 1:
				t.Errorf("%s: %d signals, want one", what, signals)
			case never && (!errors.Is(r.Err, store.ErrUnknown) || !errors.Is(r.Err, context.DeadlineExceeded) || r.Current == nil || r.Current.Version != "before" || took != time.Minute):
				t.Errorf("%s: got %+v after %v, want that it is unknown at the end of the context", what, r, took)
			case !never && (r.Err != nil || r.Version != "mine" || polls != 2):
				t.Errorf("%s: got %+v after %d continuations, want that it is found after two", what, r, polls)
			case !never && took != 5*time.Millisecond+10*time.Millisecond+20*time.Millisecond+40*time.Millisecond+80*time.Millisecond+160*time.Millisecond+(comes-1-6)*longLook:
				t.Errorf("%s: found after %v", what, took)
			}
		})
	}
}

// TestWriteToABusyRun: a write that Temporal refuses since the run is being continued is sent again, as the same request. Where that goes on until the end of the context, the outcome is unknown.
func TestWriteToABusyRun(t *testing.T) {
	busy := func() error {
		return serviceerror.ToStatus(&serviceerror.ResourceExhausted{Cause: enums.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, Message: "busy"}).Err()
	}
	for what, c := range map[string]struct {
		refusals int
		refuse   error
		sent     int
		took     time.Duration
		err      error
	}{
		"for a while":            {3, busy(), 4, 3 * longLook, nil},
		"for good":               {1000, busy(), 5, time.Second, store.ErrUnknown},
		"for another reason":     {1, status.Error(codes.ResourceExhausted, "too many"), 1, 0, store.ErrUnknown},
		"as one that has no run": {1, status.Error(codes.NotFound, "none"), 1, 0, casstore.ErrConflict},
		"as one without a right": {1, status.Error(codes.PermissionDenied, "no"), 1, 0, fs.ErrPermission},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			var ids []string
			b := service(func(request any) (proto.Message, error) {
				switch r := request.(type) {
				case *workflowservice.SignalWorkflowExecutionRequest:
					ids = append(ids, r.GetRequestId())
					if sent++; sent <= c.refusals {
						return nil, c.refuse
					}
					return &workflowservice.SignalWorkflowExecutionResponse{}, nil
				case *workflowservice.GetWorkflowExecutionHistoryRequest:
					h := historyOf(t, "run", "", written("before", ""))
					if sent > c.refusals {
						h = historyOf(t, "run", "", written("before", ""), written("mine", "before"))
					}
					return reply(h)
				}
				return noReply(request)
			}).backend()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			r := b.replace(ctx, casstore.Change{Name: "n", Version: "before", Record: &casstore.Record{Holder: "x", TTL: time.Hour, Write: "mine", Granted: granted}})
			if took := time.Since(begun); !errors.Is(r.Err, c.err) || errors.Is(r.Err, store.ErrUnknown) != (c.err == store.ErrUnknown) || took != c.took || sent < c.sent || sent > c.sent+1 { //nolint:errorlint // of the table
				t.Errorf("%s: got %+v after %d requests in %v; want %v, %d and %v", what, r, sent, took, c.err, c.sent, c.took)
			}
			if !slices.Equal(slices.Compact(ids), []string{"mine"}) {
				t.Errorf("%s: the requests are %q, want that each is the same", what, ids)
			}
		})
	}
}

// TestForgettingARun: a record that was forgotten has its run ended, and it is forgotten also if that fails. A record that was written since is not ended.
func TestForgettingARun(t *testing.T) {
	for what, c := range map[string]struct {
		now    func(deletion entry) *history.History
		denied bool
		unsent bool
		err    error
		ended  int
	}{
		"forgotten":     {now: func(d entry) *history.History { return historyOf(t, "run", "", written("before", ""), d) }, ended: 1},
		"but not ended": {now: func(d entry) *history.History { return historyOf(t, "run", "", written("before", ""), d) }, denied: true, ended: 1},
		"written in between": {now: func(d entry) *history.History {
			return historyOf(t, "run", "", written("before", ""), written("other", "before"), d)
		}, err: casstore.ErrConflict},
		"refused": {now: func(entry) *history.History { return nil }, unsent: true, err: fs.ErrPermission},
	} {
		var deletion entry
		ended := 0
		b := service(func(request any) (proto.Message, error) {
			switch r := request.(type) {
			case *workflowservice.SignalWorkflowExecutionRequest:
				if c.unsent {
					return nil, status.Error(codes.PermissionDenied, "no")
				}
				var err error
				if deletion, err = parse(r.GetInput()); err != nil || !deletion.Deleted || deletion.Replaces != "before" {
					t.Errorf("%s: the write is %+v, %v", what, deletion, err)
				}
				return &workflowservice.SignalWorkflowExecutionResponse{}, nil
			case *workflowservice.GetWorkflowExecutionHistoryRequest:
				return reply(c.now(deletion))
			case *workflowservice.TerminateWorkflowExecutionRequest:
				if ended++; c.denied {
					return nil, status.Error(codes.Unavailable, "no")
				}
				return &workflowservice.TerminateWorkflowExecutionResponse{}, nil
			}
			return noReply(request)
		}).backend()
		r := b.forget(t.Context(), casstore.Change{Name: "n", Version: "before"})
		if !errors.Is(r.Err, c.err) || r.Version != "" || ended != c.ended {
			t.Errorf("%s: got %+v and %d ends, want %v and %d", what, r, ended, c.err, c.ended)
		}
	}
}

// TestCodesOfErrors: whether a write may have taken effect, by the code that Temporal replies with, and what else its error is.
func TestCodesOfErrors(t *testing.T) {
	certain := []codes.Code{
		codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Unimplemented, codes.AlreadyExists,
	}
	is := map[codes.Code]error{
		codes.PermissionDenied: fs.ErrPermission, codes.Unauthenticated: fs.ErrPermission,
		codes.DeadlineExceeded: context.DeadlineExceeded, codes.Canceled: context.Canceled,
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		told := known(status.Error(code, "why"))
		err := unsure("writing", told)
		if errors.Is(err, store.ErrUnknown) == slices.Contains(certain, code) || !strings.Contains(err.Error(), "temporalstore: writing") || !strings.Contains(err.Error(), "why") {
			t.Errorf("%v: %v", code, err)
		}
		for _, meaning := range []error{fs.ErrPermission, context.DeadlineExceeded, context.Canceled} {
			if errors.Is(err, meaning) != (is[code] == meaning) { //nolint:errorlint // of the table
				t.Errorf("%v: %v is %v: %t", code, err, meaning, errors.Is(err, meaning))
			}
		}
		if read := wrap("reading", told); errors.Is(read, store.ErrUnknown) {
			t.Errorf("%v: a read: %v", code, read)
		}
	}
	for _, of := range connecting {
		if err := wrap("reading", status.Error(codes.Unavailable, "transport: "+of.says)); !strings.Contains(err.Error(), of.fix) {
			t.Errorf("got %v, want %q", err, of.fix)
		}
	}
}

// TestExecutionsOfOthers: of the executions that Temporal lists those count whose IDs begin with the prefix, on all pages, and a list that Temporal refuses for as long as there is time is an error.
func TestExecutionsOfOthers(t *testing.T) {
	pages := map[string][]string{"": {"soloist:b", "soloist2:c"}, "1": {"soloist:a", "other"}, "2": {"soloist:c"}}
	next := map[string]string{"": "1", "1": "2"}
	b := service(func(request any) (proto.Message, error) {
		r, ok := request.(*workflowservice.ListWorkflowExecutionsRequest)
		if !ok || r.GetNamespace() != "space" || r.GetPageSize() != page || r.GetQuery() != `WorkflowType = "soloist" AND ExecutionStatus = "Running"` {
			t.Errorf("asked for %v", request)
		}
		token := r.GetNextPageToken()
		return listing(next[string(token)], pages[string(token)]...), nil
	}).backend()
	for prefix, want := range map[string]string{"": "a b c", "b": "b", "x": "x"} {
		if names, foreign, err := b.allNames(t.Context(), prefix); strings.Join(names, " ") != want || len(foreign) > 0 || err != nil {
			t.Errorf("with %q: %q, %v, %v; want %s", prefix, names, foreign, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		b := service(func(any) (proto.Message, error) {
			asked++
			return nil, status.Error(codes.ResourceExhausted, "too many")
		}).backend()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+longLook/2)
		defer cancel()
		if _, _, err := b.executions(ctx, "", page); err == nil || asked != 6 {
			t.Errorf("got %v after %d requests in a second, want an error after 6", err, asked)
		}
	})
}

// listing is the reply to a request for a list of executions.
func listing(next string, ids ...string) *workflowservice.ListWorkflowExecutionsResponse {
	list := &workflowservice.ListWorkflowExecutionsResponse{NextPageToken: []byte(next)}
	for _, id := range ids {
		execution := &common.WorkflowExecution{WorkflowId: id}
		list.Executions = append(list.Executions, &workflow.WorkflowExecutionInfo{Execution: execution})
	}
	return list
}

// TestListWithoutQueries: a Temporal that takes no queries is asked for the open executions of the prefix, page by
// page. What it refuses then is an error.
func TestListWithoutQueries(t *testing.T) {
	var refusal error
	b := service(func(request any) (proto.Message, error) {
		switch r := request.(type) {
		case *workflowservice.ListWorkflowExecutionsRequest:
			return nil, status.Error(codes.Unimplemented, "no queries")
		case *workflowservice.ListOpenWorkflowExecutionsRequest:
			if want := (&workflowservice.ListOpenWorkflowExecutionsRequest{
				Namespace: "space", MaximumPageSize: 7, NextPageToken: []byte("here"),
				Filters: &workflowservice.ListOpenWorkflowExecutionsRequest_TypeFilter{
					TypeFilter: &filter.WorkflowTypeFilter{Name: "soloist"},
				},
			}); !proto.Equal(r, want) {
				t.Errorf("asked for %v, want %v", r, want)
			}
			if refusal != nil {
				return nil, refusal
			}
			list := listing("there", "soloist:b", "other", "soloist:a")
			return &workflowservice.ListOpenWorkflowExecutionsResponse{
				Executions: list.GetExecutions(), NextPageToken: list.GetNextPageToken(),
			}, nil
		}
		return noReply(request)
	}).backend()
	ids, next, err := b.executions(t.Context(), "here", 7)
	if !slices.Equal(ids, []string{"soloist:b", "soloist:a"}) || next != "there" || err != nil {
		t.Errorf("got %q, %q, %v", ids, next, err)
	}
	refusal = status.Error(codes.PermissionDenied, "no")
	ids, next, err = b.executions(t.Context(), "here", 7)
	if !errors.Is(err, fs.ErrPermission) || len(ids) > 0 || next != "" {
		t.Errorf("a list that is refused: %q, %q, %v", ids, next, err)
	}
}

// TestListsAndSweepsThatFail: a list or a sweep for which a request failed ends with its error: records that could not
// be read are not left out as if they were not there.
func TestListsAndSweepsThatFail(t *testing.T) {
	long := strings.Repeat("Name", 60) // its ID does not have the whole of it
	for what, fails := range map[string]func(request any) bool{
		"the first page": func(request any) bool {
			r, ok := request.(*workflowservice.ListWorkflowExecutionsRequest)
			return ok && len(r.GetNextPageToken()) == 0
		},
		"the second page": func(request any) bool {
			r, ok := request.(*workflowservice.ListWorkflowExecutionsRequest)
			return ok && len(r.GetNextPageToken()) > 0
		},
		"a name": func(request any) bool {
			r, ok := request.(*workflowservice.GetWorkflowExecutionHistoryRequest)
			return ok && r.GetMaximumPageSize() == 1
		},
		"a record": func(request any) bool {
			r, ok := request.(*workflowservice.GetWorkflowExecutionHistoryRequest)
			return ok && r.GetMaximumPageSize() == 0 && r.GetExecution().GetWorkflowId() == "soloist:n"
		},
		"nothing": func(any) bool { return false },
	} {
		b := service(func(request any) (proto.Message, error) {
			if fails(request) {
				return nil, status.Error(codes.Internal, "so it is")
			}
			switch r := request.(type) {
			case *workflowservice.ListWorkflowExecutionsRequest:
				if len(r.GetNextPageToken()) == 0 {
					return listing("more", "soloist:n"), nil
				}
				return listing("", Config{Prefix: "soloist"}.workflowID(long)), nil
			case *workflowservice.GetWorkflowExecutionHistoryRequest:
				e := written("v", "")
				if r.GetExecution().GetWorkflowId() != "soloist:n" {
					e.Name = long
				}
				return reply(historyOf(t, "run", "", e))
			}
			return noReply(request)
		}).backend()
		var listed, swept []string
		var listErr, sweepErr error
		for item, err := range b.List(t.Context(), "") {
			if listErr = errors.Join(listErr, err, item.Err); err == nil {
				listed = append(listed, item.Name)
			}
		}
		for cursor, more := "", true; more; more = cursor != "" && sweepErr == nil {
			var items []casstore.Item
			items, cursor, sweepErr = b.Walk(t.Context(), cursor, 10)
			for _, item := range items {
				swept = append(swept, item.Name)
			}
		}
		if what == "nothing" {
			for range b.List(t.Context(), "") {
				break // a list that went on would panic
			}
			inOrder := slices.Equal(listed, []string{long, "n"}) && slices.Equal(swept, []string{"n", long})
			if listErr != nil || sweepErr != nil || !inOrder {
				t.Errorf("without a failure: the list has %q, %v; the sweep %q, %v", listed, listErr, swept, sweepErr)
			}
			continue
		}
		for which, err := range map[string]error{"list": listErr, "sweep": sweepErr} {
			if err == nil || !strings.Contains(err.Error(), "so it is") || errors.Is(err, store.ErrUnknown) {
				t.Errorf("%s of a %s: got %v, want an error", what, which, err)
			}
		}
		if len(listed) > 0 {
			t.Errorf("%s: the list goes on after its error, with %q", what, listed)
		}
	}
}

// TestSweepEndsForgottenRuns: a sweep ends the runs of forgotten records that nobody has ended, and no other runs. It
// returns the records, and what cannot be read or ended.
func TestSweepEndsForgottenRuns(t *testing.T) {
	const terminated = enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED
	start := func(name string) entry { return entry{Name: name, Version: "v", Granted: &granted} }
	end := func(name string) entry { return entry{Name: name, Version: "w", Replaces: "v", Deleted: true} }
	runs := map[string]*history.History{
		"held":      historyOf(t, "run 1", "", start("held")),
		"forgotten": historyOf(t, "run 2", "", start("forgotten"), end("forgotten")),
		"stays":     historyOf(t, "run 3", "", start("stays"), end("stays")),
		"ended":     closedBy(historyOf(t, "run 4", "", start("ended"), end("ended")), terminated),
		"stopped":   closedBy(historyOf(t, "run 5", "", start("stopped")), terminated),
		"odd":       historyOf(t, "run 6", "", start("odd"), end("other")),
		"gone":      nil,
	}
	var mu sync.Mutex
	var ended []string
	b := service(func(request any) (proto.Message, error) {
		switch r := request.(type) {
		case *workflowservice.ListWorkflowExecutionsRequest:
			var ids []string
			for name := range runs {
				ids = append(ids, "soloist:"+name)
			}
			return listing("more", append(ids, "soloist:lost", "soloist:UPPER")...), nil
		case *workflowservice.GetWorkflowExecutionHistoryRequest:
			name := strings.TrimPrefix(r.GetExecution().GetWorkflowId(), "soloist:")
			if name == "lost" {
				return nil, serviceerror.ToStatus(serviceerror.NewDataLoss("corrupted history event batch")).Err()
			}
			if name == "UPPER" {
				return reply(runs["held"]) // a run whose ID is none that the store makes
			}
			return reply(runs[name])
		case *workflowservice.TerminateWorkflowExecutionRequest:
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, r.GetWorkflowExecution().GetWorkflowId()+" "+r.GetWorkflowExecution().GetRunId())
			if r.GetWorkflowExecution().GetRunId() == "run 3" {
				return nil, status.Error(codes.PermissionDenied, "not this one")
			}
			return &workflowservice.TerminateWorkflowExecutionResponse{}, nil
		}
		return noReply(request)
	}).backend()
	items, next, err := b.Walk(t.Context(), "", 10)
	if err != nil || next != "more" {
		t.Fatalf("got %q, %v", next, err)
	}
	found := map[string]string{}
	for _, item := range items {
		if found[item.Name] = item.Version; item.Err != nil {
			found[item.Name] = item.Err.Error()
		}
	}
	want := map[string]string{
		"held": "v", "stays": "not this one", "stopped": "terminated by something else",
		"odd": `it is of the name "other"`, "lost": "cannot read the history",
		"soloist:UPPER": "was started by something else",
	}
	if !maps.EqualFunc(found, want, strings.Contains) {
		t.Errorf("the sweep has %q, want %q", found, want)
	}
	if slices.Sort(ended); !slices.Equal(ended, []string{"soloist:forgotten run 2", "soloist:stays run 3"}) {
		t.Errorf("it has ended %q, want what was forgotten and is open", ended)
	}
}

// TestHistoryOnPages: a history is read to its end, and one that was continued while it was read is read anew.
func TestHistoryOnPages(t *testing.T) {
	whole := historyOf(t, "run", "", written("a", ""), written("b", "a"), written("c", "b"))
	moved := closedBy(historyOf(t, "old", "", written("x", "")), enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW)
	asked := 0
	b := service(func(request any) (proto.Message, error) {
		r := request.(*workflowservice.GetWorkflowExecutionHistoryRequest)
		asked++
		switch {
		case r.GetExecution().GetWorkflowId() != "soloist:n" || r.GetNamespace() != "space":
			t.Errorf("read %v", r)
		case r.GetExecution().GetRunId() == "old" || asked == 1:
			return reply(moved)
		}
		n := len(r.GetNextPageToken())
		page := &workflowservice.GetWorkflowExecutionHistoryResponse{History: &history.History{Events: whole.Events[n : n+1]}}
		if n+1 < len(whole.Events) {
			page.NextPageToken = make([]byte, n+1)
		}
		return page, nil
	}).backend()
	if l, err := b.read(t.Context(), "n", ""); err != nil || l.current.Version != "c" || l.run != "run" || l.events != 3 || l.last != 3 || asked != 4 {
		t.Errorf("got %+v, %v after %d requests", l, err, asked)
	}
	if l, err := b.read(t.Context(), "n", "old"); err != nil || !l.moved || l.current.Version != "x" {
		t.Errorf("the run before: %+v, %v", l, err)
	}
}

// TestContinuations: some runs are continued at once, each name once. None begins after the end of the store, which ends those that are under way.
func TestContinuations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rolls
		begin := func(name string) (context.Context, func()) {
			t.Helper()
			ctx, end, ok := r.begin(name)
			if !ok {
				t.Fatalf("%s does not begin", name)
			}
			return ctx, end
		}
		refuses := func(name string) {
			t.Helper()
			if _, _, ok := r.begin(name); ok {
				t.Errorf("%s begins", name)
			}
		}
		first, end := begin("a")
		refuses("a")
		var ends []func()
		for i := range rollsAtOnce - 1 {
			_, end := begin(fmt.Sprint(i))
			ends = append(ends, end)
		}
		refuses("b")
		waited := make(chan time.Duration)
		go func() {
			begun := time.Now()
			r.wait(t.Context(), "a")
			waited <- time.Since(begun)
		}()
		time.Sleep(time.Second)
		end()
		if took := <-waited; took != time.Second || first.Err() == nil {
			t.Errorf("a write has waited for %v, and the continuation's context ended with %v", took, first.Err())
		}
		last, end := begin("a")
		time.Sleep(rollTimeout - 1)
		if synctest.Wait(); last.Err() != nil {
			t.Errorf("it has ended with %v", last.Err())
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); last.Err() == nil {
			t.Errorf("it goes on after %v", rollTimeout)
		}
		end()
		last, end = begin("c")
		closed := make(chan struct{})
		go func() { r.close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("the store has closed while a run is being continued")
		default:
		}
		if last.Err() == nil {
			t.Error("the end of the store does not end it")
		}
		refuses("d")
		for _, end := range append(ends, end) {
			end()
		}
		<-closed
		refuses("e")
	})
}

// A waiting service has no task until the context of whoever asks for one ends.
type waiting struct {
	workflowservice.WorkflowServiceClient
	asked chan struct{} // gets a value with each
	ended atomic.Int64  // requests
}

// PollWorkflowTaskQueue implements workflowservice.WorkflowServiceClient.
func (s *waiting) PollWorkflowTaskQueue(
	ctx context.Context, _ *workflowservice.PollWorkflowTaskQueueRequest, _ ...grpc.CallOption,
) (*workflowservice.PollWorkflowTaskQueueResponse, error) {
	s.asked <- struct{}{}
	<-ctx.Done()
	s.ended.Add(1)
	return nil, status.FromContextError(ctx.Err()).Err()
}

// TestCloseDuringAContinuation: Close ends the continuation of a run that is under way, and gives the connection up
// only after that.
func TestCloseDuringAContinuation(t *testing.T) {
	s := &waiting{asked: make(chan struct{}, rollTries)}
	lost := errors.New("the connection was closed")
	closed := int64(-1)
	b := &backend{service: s, cfg: Config{Namespace: "space", Prefix: "soloist"}, closer: func() error {
		closed = s.ended.Load()
		return lost
	}}
	b.roll("n")
	<-s.asked
	if err := b.Close(); err != lost || closed < 1 || closed != int64(1+len(s.asked)) { //nolint:errorlint // the same
		t.Errorf("got %v; the connection was closed after %d of %d requests", err, closed, 1+len(s.asked))
	}
}

// TestTaskOfARun: a run is continued with all that was written before its task, from every page. Where that cannot be read, where the run is short, or where it stands for nothing, it is not.
func TestTaskOfARun(t *testing.T) {
	long := func(last entry) []entry {
		writes := []entry{written("w 0", "")}
		for i := 1; i < longEvents; i++ {
			writes = append(writes, written(fmt.Sprint("w ", i), fmt.Sprint("w ", i-1)))
		}
		return append(writes, last)
	}
	before := fmt.Sprint("w ", longEvents-1)
	other := written("last", before)
	other.Name = "other"
	large := written("w 1", "w 0")
	large.State = make([]byte, longBytes)
	for what, c := range map[string]struct {
		writes    []entry
		missing   int // events of the last page
		commands  int
		responded bool
	}{
		"a long one":                 {long(written("last", before)), 0, 1, true},
		"one with a large write":     {[]entry{written("w 0", ""), large}, 0, 1, true},
		"a short one":                {long(written("last", before))[:longEvents-1], 0, 0, true},
		"one of a forgotten record":  {long(forgotten("last", before)), 0, 0, true},
		"one of another name":        {long(other), 0, 0, true},
		"one whose end is not there": {long(written("last", before)), 1, 0, false},
	} {
		whole := historyOf(t, "run", "", c.writes...)
		half := len(whole.Events) / 2
		var response *workflowservice.RespondWorkflowTaskCompletedRequest
		b := service(func(request any) (proto.Message, error) {
			switch r := request.(type) {
			case *workflowservice.PollWorkflowTaskQueueRequest:
				if r.GetNamespace() != "space" || r.GetTaskQueue().GetName() != "soloist:n" {
					t.Errorf("%s: asked for a task by %v", what, r)
				}
				return &workflowservice.PollWorkflowTaskQueueResponse{
					TaskToken: []byte("task"), StartedEventId: int64(len(whole.Events)), History: &history.History{Events: whole.Events[:half]}, NextPageToken: []byte("more"),
					WorkflowExecution: &common.WorkflowExecution{WorkflowId: "soloist:n", RunId: "run"},
				}, nil
			case *workflowservice.GetWorkflowExecutionHistoryRequest:
				if r.GetExecution().GetRunId() != "run" || string(r.GetNextPageToken()) != "more" {
					t.Errorf("%s: read %v", what, r)
				}
				return reply(&history.History{Events: whole.Events[half : len(whole.Events)-c.missing]})
			case *workflowservice.RespondWorkflowTaskCompletedRequest:
				response = r
				return &workflowservice.RespondWorkflowTaskCompletedResponse{}, nil
			}
			return noReply(request)
		}).backend()
		err := b.continueAsNew(t.Context(), "n")
		if c.responded && (string(response.GetTaskToken()) != "task" || response.GetNamespace() != "space") {
			t.Errorf("%s: the response is %v", what, response)
		}
		if (err == nil) != c.responded || (response != nil) != c.responded || len(response.GetCommands()) != c.commands {
			t.Errorf("%s: got %v and the response %v", what, err, response)
			continue
		}
		for _, command := range response.GetCommands() {
			next := command.GetContinueAsNewWorkflowExecutionCommandAttributes()
			e, err := parse(next.GetInput())
			if command.GetCommandType() != enums.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION {
				t.Errorf("%s: the command is %v", what, command)
			}
			if err != nil || e.Version != c.writes[len(c.writes)-1].Version || next.GetWorkflowType().GetName() != "soloist" || next.GetTaskQueue().GetName() != "soloist:n" || next.GetWorkflowTaskTimeout().AsDuration() != taskTimeout {
				t.Errorf("%s: continued by %v, %v", what, next, err)
			}
		}
	}
}

// TestEntriesOfOthers: what is no write of a store is reported as such.
func TestEntriesOfOthers(t *testing.T) {
	payload := func(encoding, text string) *common.Payload {
		return &common.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(text)}
	}
	const good, deletion = `{"name":"n","version":"v","granted_at":"2026-01-02T03:04:05Z"}`, `{"name":"n","version":"v","replaces":"u","deleted":true}`
	for _, text := range []string{good, deletion} {
		if e, err := parse(&common.Payloads{Payloads: []*common.Payload{payload(encoding, text)}}); err != nil || e.Version != "v" {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for what, payloads := range map[string][]*common.Payload{
		"nothing":                   nil,
		"two payloads":              {payload(encoding, good), payload(encoding, good)},
		"another encoding":          {payload("binary/encrypted", good)},
		"something behind it":       {payload(encoding, good+good)},
		"no version":                {payload(encoding, strings.Replace(good, `"v"`, `""`, 1))},
		"no version, replacing one": {payload(encoding, strings.Replace(deletion, `"v"`, `""`, 1))},
		"a version of its own":      {payload(encoding, strings.Replace(deletion, `"u"`, `"v"`, 1))},
		"no granted_at":             {payload(encoding, `{"name":"n","version":"v"}`)},
		"a field that is not known": {payload(encoding, strings.Replace(good, `"name"`, `"owner":"x","name"`, 1))},
	} {
		if e, err := parse(&common.Payloads{Payloads: payloads}); err == nil {
			t.Errorf("%s: %+v, want an error", what, e)
		}
	}
	forget := time.Unix(9, 0).In(time.FixedZone("east", 3600))
	r := casstore.Record{
		Holder: "h", Token: 7, Mark: 3, State: []byte("s"), TTL: time.Minute, Released: true, Unsure: true, Write: "w", Granted: granted.In(forget.Location()), Forget: forget,
	}
	e, err := parse(inputOf(t, entryOf(casstore.Change{Name: "n", Version: "v", Record: &r})))
	if err != nil || e.Name != "n" || e.Replaces != "v" || fmt.Sprint(e.Granted, e.Forget) != fmt.Sprint(granted, forget.UTC()) {
		t.Fatalf("got %+v, %v", e, err)
	}
	if got := e.record(); got.Holder != "h" || got.Token != 7 || got.Mark != 3 || string(got.State) != "s" || got.TTL != time.Minute || !got.Released || !got.Unsure || got.Write != "w" || !got.Granted.Equal(granted) || !got.Forget.Equal(forget) {
		t.Errorf("got %+v, want %+v", got, r)
	}
}
