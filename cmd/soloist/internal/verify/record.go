package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/store"
)

// An event is one line of a replica's history. Times are fleet.Now, on the clock that all processes of the host share.
type event struct {
	Kind   kind          `json:"k"`
	At     time.Duration `json:"t"`           // when it began; of a belief, when it is known to have begun
	Until  time.Duration `json:"u,omitempty"` // when it had ended; of a belief, when it was last seen to hold
	Name   string        `json:"n,omitempty"` // of the record, the belief, the resource or the element
	Holder string        `json:"h,omitempty"`
	Token  int64         `json:"c,omitempty"`
	TTL    time.Duration `json:"l,omitempty"`
	Mark   int64         `json:"m,omitempty"` // of a claim, extension or release; of a run, its scheduled time in unix ms
	Linger time.Duration `json:"g,omitempty"`
	Result result        `json:"r,omitempty"`
	Limit  int           `json:"x,omitempty"` // of a belief: how many may have it at once
	Fault  Fault         `json:"f,omitempty"`
	Err    string        `json:"e,omitempty"`

	Replica string `json:"p,omitempty"` // added by the director
}

type kind string

const (
	kindReady   kind = "ready"
	kindAcquire kind = "acquire" // a claim that reached the store, or may have
	kindExtend  kind = "extend"
	kindGiving  kind = "giving" // a release is about to be asked for
	kindRelease kind = "release"
	kindBelief  kind = "belief" // that this replica holds Name; repeated with a later Until as long as it does
	kindLook    kind = "take"   // a lock was asked for by the client, and granted
	kindStart   kind = "start"  // of a run
	kindEnd     kind = "end"    // of a run whose function has succeeded
	kindDone    kind = "done"   // an element was recorded as processed, or not
	kindProcess kind = "process"
	kindWrite   kind = "write" // to the guarded resource
	kindFault   kind = "fault"
	kindTrouble kind = "trouble" // an error that the client told its user
	kindBye     kind = "bye"
)

type result string

const (
	granted result = "granted"
	refused result = "refused" // held, or done
	okay    result = "ok"
	lost    result = "lost"
	unknown result = "unknown"
	failed  result = "failed" // surely without effect
)

func resultOf(err error) result {
	switch {
	case err == nil:
		return okay
	case errors.Is(err, store.ErrUnknown):
		return unknown
	case errors.Is(err, store.ErrLost):
		return lost
	case errors.Is(err, store.ErrHeld), errors.Is(err, store.ErrDone):
		return refused
	}
	return failed
}

// A recorder writes the history of one replica, a line of JSON for each event. What a replica that is killed has told before is
// kept, but for the last few milliseconds.
type recorder struct {
	mu  sync.Mutex
	buf *bufio.Writer
	to  *json.Encoder
}

func newRecorder(to io.Writer) *recorder {
	buf := bufio.NewWriterSize(to, 64<<10)
	return &recorder{buf: buf, to: json.NewEncoder(buf)}
}

func (*recorder) call() time.Duration { return fleet.Now() }

func (r *recorder) add(e event) {
	if e.At == 0 {
		e.At = fleet.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.to.Encode(e) // when nobody reads any more, the process is about to be ended
}

// flushing writes out what has been told so far every so often, until the function that it answers is called.
func (r *recorder) flushing() (stop func()) {
	end := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				r.flush()
			case <-end:
				r.flush()
				return
			}
		}
	}()
	return func() { close(end); <-done }
}

func (r *recorder) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.buf.Flush()
}

// asked records a call that reached the store: until nil means that nobody knows when it ended.
func (r *recorder) asked(e event, err error) {
	if e.Result == "" {
		e.Result = resultOf(err)
	}
	e.Until = fleet.Now()
	if e.Result == failed || e.Result == unknown {
		e.Err = err.Error()
	}
	r.add(e)
}

func (r *recorder) acquired(call time.Duration, c store.Claim, out store.Outcome) {
	e := event{Kind: kindAcquire, At: call, Name: c.Name, Holder: c.Holder, TTL: c.TTL, Mark: c.Mark}
	if out.Err == nil {
		e.Result, e.Token = granted, out.Grant.Token
	}
	r.asked(e, out.Err)
}

// chose records a choice that was granted. One that was refused says nothing of a single name for sure.
func (r *recorder) chose(call time.Duration, names []string, i int, c store.Claim, out store.Outcome, err error) {
	switch {
	case err != nil && resultOf(err) == unknown: // each of the names may have been taken
		for _, c.Name = range names {
			r.acquired(call, c, store.Outcome{Err: err})
		}
	case err == nil && (out.Err == nil || resultOf(out.Err) == unknown):
		c.Name = names[i]
		r.acquired(call, c, out)
	}
}

func (r *recorder) extended(call time.Duration, e store.Extension, err error) {
	r.asked(event{Kind: kindExtend, At: call, Name: e.Name, Holder: e.Holder, Token: e.Token, TTL: e.TTL, Mark: e.Mark}, err)
}

// releasing records what is about to be released, before it is: a replica that is killed in the middle may have given it back.
func (r *recorder) releasing(releases []store.Release) {
	for _, rel := range releases {
		r.add(event{Kind: kindGiving, Name: rel.Name, Holder: rel.Holder, Token: rel.Token})
	}
	r.flush()
}

func (r *recorder) released(call time.Duration, rel store.Release, err error) {
	r.asked(event{Kind: kindRelease, At: call, Name: rel.Name, Holder: rel.Holder, Token: rel.Token, Mark: rel.Mark, Linger: rel.Linger}, err)
}

func (r *recorder) fault(f Fault) { r.add(event{Kind: kindFault, Fault: f}) }

// took records how long a client waited for a lock.
func (r *recorder) took(begin time.Duration) {
	r.add(event{Kind: kindLook, At: begin, Until: fleet.Now()})
}

// troubled records what the client told its user, unless it is that somebody else has the name or has done the work.
func (r *recorder) troubled(err error) {
	if err != nil && resultOf(err) != refused {
		r.add(event{Kind: kindTrouble, Result: resultOf(err), Err: err.Error()})
	}
}

func (r *recorder) processed(id string, token int64) {
	r.add(event{Kind: kindProcess, Name: id, Token: token})
}

func (r *recorder) doneElement(id string, token int64, err error) {
	r.add(event{Kind: kindDone, Name: id, Token: token, Result: resultOf(err)})
}

func (r *recorder) runStart(run soloist.Run) {
	r.add(event{Kind: kindStart, Name: run.Job, Token: run.Token, Mark: run.ScheduledAt.UnixMilli()})
}

func (r *recorder) runEnd(run soloist.Run) {
	r.add(event{Kind: kindEnd, Name: run.Job, Token: run.Token, Mark: run.ScheduledAt.UnixMilli()})
	r.flush() // before it is recorded in the store
}

// A belief is a replica's that it holds something.
type belief struct {
	rec  *recorder
	e    event
	told time.Duration
}

// tellEvery is how often a belief that lasts is told: what a killed replica believed at last is lost.
const tellEvery = 20 * time.Millisecond

func (r *recorder) belief(what string, limit int, token int64) *belief {
	return &belief{rec: r, e: event{Kind: kindBelief, Name: what, Token: token, Limit: limit}}
}

// look asks the lease, and notes that it was held at an instant that is surely before the answer. A lease that is held now was held
// at every instant since its grant.
func (b *belief) look(lease *soloist.Lease) bool {
	now := fleet.Now()
	if lease.Err() != nil {
		return false
	}
	if b.e.At == 0 {
		b.e.At = now
	}
	b.e.Until = now
	if now-b.told > tellEvery {
		b.told = now
		b.rec.add(b.e)
	}
	return true
}

func (b *belief) end() {
	if b.e.At != 0 && b.told != b.e.Until {
		b.rec.add(b.e)
	}
}
