package temporalstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.temporal.io/api/serviceerror"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/temporalstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// through returns a client whose requests go through a function, with the last part of their method's name.
func through(t testing.TB, server *servers.TemporalServer, f func(method string, send func() error) error) peer {
	t.Helper()
	return connect(t, server, grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			return f(method[strings.LastIndexByte(method, '/')+1:], func() error { return invoke(ctx, method, request, reply, conn, options...) })
		}))
}

func writes(method string) bool {
	return method == "StartWorkflowExecution" || method == "SignalWorkflowExecution" || method == "TerminateWorkflowExecution"
}

var errLost = status.Error(codes.Unavailable, "the connection broke")

// TestLostReplies: a request whose reply was lost is unknown, and repeating it settles it.
func TestLostReplies(t *testing.T) {
	var n atomic.Int64
	c, cfg := shared(t), fresh()
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if err := send(); err != nil || !writes(method) || n.Add(1)%2 == 0 {
			return err
		}
		return errLost
	}), cfg)
	for i := range 20 {
		name := fmt.Sprint("name/", i%3)
		holder := fmt.Sprint(i)
		first := acquire(t, s, name, holder, time.Hour)
		if first.Err != nil && !errors.Is(first.Err, store.ErrUnknown) {
			t.Fatalf("got %v, want a grant or unknown", first.Err)
		}
		again := acquire(t, s, name, holder, time.Hour)
		if again.Err != nil || first.Err == nil && again.Grant.Token != first.Grant.Token {
			t.Fatalf("asking again: %+v, after %+v", again, first)
		}
		r := []store.Release{{Name: name, Holder: holder, Token: again.Grant.Token, Retain: store.Forever}}
		for attempt := 0; ; attempt++ {
			errs, err := s.Release(background, r)
			if err = errors.Join(append(errs, err)...); err == nil {
				break
			} else if !errors.Is(err, store.ErrUnknown) || attempt == 3 {
				t.Fatal(err)
			}
		}
	}
}

// TestRepeatedRequests: a request that is carried out twice has one effect.
func TestRepeatedRequests(t *testing.T) {
	c, cfg := shared(t), fresh()
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if writes(method) {
			_ = send()
		}
		return send()
	}), cfg)
	last := int64(0)
	for i := range 5 {
		holder := fmt.Sprint(i)
		token := grant(t, s, "name", holder, time.Hour)
		if err := extend(t, s, "name", holder, token); err != nil || token <= last {
			t.Errorf("token %d after %d, %v", token, last, err)
		}
		last = token
		release(t, s, "name", holder, token, 0)
		if _, err := s.Sweep(background, 10); err != nil {
			t.Error(err)
		}
	}
}

// TestLateWrites: a write that reaches Temporal when its holder has long given it up does not undo what others have written since.
func TestLateWrites(t *testing.T) {
	c, cfg := shared(t), fresh()
	var late func() error
	var mu sync.Mutex
	held := true
	a := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		mu.Lock()
		defer mu.Unlock()
		if method == "SignalWorkflowExecution" && held {
			late, held = send, false
			return errLost
		}
		return send()
	}), cfg)
	token := grant(t, a, "name", "a", time.Hour)
	if err := extend(t, a, "name", "a", token); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("got %v, want unknown", err)
	}
	b := on(t, c, cfg)
	release(t, b, "name", "a", token, store.Forever)
	taken := grant(t, b, "name", "b", time.Hour)
	if err := late(); err != nil {
		t.Logf("the late write: %v", err) // its context has ended
	}
	if err := extend(t, b, "name", "b", taken); err != nil {
		t.Errorf("the holder lost its lease to a write that was late: %v", err)
	}
	if err := extend(t, a, "name", "a", token); !errors.Is(err, store.ErrLost) {
		t.Errorf("got %v, want that the lease was lost", err)
	}
}

// TestWhatErrorsMean: an error tells whether something may have been written, and what to do.
func TestWhatErrorsMean(t *testing.T) {
	c := shared(t)
	for _, test := range []struct {
		rule, method string
		err          error
		is, isNot    error
		says         string
	}{
		{"the write is not valid", "StartWorkflowExecution", status.Error(codes.InvalidArgument, "too long"), nil, store.ErrUnknown, "too long"},
		{"the write is not allowed", "StartWorkflowExecution", status.Error(codes.PermissionDenied, "no"), fs.ErrPermission, store.ErrUnknown, "role writer"},
		{"the key is wrong", "GetWorkflowExecutionHistory", status.Error(codes.Unauthenticated, "no"), fs.ErrPermission, store.ErrUnknown, "API key"},
		{"there is too much", "StartWorkflowExecution", status.Error(codes.ResourceExhausted, "too much"), store.ErrUnknown, nil, "raise the limit"},
		{"the write failed inside", "StartWorkflowExecution", status.Error(codes.Internal, "no"), store.ErrUnknown, nil, ""},
		{"the connection broke", "StartWorkflowExecution", errLost, store.ErrUnknown, nil, ""},
		{"the read failed", "GetWorkflowExecutionHistory", errLost, nil, store.ErrUnknown, ""},
		{"no such namespace", "GetWorkflowExecutionHistory", serviceerror.NewNamespaceNotFound("default"), store.ErrUnusable, store.ErrUnknown, "temporal operator namespace create"},
	} {
		t.Run(test.rule, func(t *testing.T) {
			s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
				if method == test.method {
					return test.err
				}
				return send()
			}), fresh())
			err := acquire(t, s, "name", "a", time.Hour).Err
			if err == nil || test.is != nil && !errors.Is(err, test.is) || test.isNot != nil && errors.Is(err, test.isNot) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error that is %v and not %v, and says %q", err, test.is, test.isNot, test.says)
			}
		})
	}
}

// TestEndedExecutions: an execution that a person has ended is not taken for a free name. Once it is deleted, it is one.
func TestEndedExecutions(t *testing.T) {
	c, cfg := shared(t), fresh()
	s := on(t, c, cfg)
	token := grant(t, s, "name", "a", time.Hour)
	c.terminate(t, cfg.Prefix+":name")
	for what, err := range map[string]error{"a claim": acquire(t, on(t, c, cfg), "name", "b", time.Hour).Err, "an extension": extend(t, s, "name", "a", token)} {
		if err == nil || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), "terminated by something else") {
			t.Errorf("%s: %v, want an error that says so", what, err)
		}
	}
}

// terminate ends an execution as a person does.
func (c peer) terminate(t testing.TB, id string) {
	t.Helper()
	if _, err := c.WorkflowService().TerminateWorkflowExecution(background, &workflowservice.TerminateWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &common.WorkflowExecution{WorkflowId: id},
	}); err != nil {
		t.Fatal(err)
	}
}

// TestRememberedAbsence: a process that has once seen that there is no record does not take a name that a person has freed since by ending its execution.
func TestRememberedAbsence(t *testing.T) {
	c, cfg := shared(t), fresh()
	s := on(t, c, cfg)
	if _, err := s.Acquire(background, []store.Claim{{Name: "name", Holder: "a", TTL: time.Hour, Mark: -1}}); err != nil { // reads it
		t.Fatal(err)
	}
	token := grant(t, on(t, c, cfg), "name", "b", time.Hour)
	c.terminate(t, cfg.Prefix+":name")
	if outcome := acquire(t, s, "name", "a", time.Hour); outcome.Err == nil || !strings.Contains(outcome.Err.Error(), "terminated by something else") {
		t.Errorf("got token %d after %d, %v, want an error that says that something else has ended the execution", outcome.Grant.Token, token, outcome.Err)
	}
}

// TestLostHistory: a history that Temporal has lost is an error of its name, and of no other of the same request, list or sweep.
func TestLostHistory(t *testing.T) {
	c, cfg := shared(t), fresh()
	long := strings.Repeat("ö", 120) // its ID does not have the whole of it, so that a list reads the name, too
	var lost atomic.Bool
	proxied := connect(t, c.TemporalServer, grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			r, ok := request.(*workflowservice.GetWorkflowExecutionHistoryRequest)
			if id := r.GetExecution().GetWorkflowId(); ok && lost.Load() && (id == cfg.Prefix+":bad" || strings.HasPrefix(id, cfg.Prefix+":%c3%b6")) {
				return serviceerror.ToStatus(serviceerror.NewDataLoss("corrupted history event batch")).Err()
			}
			return invoke(ctx, method, request, reply, conn, options...)
		}))
	before := on(t, c, cfg)
	for _, name := range []string{"bad", "good", long} {
		release(t, before, name, "a", grant(t, before, name, "a", time.Hour), store.Forever)
	}
	servers.Wait(t, "all executions to be listed", func() bool { // Temporal lists one a moment after its start
		found := 0
		for _, err := range before.List(background, "") {
			if err != nil {
				t.Fatal(err)
			}
			found++
		}
		return found == 3
	})
	s := on(t, proxied, cfg) // which remembers nothing
	lost.Store(true)

	outs, err := s.Acquire(background, []store.Claim{{Name: "bad", Holder: "b", TTL: time.Hour, Mark: 1}, {Name: "good", Holder: "b", TTL: time.Hour, Mark: 1}})
	if err != nil || len(outs) != 2 {
		t.Fatalf("got %+v, %v, want two outcomes", outs, err)
	}
	if err := outs[0].Err; err == nil || !strings.Contains(err.Error(), "cannot read the history") {
		t.Errorf("the name whose history is lost: %v, want an error that says so", err)
	}
	if outs[1].Err != nil {
		t.Errorf("another name of the request: %v", outs[1].Err)
	}

	var told, found int
	for r, err := range s.List(background, "") {
		switch {
		case r.Name == "good" && err == nil:
			found++
		case err != nil && strings.Contains(err.Error(), "cannot read the history"):
			told++
		default:
			t.Errorf("the list has %+v, %v", r, err)
		}
	}
	if found != 1 || told == 0 {
		t.Errorf("the list has the good name %d times and tells %d lost histories", found, told)
	}

	gone := grant(t, before, "swept", "a", time.Hour)
	release(t, before, "swept", "a", gone, 0)
	forgotten := 0
	servers.Wait(t, "the sweep of a name beside lost histories", func() bool {
		n, err := s.Sweep(background, 100)
		if err != nil && !strings.Contains(err.Error(), "cannot read the history") {
			t.Fatal(err)
		}
		forgotten += n
		return forgotten > 0
	})
}

// TestThrottledList: Temporal takes few requests for lists a second. What it refuses is asked again.
func TestThrottledList(t *testing.T) {
	c, cfg := shared(t), fresh()
	var n atomic.Int64
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if strings.HasPrefix(method, "List") && n.Add(1) <= 2 {
			return status.Error(codes.ResourceExhausted, "namespace rate limit exceeded")
		}
		return send()
	}), cfg)
	grant(t, s, "name", "a", time.Hour)
	found := 0
	for _, err := range s.List(background, "") {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	if found != 1 || n.Load() < 3 {
		t.Errorf("found %d names in %d requests, want one in three", found, n.Load())
	}
}

// TestServerWithoutQueries: a list of a server that takes no queries has each name once, on however many pages.
func TestServerWithoutQueries(t *testing.T) {
	c, cfg := shared(t), fresh()
	const names, size = 5, 2
	var pages atomic.Int64
	s := on(t, connect(t, c.TemporalServer, grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			switch r := request.(type) {
			case *workflowservice.ListWorkflowExecutionsRequest:
				return status.Error(codes.Unimplemented, "no queries")
			case *workflowservice.ListOpenWorkflowExecutionsRequest:
				if pages.Add(1) > names {
					return status.Error(codes.InvalidArgument, "pages without an end")
				}
				from, _ := strconv.Atoi(string(r.NextPageToken)) // the test server itself has one page only
				r.NextPageToken = nil
				err := invoke(ctx, method, request, reply, conn, options...)
				page := reply.(*workflowservice.ListOpenWorkflowExecutionsResponse)
				page.Executions = slices.DeleteFunc(page.GetExecutions(), func(e *workflow.WorkflowExecutionInfo) bool { // nor does it look at the filter
					return !strings.HasPrefix(e.GetExecution().GetWorkflowId(), cfg.Prefix+":")
				})
				slices.SortFunc(page.Executions, func(a, b *workflow.WorkflowExecutionInfo) int {
					return strings.Compare(a.GetExecution().GetWorkflowId(), b.GetExecution().GetWorkflowId())
				})
				if to := from + size; to < len(page.Executions) {
					page.Executions, page.NextPageToken = page.Executions[from:to], []byte(strconv.Itoa(to))
				} else {
					page.Executions = page.Executions[from:]
				}
				return err
			}
			return invoke(ctx, method, request, reply, conn, options...)
		})), cfg)
	var want []string
	for i := range names {
		want = append(want, fmt.Sprint("name/", i))
		grant(t, s, want[i], "a", time.Hour)
	}
	servers.Wait(t, "all names in the list", func() bool {
		pages.Store(0)
		var found []string
		for r, err := range s.List(background, "") {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, r.Name)
		}
		return slices.Equal(found, want)
	})
	if want := int64(names/size + 1); pages.Load() != want {
		t.Errorf("the list has come on %d pages, want %d", pages.Load(), want)
	}
}

// TestSweepGoesPastWhatCannotBeEnded: an execution of a forgotten name that cannot be terminated keeps no other name from being forgotten, and is named by each sweep.
func TestSweepGoesPastWhatCannotBeEnded(t *testing.T) {
	c, cfg := shared(t), fresh()
	s := on(t, connect(t, c.TemporalServer, grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			if r, ok := request.(*workflowservice.TerminateWorkflowExecutionRequest); ok && strings.HasSuffix(r.WorkflowExecution.WorkflowId, "stays") {
				return status.Error(codes.PermissionDenied, "not this one")
			}
			return invoke(ctx, method, request, reply, conn, options...)
		})), cfg)
	used := func(name string) { release(t, s, name, "a", grant(t, s, name, "a", time.Hour), 0) }
	used("stays")
	forgotten, told := 0, false
	sweepUntil := func(done func() bool) {
		t.Helper()
		for begun := time.Now(); !done(); time.Sleep(10 * time.Millisecond) { // names are listed some time after they are made
			n, err := s.Sweep(background, 100)
			forgotten += n
			if err != nil {
				if told = true; !strings.Contains(err.Error(), "stays") || !strings.Contains(err.Error(), "not this one") {
					t.Fatalf("%v; want an error that names what stays, and why", err)
				}
			}
			if time.Since(begun) > servers.Patience {
				t.Fatalf("%d names are forgotten after %v; the last error: %v", forgotten, servers.Patience, err)
			}
		}
	}
	sweepUntil(func() bool { return forgotten == 1 && told })
	used("one")
	used("two")
	sweepUntil(func() bool { return forgotten == 3 })
}

// TestLateList: Temporal lists an execution some time after its start. A list of the whole name has its record all the same.
func TestLateList(t *testing.T) {
	c := shared(t)
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if strings.HasPrefix(method, "List") {
			return nil // an empty list
		}
		return send()
	}), fresh())
	grant(t, s, "name", "a", time.Hour)
	for prefix, want := range map[string]int{"name": 1, "nam": 0, "": 0, "name/other": 0} {
		found := 0
		for r, err := range s.List(background, prefix) {
			if err != nil || r.Name != "name" || r.Holder != "a" {
				t.Errorf("a list of %q yields %+v, %v", prefix, r, err)
			}
			found++
		}
		if found != want {
			t.Errorf("a list of %q yields %d records, want %d", prefix, found, want)
		}
	}
}

// TestBusyRun: Temporal refuses writes while a run is being continued as new. They are sent again.
func TestBusyRun(t *testing.T) {
	c, cfg := shared(t), fresh()
	var n atomic.Int64
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if method == "SignalWorkflowExecution" && n.Add(1) <= 2 {
			return serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "workflow is closing")
		}
		return send()
	}), cfg)
	token := grant(t, s, "name", "a", time.Hour)
	if err := extend(t, s, "name", "a", token); err != nil || n.Load() != 3 {
		t.Errorf("got %v after %d requests, want success after three", err, n.Load())
	}
}

// TestOtherSignals: signals of other names have no meaning.
func TestOtherSignals(t *testing.T) {
	c, cfg := shared(t), fresh()
	s := on(t, c, cfg)
	token := grant(t, s, "name", "a", time.Hour)
	c.signal(t, cfg.Prefix+":name", "hello", `"there"`)
	if err := extend(t, s, "name", "a", token); err != nil {
		t.Error(err)
	}
}

// TestPausedServer: what is asked of a server that is paused is unknown at the deadline, and settled when it goes on. A holder keeps its lease.
func TestPausedServer(t *testing.T) {
	server := servers.Temporal(t)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	s := on(t, through(t, server, func(method string, send func() error) error {
		if method == "SignalWorkflowExecution" {
			time.AfterFunc(10*time.Millisecond, cancel) // it has begun
		}
		return send()
	}), fresh())
	token := grant(t, s, "name", "a", time.Hour)
	server.Pause()
	errs, err := s.Extend(ctx, []store.Extension{{Name: "name", Holder: "a", Token: token, TTL: time.Hour}})
	if err = errors.Join(append(errs, err)...); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want unknown", err)
	}
	server.Resume()
	if err := extend(t, s, "name", "a", token); err != nil {
		t.Error(err)
	}
}

// TestKilledServer: while the server is down nothing is granted or extended, and the errors say so. The test server forgets everything when it ends.
func TestKilledServer(t *testing.T) {
	server := servers.Temporal(t)
	s := on(t, connect(t, server), fresh())
	token := grant(t, s, "name", "a", time.Hour)
	server.Kill()
	if err := acquire(t, s, "other", "b", time.Hour).Err; err == nil {
		t.Error("granted without a server")
	}
	if err := extend(t, s, "name", "a", token); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want unknown", err)
	}
	server.Start()
	servers.Wait(t, "a connection", func() bool { return s.Ping(background) == nil })
	if err := extend(t, s, "name", "a", token); !errors.Is(err, store.ErrLost) {
		t.Errorf("got %v, want that the lease is lost", err)
	}
}

// TestRequests counts what each verb costs.
func TestRequests(t *testing.T) {
	var n atomic.Int64
	c, cfg := shared(t), fresh()
	s := on(t, through(t, c.TemporalServer, func(_ string, send func() error) error { n.Add(1); return send() }), cfg)
	count := func(what string, want int64, f func()) {
		t.Helper()
		n.Store(0)
		if f(); n.Load() != want {
			t.Errorf("%s took %d requests, want %d", what, n.Load(), want)
		}
	}
	var token int64
	count("acquiring a new name", 3, func() { token = grant(t, s, "name", "a", time.Hour) }) // one reads the floor of tokens
	count("extending", 2, func() { _ = extend(t, s, "name", "a", token) })
	count("a refusal", 1, func() { _ = acquire(t, s, "name", "b", time.Hour) })
	count("releasing", 2, func() { release(t, s, "name", "a", token, store.Forever) })
	count("acquiring what this process released", 2, func() { _ = grant(t, s, "name", "b", time.Hour) })
}

var _ temporalstore.Client = peer{}
