package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// An event is one line of a replica's history. Its instants are fleet.Now, on the clock that all processes of the host
// share. What takes time is told twice: before it begins, as an outcome that nobody knows, and with the same ID when it
// has ended. So what a killed process was at is known, too.
type event struct {
	proof.Event
	ID    int64  `json:"id,omitempty"` // of what is told twice; unique within a replica
	Err   string `json:"err,omitempty"`
	Count int    `json:"count,omitempty"` // of a sweep: how many records the store forgot
}

// The kinds of events that are for the figures, beside those of package proof.
const (
	kindReady   proof.Kind = "ready"
	kindTrouble proof.Kind = "trouble" // an error that the client told its user
	kindBye     proof.Kind = "bye"
)

// A recorder writes the history of one replica, a line of JSON for each event. It is safe for use by many goroutines at
// once.
type recorder struct {
	ids atomic.Int64

	mu  sync.Mutex
	buf *bufio.Writer
	to  *json.Encoder
}

func newRecorder(to io.Writer) *recorder {
	buf := bufio.NewWriterSize(to, 64<<10)
	return &recorder{buf: buf, to: json.NewEncoder(buf)}
}

// tell writes events; what is only buffered is written with the next that are not, or a moment later. When nobody reads
// any more, the process is about to be ended.
func (r *recorder) tell(buffered bool, events ...event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		_ = r.to.Encode(e)
	}
	if !buffered {
		_ = r.buf.Flush()
	}
}

// flushing writes what is buffered every so often, until the function that it answers is called.
func (r *recorder) flushing() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		for {
			r.tell(false)
			select {
			case <-ticks.C:
			case <-end:
				r.tell(false)
				return
			}
		}
	}()
	return func() { close(end); <-done }
}

// begin reports what is about to be asked for, and returns the events to be ended.
func (r *recorder) begin(events []event) []event {
	for i := range events {
		events[i].ID = r.ids.Add(1)
		events[i].Result, events[i].Until = proof.Unknown, proof.Never
		events[i].At = fleet.Now()
	}
	r.tell(false, events...)
	for i := range events { // as late as can be: telling took time
		events[i].At = max(events[i].At, fleet.Now())
	}
	return events
}

// end records what became of the events.
func (r *recorder) end(events []event) {
	until := fleet.Now()
	for i := range events {
		if events[i].Until = until; events[i].Result == proof.Unknown {
			events[i].Until = proof.Never
		}
	}
	r.tell(true, events...)
}

func (e *event) failed(err error) {
	if e.Result = proof.ResultOf(err); e.Result == proof.Unknown || e.Result == proof.Failed {
		e.Err = brief(err)
	}
}

// brief is what a history keeps of an error: a server can say much.
func brief(err error) string {
	const most = 1000
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

func claiming(c store.Claim) event { return event{Event: proof.Claimed(c)} }

// claimed completes the event of a claim with its outcome.
func (e *event) claimed(out store.Outcome) {
	if e.Answer(out); e.Result == proof.Unknown || e.Result == proof.Failed {
		e.Err = brief(out.Err)
	}
}

func extending(x store.Extension) event { return event{Event: proof.Extended(x)} }

func releasing(x store.Release) event { return event{Event: proof.Released(x)} }

func (e *event) answered(err error) { e.failed(err) }

func (r *recorder) fault(f Fault) {
	r.tell(true, event{Event: proof.Event{Kind: proof.Fault, Fault: string(f), At: fleet.Now()}})
}

func (r *recorder) say(kind proof.Kind) {
	r.tell(false, event{Event: proof.Event{Kind: kind, At: fleet.Now()}})
}

// troubled reports what the client told its user, unless it is that somebody else has the name or has done the work.
func (r *recorder) troubled(err error) {
	if result := proof.ResultOf(err); err != nil && result != proof.Held && result != proof.Done {
		r.tell(true, event{Event: proof.Event{Kind: kindTrouble, Result: result, At: fleet.Now()}, Err: brief(err)})
	}
}

// running records that a run begins. Since is when its lease was seen to be held: a process may be paused at any instant
// after that.
func (r *recorder) running(run soloist.Run, since time.Duration) []event {
	e := event{ID: r.ids.Add(1), Event: proof.Event{
		Kind: proof.Run, Name: run.Job, Token: run.Lease.Token(), Mark: run.ScheduledAt.UnixMilli(), Attempt: run.Attempt, Manual: run.Manual,
		At: since, Until: proof.Never, Result: proof.Unknown,
	}}
	r.tell(false, e)
	return []event{e}
}

// ran records how it ended, before it is recorded in the store.
func (r *recorder) ran(run []event, err error) {
	if run[0].Result = proof.Okay; err != nil {
		run[0].Result = proof.Failed
	}
	run[0].Until = fleet.Now()
	r.tell(false, run...)
}

// processing records that an element is begun. Since is as in running.
func (r *recorder) processing(name string, el *soloist.Element, since time.Duration) {
	r.tell(true, event{Event: proof.Event{Kind: proof.Element, Name: name, Holder: el.Holder(), Token: el.Token(), Attempt: el.Attempt(), At: since}})
}

// swept lets a store forget what it may, and records that. What was not answered may still be carried out later.
func (r *recorder) swept(ctx context.Context, s store.Sweeper, limit int) (int, error) {
	events := r.begin([]event{{Event: proof.Event{Kind: proof.Swept}}})
	n, err := s.Sweep(ctx, limit)
	if events[0].Count = n; err == nil {
		events[0].Result = proof.Okay
	}
	r.end(events)
	return n, err
}

// A belief is a replica's that it holds something.
type belief struct {
	rec  *recorder
	e    event
	told time.Duration
}

// tellEvery is how often a belief that lasts is told: what a killed replica believed at last is lost.
const tellEvery = 20 * time.Millisecond

func (r *recorder) belief(what string, limit int, holder string, token int64) *belief {
	return &belief{rec: r, e: event{ID: r.ids.Add(1), Event: proof.Event{Kind: proof.Belief, Name: what, Holder: holder, Token: token, Limit: limit}}}
}

// look asks the lease, and notes that it was held at an instant that is surely before the answer. A lease that is held
// now was held at every instant since its grant.
func (b *belief) look(lease interface{ Err() error }) bool {
	now := fleet.Now()
	if lease.Err() != nil {
		return false
	}
	b.held(now)
	return true
}

func (b *belief) held(now time.Duration) {
	if b.e.At == 0 {
		b.e.At = now
	}
	b.e.Until = now
	if now-b.told > tellEvery {
		b.told = now
		b.rec.tell(true, b.e)
	}
}

func (b *belief) end() {
	if b.e.At != 0 && b.told != b.e.Until {
		b.rec.tell(true, b.e)
	}
}
