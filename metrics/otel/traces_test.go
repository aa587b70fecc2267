package oteltraces_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/soloist-dev/soloist"
	oteltraces "github.com/soloist-dev/soloist/metrics/otel"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store/memstore"
)

var background = context.Background()

// A traced is a client whose spans are kept.
type traced struct {
	*soloist.Client
	store *soloisttest.Store
	spans *tracetest.InMemoryExporter
	sdk   *sdk.TracerProvider
}

func watch(t *testing.T) traced {
	t.Helper()
	w := traced{store: soloisttest.NewStore(), spans: tracetest.NewInMemoryExporter()}
	w.sdk = sdk.NewTracerProvider(sdk.WithSyncer(w.spans))
	t.Cleanup(func() { _ = w.sdk.Shutdown(background) })
	traces := oteltraces.New(w.sdk)
	w.Client = soloisttest.NewReplica(t, w.store, soloist.Config{Observe: traces.Observe, Middleware: []soloist.Middleware{traces.Middleware}})
	return w
}

// begin begins a span of the caller.
func (w traced) begin() (context.Context, trace.Span) {
	return w.sdk.Tracer("test").Start(background, "caller")
}

// named returns the spans of a name that have ended, in the order of their ends.
func (w traced) named(name string) []tracetest.SpanStub {
	synctest.Wait() // a context ends before its event
	var found []tracetest.SpanStub
	for _, s := range w.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// one returns the only span of a name.
func (w traced) one(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	found := w.named(name)
	if len(found) != 1 {
		t.Fatalf("%d spans are named %q, want one of %d", len(found), name, len(w.spans.GetSpans()))
	}
	return found[0]
}

// value returns an attribute of a span as text, "" if it has none.
func value(s tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// want compares some attributes of a span.
func want(t *testing.T, s tracetest.SpanStub, attrs map[attribute.Key]string) {
	t.Helper()
	got := map[attribute.Key]string{}
	for key := range attrs {
		got[key] = value(s, key)
	}
	if !maps.Equal(got, attrs) {
		t.Errorf("%s has %v, want %v; all: %v", s.Name, got, attrs, s.Attributes)
	}
}

// Each attempt at a run is a span, which the spans of the function are in.
func TestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		due := time.Now().Add(time.Minute).UTC()
		ctx, stop := context.WithCancel(background)
		var tokens []string
		err := w.Run(ctx, soloist.Job{
			Name: "import", Schedule: soloist.At(due), Retry: soloist.Retry{Attempts: 3, Backoff: time.Second},
			Do: func(ctx context.Context, run soloist.Run) error {
				_, inner := w.sdk.Tracer("test").Start(ctx, "inner")
				inner.End()
				time.Sleep(10 * time.Second)
				tokens = append(tokens, attribute.Int64Value(run.Lease.Token()).String())
				switch run.Attempt {
				case 1:
					return errors.New("not yet")
				case 2:
					panic("not yet")
				}
				stop()
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		runs, inner := w.named("run job"), w.named("inner")
		if len(runs) != 3 || len(inner) != 3 {
			t.Fatalf("%d spans of runs, %d of the function, want 3 each", len(runs), len(inner))
		}
		for i, outcome := range []string{soloist.OutcomeFailed, soloist.OutcomePanicked, soloist.OutcomeOK} {
			want(t, runs[i], map[attribute.Key]string{
				"soloist.kind": "job", "soloist.name": "import", "soloist.token": tokens[i], "soloist.attempt": []string{"1", "2", "3"}[i],
				"soloist.outcome": outcome, "soloist.scheduled_at": due.Format(time.RFC3339Nano), "soloist.manual": "false",
			})
			if took := runs[i].EndTime.Sub(runs[i].StartTime); took != 10*time.Second {
				t.Errorf("attempt %d took %v", i+1, took)
			}
			if failed := runs[i].Status.Code == codes.Error; failed != (outcome != soloist.OutcomeOK) {
				t.Errorf("attempt %d has the status %v", i+1, runs[i].Status)
			}
			if inner[i].Parent.SpanID() != runs[i].SpanContext.SpanID() {
				t.Errorf("the span of the function is not in that of attempt %d", i+1)
			}
		}
		if runs[0].Status.Description != "not yet" {
			t.Errorf("the status of a failed attempt is %v", runs[0].Status)
		}
	})
}

// A call that waits, the lease that it gets and the function under it are spans of the caller's trace.
func TestHoldIsInTheTraceOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		first, err := soloisttest.NewReplica(t, w.store, soloist.Config{}).Lock(background, "close-month")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() { _ = first.Release() })
		ctx, caller := w.begin()
		var token string
		err = w.With(soloist.Options{Wait: 2 * time.Hour}).Do(ctx, "close-month", func(_ context.Context, l *soloist.Lease) error {
			time.Sleep(time.Minute)
			token = attribute.Int64Value(l.Token()).String()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		caller.End()
		lock := map[attribute.Key]string{"soloist.kind": "lock", "soloist.name": "close-month", "soloist.token": token}
		for name, least := range map[string]time.Duration{"acquire lock": time.Hour, "hold lock": time.Minute, "run lock": time.Minute} {
			s := w.one(t, name)
			want(t, s, lock)
			if took := s.EndTime.Sub(s.StartTime); took < least || took > least+time.Minute {
				t.Errorf("%s took %v, want %v", name, took, least)
			}
			if s.Parent.SpanID() != caller.SpanContext().SpanID() {
				t.Errorf("%s is not in the span of the caller", name)
			}
		}
		if len(w.named("store acquire"))+len(w.named("store queue")) == 0 {
			t.Error("no request to the store has a span")
		}
	})
}

// A lease without a function has a span, too: one, however it ends.
func TestHoldEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		l, err := w.Lock(background, "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		soloisttest.LoseLease(t, w.store, l)
		_ = l.Release()
		_ = l.Release()
		s := w.one(t, "hold lock")
		want(t, s, map[attribute.Key]string{"soloist.name": "a", "soloist.outcome": "lost: gone"})
		if s.Status.Code != codes.Error {
			t.Errorf("the status of a lost lease is %v", s.Status)
		}
		permit, err := w.Semaphore("pdf", 1).Acquire(background)
		if err != nil {
			t.Fatal(err)
		}
		if err := permit.Release(); err != nil {
			t.Fatal(err)
		}
		want(t, w.one(t, "hold permit"), map[attribute.Key]string{"soloist.parent": "pdf", "soloist.outcome": "released"})
	})
}

// A call that gets nothing is a span with the reason. Only a store that fails is an error.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		other := soloisttest.NewReplica(t, w.store.Share(), soloist.Config{Replica: "other"})
		if _, err := other.Lock(background, "x"); err != nil {
			t.Fatal(err)
		}
		ok := func(context.Context, *soloist.Lease) error { return nil }
		element := func(context.Context, *soloist.Element) error { return nil }
		_ = w.Do(background, "x", ok)
		elements := w.Elements("invoices", soloist.ElementsOptions{})
		_ = elements.Process(background, "1", element)
		_ = elements.Process(background, "1", element)
		w.store.Stall()
		_ = w.Do(background, "y", ok)
		w.store.Heal()
		canceled, cancel := context.WithCancel(background)
		cancel()
		_ = w.With(soloist.Options{Wait: time.Minute}).Do(canceled, "z", ok)
		locks := w.named("acquire lock")
		if len(locks) != 3 {
			t.Fatalf("%d spans", len(locks))
		}
		for i, outcome := range []string{"held", "unknown", "canceled"} {
			want(t, locks[i], map[attribute.Key]string{"soloist.outcome": outcome})
			if failed := locks[i].Status.Code == codes.Error; failed != (outcome == "unknown") {
				t.Errorf("%s: the status is %v", outcome, locks[i].Status)
			}
		}
		if value(locks[0], "soloist.holder") == "" {
			t.Error("the span of a call that was refused does not have the holder")
		}
		claims := w.named("acquire element")
		if len(claims) != 2 || value(claims[1], "soloist.outcome") != "done" || value(claims[1], "soloist.parent") != "invoices" {
			t.Errorf("claims of elements: %v", claims)
		}
		if claims[1].Status.Code == codes.Error {
			t.Error("that an element is processed already is a failure")
		}
	})
}

// What nobody called for has no span besides those of runs: a replica that waits for its jobs makes none.
func TestNoSpansOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		ctx, stop := context.WithTimeout(background, time.Hour)
		defer stop()
		job := soloist.Job{Name: "import", Schedule: soloist.Every(24 * time.Hour), Do: func(context.Context, soloist.Run) error { return nil }}
		if err := w.Run(ctx, job); err != nil {
			t.Fatal(err)
		}
		for _, s := range w.spans.GetSpans() {
			if s.Name != "run job" {
				t.Errorf("a span %q: %v", s.Name, s.Attributes)
			}
		}
	})
}

// A leader's function lasts for days: its context has no span of ours, and its leadership is one that ends with it.
func TestLeaderHasNoOpenSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		led, stop := context.WithCancel(background)
		_ = w.Lead(led, "importer", func(ctx context.Context, _ *soloist.Lease) error {
			if trace.SpanContextFromContext(ctx).IsValid() {
				t.Error("the function of a leader runs in a span")
			}
			stop()
			return nil
		})
		want(t, w.one(t, "hold leader"), map[attribute.Key]string{"soloist.name": "importer"})
	})
}

// The names of spans are few: names that users choose freely are attributes alone.
func TestNamesOfSpansAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		for _, name := range []string{"a", "b", "c"} {
			_ = w.Do(background, name, func(context.Context, *soloist.Lease) error { return nil })
		}
		names := map[string]int{}
		for _, s := range w.spans.GetSpans() {
			names[s.Name]++
		}
		if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, []string{"acquire lock", "hold lock", "run lock"}) {
			t.Errorf("spans are named %q", got)
		}
	})
}

// BenchmarkRun measures what the spans of a run cost: recorded and thrown away, or not sampled.
func BenchmarkRun(b *testing.B) {
	providers := map[string]trace.TracerProvider{
		"recorded":    sdk.NewTracerProvider(sdk.WithSpanProcessor(dropped{})),
		"not-sampled": sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())),
		"noop":        noop.NewTracerProvider(),
	}
	c, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	lease, err := c.Lock(background, "import")
	if err != nil {
		b.Fatal(err)
	}
	work := soloist.Work{Subject: soloist.Subject{Kind: soloist.KindJob, Name: "import"}, Attempt: 1, ScheduledAt: time.Now().UTC(), Lease: lease}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		b.Run(name, func(b *testing.B) {
			traces := oteltraces.New(providers[name])
			run := traces.Middleware(func(context.Context, soloist.Work) error { return nil })
			b.ReportAllocs()
			for b.Loop() {
				traces.Observe(background, soloist.Event{Kind: soloist.EventGranted, Subject: work.Subject, Token: lease.Token()})
				traces.Observe(background, soloist.Event{Kind: soloist.EventRunStart, Subject: work.Subject, Attempt: 1})
				_ = run(background, work)
				traces.Observe(background, soloist.Event{Kind: soloist.EventRunEnd, Subject: work.Subject, Attempt: 1, Outcome: soloist.OutcomeOK})
				traces.Observe(background, soloist.Event{Kind: soloist.EventReleased, Subject: work.Subject, Token: lease.Token()})
			}
		})
	}
}

// dropped is a processor that does nothing with spans.
type dropped struct{}

func (dropped) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (dropped) OnEnd(sdk.ReadOnlySpan)                     {}
func (dropped) Shutdown(context.Context) error             { return nil }
func (dropped) ForceFlush(context.Context) error           { return nil }

// The span of a run that AtMost has ended is a failure, and not a loss.
func TestOverrunIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		_ = w.With(soloist.Options{AtMost: time.Minute}).Do(background, "x", func(ctx context.Context, _ *soloist.Lease) error {
			<-ctx.Done()
			return ctx.Err()
		})
		want(t, w.one(t, "run lock"), map[attribute.Key]string{"soloist.outcome": soloist.OutcomeFailed})
	})
}

// A function that ends because its client does was interrupted, whatever error it returns.
func TestInterruptionIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		_ = w.Do(background, "x", func(ctx context.Context, _ *soloist.Lease) error {
			go func() { _ = w.Close() }()
			<-ctx.Done()
			return errors.New("cut off")
		})
		want(t, w.one(t, "run lock"), map[attribute.Key]string{"soloist.outcome": soloist.OutcomeInterrupted})
	})
}
