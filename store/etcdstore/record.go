package etcdstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// format is the version of the records. A record of another one is refused: it may hold the name in a way that is not known here.
const format = 2

// A record is the value of a name's record key, as JSON. The times are Unix times of clients' wall clocks, in nanoseconds: no lease depends on them.
type record struct {
	Format   int           `json:"v"`                  // set by encode
	Holder   string        `json:"holder"`             // of the last grant, even after its release
	Token    int64         `json:"token,omitempty"`    // of the last grant; 0 if it is the revision at which this value was written
	Mark     int64         `json:"mark,omitempty"`     // see store.Record
	State    []byte        `json:"state,omitempty"`    // see store.Record
	TTL      time.Duration `json:"ttl_ns"`             // of the lease; of the linger after a release
	Granted  int64         `json:"granted"`            // when the name was granted
	Released bool          `json:"released,omitempty"` // the holder has released it
	Session  string        `json:"session,omitempty"`  // that has the name, or lets it linger, while the key of the session is there; "" if nobody has it
	Forget   int64         `json:"forget,omitempty"`   // when it may be forgotten; 0: never
}

// encode returns the value of a record.
func (r record) encode() (string, error) {
	r.Format = format
	text, err := json.Marshal(r)
	return string(text), err
}

// decode reads the value of a record key that was written at a revision. What is not believed is not returned: the session that it names is not looked for.
func decode(name string, value []byte, revision int64) (r record, err error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&r)
	if _, end := decoder.Token(); err != nil || !errors.Is(end, io.EOF) || r.Format != format {
		var other struct {
			Format *int   `json:"v"`
			Holder string `json:"holder"`
		}
		if json.Unmarshal(value, &other) == nil && other.Holder != "" && (other.Format == nil || *other.Format != format) {
			return record{}, fmt.Errorf("etcdstore: the record of %q is of a version of this package that does not share names with this one: use one version, and another prefix for it (%w)", name, store.ErrSchema)
		}
		return record{}, foreign(name, "a value that is no record")
	}
	if r.Token == 0 {
		r.Token = revision
	}
	if err := r.credible(name, revision); err != nil {
		return record{}, err
	}
	return r, nil
}

// credible returns an error for a record that no store has written at a revision.
func (r record) credible(name string, revision int64) error {
	switch {
	case r.Token < 0 || r.Token > revision:
		return foreign(name, fmt.Sprintf("the token %d", r.Token))
	case r.Mark < 0:
		return foreign(name, fmt.Sprintf("the mark %d", r.Mark))
	case r.TTL < 0 || r.TTL > store.MaxTTL:
		return foreign(name, fmt.Sprintf("the TTL %v", r.TTL))
	case r.Session != "" && leaseOf(r.Session) == clientv3.NoLease:
		return foreign(name, fmt.Sprintf("the session %.60q", r.Session))
	case r.Session != "" && !r.Released && r.TTL < store.MinTTL:
		return foreign(name, fmt.Sprintf("a lease with the TTL %v", r.TTL))
	case r.Holder == "":
		return foreign(name, "no holder")
	case store.CheckName(r.Holder) != nil: // holders and names have the same limits
		return foreign(name, fmt.Sprintf("the holder %.60q", r.Holder))
	case len(r.State) > store.MaxState:
		return foreign(name, fmt.Sprintf("a state of %d bytes", len(r.State)))
	}
	return nil
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
