package demo

import (
	"encoding/json"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"io"
	"sync"
	"time"
)

// An event is one thing that happened in the demo, as one line of JSON. Which fields are set depends on Kind.
type event struct {
	At        time.Duration `json:"at"` // as fleet.Now
	Replica   string        `json:"replica,omitempty"`
	Kind      kind          `json:"kind"`
	Scheduled int64         `json:"scheduled,omitempty"` // of a run, unix seconds
	Attempt   int           `json:"attempt,omitempty"`
	Token     int64         `json:"token,omitempty"`
	Held      time.Duration `json:"held,omitempty"`   // of an end: until when the lease was believed to be held, fleet.Now
	Path      string        `json:"path,omitempty"`   // of a request to the service
	Status    int           `json:"status,omitempty"` // that it was answered with
	Left      int           `json:"left,omitempty"`   // of bye: goroutines left
	Err       string        `json:"err,omitempty"`
}

type kind string

// What a replica tells.
const (
	ready     kind = "ready"
	runStart  kind = "run-start"
	holding   kind = "holding" // it halts in the middle of a run, as it was told
	runEnd    kind = "run-end"
	recorded  kind = "recorded" // the store has confirmed the end of the run with this token, or Err
	permit    kind = "permit"
	permitEnd kind = "permit-end"
	allIssued kind = "all-issued" // it finds no invoice left to issue
	bye       kind = "bye"
)

// What the director does, and what reaches the service.
const (
	started kind = "started"
	killed  kind = "killed"
	paused  kind = "paused"
	resumed kind = "resumed"
	claim   kind = "claim"
	write   kind = "write"
)

// An emitter writes the events of one replica. It is safe for use by many goroutines at once.
type emitter struct {
	replica string
	mu      sync.Mutex
	to      *json.Encoder
}

func newEmitter(replica string, to io.Writer) *emitter {
	return &emitter{replica: replica, to: json.NewEncoder(to)}
}

// emit stamps e, unless that has been done, and writes it. If nobody reads any more the process is about to be ended.
func (m *emitter) emit(e event) {
	if e.At == 0 {
		e.At = fleet.Now()
	}
	e.Replica = m.replica
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.to.Encode(e)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
