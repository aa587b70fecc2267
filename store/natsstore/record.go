package natsstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store/casstore"
)

// A value is what a record is in the bucket, as JSON.
type value struct {
	Holder   string     `json:"holder"`
	Token    int64      `json:"token,omitempty"` // 0: the sequence of this message
	Mark     int64      `json:"mark"`
	State    []byte     `json:"state,omitempty"`
	TTL      int64      `json:"ttl_ns"`
	Released bool       `json:"released"`
	Write    string     `json:"write"`
	Granted  *time.Time `json:"granted_at"`
	Forget   *time.Time `json:"forget_at,omitempty"`
}

// encode returns the text of a record.
func encode(r *casstore.Record) ([]byte, error) {
	granted := r.Granted.UTC()
	v := value{
		Holder: r.Holder, Token: r.Token, Mark: r.Mark, State: r.State, TTL: int64(r.TTL), Released: r.Released, Write: r.Write, Granted: &granted,
	}
	if !r.Forget.IsZero() {
		forget := r.Forget.UTC()
		v.Forget = &forget
	}
	return json.Marshal(v)
}

// A message is the last one of a subject.
type message struct {
	Sequence uint64
	Header   nats.Header
	Data     []byte
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
	v, err := parse(m.Data)
	if err == nil && m.Sequence > math.MaxInt64 {
		err = errors.New("its sequence is too large for a token")
	}
	if err != nil {
		return casstore.Item{Name: name, Err: fmt.Errorf("the value of the key %q: %w: something else has written it; delete it when nobody holds %q", keyOf(name), err, name)}
	}
	item := casstore.Item{Name: name, Version: strconv.FormatUint(m.Sequence, 10), Record: casstore.Record{
		Holder: v.Holder, Token: v.Token, Mark: v.Mark, State: v.State, TTL: time.Duration(v.TTL), Released: v.Released,
		Write: v.Write, Granted: *v.Granted,
	}}
	if v.Forget != nil {
		item.Record.Forget = *v.Forget
	}
	return item
}

// parse reads the text of a record strictly.
func parse(text []byte) (v value, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return value{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return value{}, errors.New("something follows the record")
	}
	switch {
	case v.Write == "":
		return value{}, errors.New(`it has no "write"`)
	case v.Granted == nil:
		return value{}, errors.New(`it has no "granted_at"`)
	}
	return v, nil
}
