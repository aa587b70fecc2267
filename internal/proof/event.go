package proof

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// An Event is one thing that happened. Instants are durations since one zero that all events of a history share, on a clock that
// goes on in a suspend. Which fields are set depends on Kind.
type Event struct {
	Kind    Kind          `json:"k"`
	At      time.Duration `json:"t"`           // when it began
	Until   time.Duration `json:"u,omitempty"` // when it had ended; Never if nobody knows
	Replica string        `json:"p,omitempty"`
	Name    string        `json:"n,omitempty"` // of the record, belief, resource, job or element
	Holder  string        `json:"h,omitempty"`
	Token   int64         `json:"c,omitempty"` // that was granted or shown; of a refusal, that of the lease in the way
	TTL     time.Duration `json:"l,omitempty"` // as the store counted it
	Mark    int64         `json:"m,omitempty"` // of a claim, extension or release; of a run, its scheduled time in unix ms
	Seen    int64         `json:"s,omitempty"` // the record's mark, as a grant or a refusal told it; -1 if it did not
	State   uint64        `json:"y,omitempty"` // a fingerprint of what was read, or written; 0 is none, or leaves it
	Linger  time.Duration `json:"g,omitempty"`
	Retain  time.Duration `json:"i,omitempty"` // of a release: how long the record must be remembered after it
	Result  Result        `json:"r,omitempty"` // as it was told
	Limit   int           `json:"x,omitempty"` // of a belief: how many may have it at once; 0 means 1
	Attempt int           `json:"a,omitempty"` // of a run or an element, from 1
	Manual  bool          `json:"o,omitempty"` // of a run
	Fault   string        `json:"f,omitempty"`

	// Recorded is when the store confirmed what a run or an element has left; 0 if it did not.
	Recorded time.Duration `json:"d,omitempty"`

	// Where the store can be watched, as in a simulation: when the operation took effect, what the store did, and the token. Did
	// is "" for what never took effect.
	Took     time.Duration `json:"e,omitempty"`
	Did      Result        `json:"w,omitempty"`
	DidToken int64         `json:"z,omitempty"`
}

// Never is the Until of what has not returned.
const Never = time.Duration(math.MaxInt64)

// A Kind says what an Event tells.
type Kind string

// The kinds of events.
const (
	// Operations of a store, one event for each element of a batch.
	Acquire Kind = "acquire"
	Extend  Kind = "extend"
	Release Kind = "release"

	// Calls of the client by its user. Name is the record's.
	Take Kind = "take"
	Give Kind = "give"
	Set  Kind = "set" // of the state of a name

	Commit Kind = "commit" // a transaction of the user's that records that a run or an element is done took effect at At
	Retry  Kind = "retry"  // a person asked for a failed element to be tried again

	Belief  Kind = "belief"  // a holder was sure of its lease from At to Until
	Write   Kind = "write"   // a write to a guarded resource: okay, or refused as stale; decided at At
	Run     Kind = "run"     // of a job; Until is Never when its replica did not live to end it
	Element Kind = "element" // was processed
	Forced  Kind = "forced"  // the lease of Token was taken away by a person
	Swept   Kind = "swept"   // the store was told to forget what it may
	Fault   Kind = "fault"   // took effect at At
	Loss    Kind = "loss"    // a holder was told at At that its lease is lost, and did not give it back
	Ill     Kind = "ill"     // from At to Until the replica had trouble with requests about Name, or with all if that is ""
	Well    Kind = "well"    // from At to Until the replica was alive, knew the job Name, had all answers soon, and waited for nothing else
)

// A Result is an outcome.
type Result string

// The results.
const (
	Granted Result = "granted"
	Held    Result = "held" // refused, because somebody has the name
	Done    Result = "done" // refused, because of the mark
	Okay    Result = "ok"
	Lost    Result = "lost"
	Locked  Result = "locked"  // refused, because a transaction has locked the record: nobody knows what it will leave
	Stale   Result = "stale"   // refused by a guard
	Unknown Result = "unknown" // may or may not have taken effect
	Back    Result = "back"    // of an element: given back, which is no attempt
	Failed  Result = "failed"  // surely without effect; of a run, that its function answered an error
)

// A History is events, in any order.
type History []Event

// String formats an event in one line.
func (e Event) String() string {
	var b strings.Builder
	until := "…"
	if e.Until == e.At || e.Until == 0 {
		until = ""
	} else if e.Until != Never {
		until = "…" + e.Until.String()
	}
	fmt.Fprintf(&b, "%v%s %s %s %s", e.At, until, e.Replica, e.Kind, e.Name)
	if e.Holder != "" {
		fmt.Fprintf(&b, " by %s", e.Holder)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"token", e.Token}, {"mark", e.Mark}, {"record's mark", e.Seen}, {"attempt", int64(e.Attempt)}} {
		if f.value != 0 {
			fmt.Fprintf(&b, ", %s %d", f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"TTL", e.TTL}, {"linger", e.Linger}, {"recorded at", e.Recorded}} {
		if f.value != 0 {
			fmt.Fprintf(&b, ", %s %v", f.name, f.value)
		}
	}
	if e.State != 0 {
		fmt.Fprintf(&b, ", state %x", e.State>>48)
	}
	if e.Result != "" {
		fmt.Fprintf(&b, ": %s", e.Result)
	}
	if e.Did != "" && (e.Did != e.Result || e.DidToken != e.Token) {
		fmt.Fprintf(&b, " (took effect at %v: %s", e.Took, e.Did)
		if e.DidToken != 0 {
			fmt.Fprintf(&b, " token %d", e.DidToken)
		}
		b.WriteByte(')')
	}
	if e.Fault != "" {
		fmt.Fprintf(&b, " %s", e.Fault)
	}
	return b.String()
}

// byBegin orders events by when they began. It returns h itself if that is in order already.
func (h History) byBegin() History {
	if h.inOrder() {
		return h
	}
	sorted := slices.Clone(h)
	slices.SortStableFunc(sorted, byAt)
	return sorted
}

func (h History) inOrder() bool {
	for i := range h {
		if i > 0 && h[i].At < h[i-1].At {
			return false
		}
	}
	return true
}

func byAt(a, b Event) int { return cmp.Compare(a.At, b.At) }

// of returns the events of one kind.
func (h History) of(kinds ...Kind) History {
	n := 0
	for i := range h {
		if slices.Contains(kinds, h[i].Kind) {
			n++
		}
	}
	some := make(History, 0, n)
	for i := range h {
		if slices.Contains(kinds, h[i].Kind) {
			some = append(some, h[i])
		}
	}
	return some
}

// has reports whether one of the events is such.
func (h History) has(such func(*Event) bool) bool {
	for i := range h {
		if such(&h[i]) {
			return true
		}
	}
	return false
}

// names groups events by name and returns the names in order.
func (h History) names() ([]string, map[string][]*Event) {
	all := make([]*Event, len(h))
	for i := range h {
		all[i] = &h[i]
	}
	return byName(all)
}

// byName groups events by name and returns the names in order.
func byName(events []*Event) ([]string, map[string][]*Event) {
	groups := map[string][]*Event{}
	for _, e := range events {
		groups[e.Name] = append(groups[e.Name], e)
	}
	return slices.Sorted(maps.Keys(groups)), groups
}

func copies(events []*Event) History {
	h := make(History, len(events))
	for i, e := range events {
		h[i] = *e
	}
	return h
}

// WriteTo writes a history as lines of JSON.
func (h History) WriteTo(w io.Writer) (int64, error) {
	buf := bufio.NewWriter(w)
	n := int64(0)
	for _, e := range h {
		line, err := json.Marshal(e)
		if err != nil {
			return n, fmt.Errorf("writing a history: %w", err)
		}
		m, _ := buf.Write(append(line, '\n')) // Flush tells its error
		n += int64(m)
	}
	if err := buf.Flush(); err != nil {
		return n, fmt.Errorf("writing a history: %w", err)
	}
	return n, nil
}

// Read merges the histories of several replicas, lines of JSON on one clock. The last line of each may be cut, as that of a
// process which was killed.
func Read(files ...io.Reader) (History, error) {
	var h History
	for _, f := range files {
		lines := bufio.NewReader(f)
		for n := 1; ; n++ {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				var e Event
				if json.Unmarshal(line, &e) == nil {
					h = append(h, e)
				}
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading a history: %w", err)
			}
			var e Event
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("reading a history: line %d: %w", n, err)
			}
			h = append(h, e)
		}
	}
	return h.byBegin(), nil
}
