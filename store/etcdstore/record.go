package etcdstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A record is the value of a name's record key, as JSON. The times are Unix times of clients' wall clocks, in nanoseconds: no lease depends on them.
type record struct {
	Holder   string        `json:"holder"`             // of the last grant, even after its release
	Token    int64         `json:"token,omitempty"`    // of the last grant; 0 if it is the revision at which this value was written
	Mark     int64         `json:"mark,omitempty"`     // see store.Record
	State    []byte        `json:"state,omitempty"`    // see store.Record
	TTL      time.Duration `json:"ttl_ns"`             // of the lease; of the linger after a release
	Granted  int64         `json:"granted"`            // when the name was granted
	Released bool          `json:"released,omitempty"` // the holder has released it
	Forget   int64         `json:"forget,omitempty"`   // when it may be forgotten; 0: never
}

// encode returns the value of a record.
func (r record) encode() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// decode reads the value of a record key that was written at a revision.
func decode(name string, value []byte, revision int64) (r record, err error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil || decoder.More() {
		return record{}, foreign(name, "a value that is no record")
	}
	if r.Token == 0 {
		r.Token = revision
	}
	switch {
	case r.Token < 0 || r.Token > revision:
		return record{}, foreign(name, fmt.Sprintf("the token %d", r.Token))
	case r.Mark < 0:
		return record{}, foreign(name, fmt.Sprintf("the mark %d", r.Mark))
	case r.TTL < 0 || r.TTL > store.MaxTTL:
		return record{}, foreign(name, fmt.Sprintf("the TTL %v", r.TTL))
	case r.Holder == "":
		return record{}, foreign(name, "no holder")
	case len(r.State) > store.MaxState:
		return record{}, foreign(name, fmt.Sprintf("a state of %d bytes", len(r.State)))
	}
	return r, nil
}

// foreign is the error of a record that no store has written.
func foreign(name, has string) error {
	return fmt.Errorf("etcdstore: the record of %q has %s: something else has written it; delete its keys when nobody holds the name", name, has)
}

// age returns how long ago the name was granted, by the wall clock.
func (r record) age(now time.Time) time.Duration {
	return max(0, time.Duration(now.UnixNano()-r.Granted))
}

// after returns the instant that is d after now, 0 if d has no end.
func after(now time.Time, d time.Duration) int64 {
	at := now.UnixNano()
	if d == store.Forever || int64(d) > math.MaxInt64-at {
		return 0
	}
	return at + int64(d)
}

// left writes the mark and the state that an extension or a release leaves.
func (r *record) left(mark int64, state []byte) {
	r.Mark = max(r.Mark, mark)
	if state != nil {
		r.State = bytes.Clone(state)
	}
}
