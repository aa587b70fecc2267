package natsstore

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/jsonrecord"
)

// A message is the last one of a subject.
type message struct {
	Sequence uint64
	Header   nats.Header
	Data     []byte
	bad      error // its headers cannot be read
}

// The headers of JetStream and of key-value buckets that a store uses.
const (
	headerExpected  = "Nats-Expected-Last-Subject-Sequence"
	headerOperation = "KV-Operation" // of a message that says that its key was deleted
	headerRollup    = "Nats-Rollup"
	headerTTL       = "Nats-TTL"
	headerSubject   = "Nats-Subject"
	headerSequence  = "Nats-Sequence"
	headerMarker    = "Nats-Marker-Reason" // of a message with which the server says that it has removed one
	headerReleased  = "Soloist-Released"   // of a message that may have made its name free
	headerLease     = "Soloist-TTL"        // of any other message with a record: that of the lease, in nanoseconds
)

// gone reports whether a message says that there is no record.
func (m message) gone() bool {
	return m.Header.Get(headerOperation) != "" || m.Header.Get(headerMarker) != ""
}

// item returns what a message says about a name.
func (m message) item(name string) casstore.Item {
	if m.Sequence == 0 || m.gone() {
		return casstore.Item{Name: name}
	}
	r, err := jsonrecord.Decode(m.Data)
	switch {
	case m.bad != nil:
		err = m.bad
	case err != nil:
	case m.Sequence > math.MaxInt64:
		err = errors.New("its sequence is too large for a token")
	case r.Token > int64(m.Sequence): //nolint:gosec // it was compared
		err = fmt.Errorf("its token %d is greater than its sequence, so it was not granted yet", r.Token)
	case m.Header.Get(headerTTL) != "":
		err = errors.New("it has a Nats-TTL, after which the server deletes it")
	}
	if err != nil {
		return casstore.Item{Name: name, Err: fmt.Errorf("the value of the key %q: %w: something else has written it; delete it when nobody holds %q", keyOf(name), err, name)}
	}
	return casstore.Item{Name: name, Version: strconv.FormatUint(m.Sequence, 10), Record: r}
}
