package temporalstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.temporal.io/api/common/v1"

	"github.com/soloist-dev/soloist/store/casstore"
)

// An entry is one write, as JSON: the input of a run, or of a signal.
type entry struct {
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	Replaces string     `json:"replaces,omitempty"` // the version that it replaces; the write that made the record has none
	Deleted  bool       `json:"deleted,omitempty"`  // the record is forgotten, and the rest is empty
	Holder   string     `json:"holder,omitempty"`
	Token    int64      `json:"token,omitempty"`
	Mark     int64      `json:"mark,omitempty"`
	State    []byte     `json:"state,omitempty"`
	TTL      int64      `json:"ttl_ns,omitempty"`
	Released bool       `json:"released,omitempty"`
	Unsure   bool       `json:"unsure,omitempty"`
	Granted  *time.Time `json:"granted_at,omitempty"`
	Forget   *time.Time `json:"forget_at,omitempty"`
}

// entryOf returns the entry of a change that writes a record.
func entryOf(c casstore.Change) entry {
	r, granted := c.Record, c.Record.Granted.UTC()
	e := entry{
		Name: c.Name, Version: r.Write, Replaces: c.Version, Holder: r.Holder, Token: r.Token, Mark: r.Mark, State: r.State, TTL: int64(r.TTL),
		Released: r.Released, Unsure: r.Unsure, Granted: &granted,
	}
	if !r.Forget.IsZero() {
		forget := r.Forget.UTC()
		e.Forget = &forget
	}
	return e
}

// record returns the record of an entry.
func (e entry) record() casstore.Record {
	r := casstore.Record{
		Holder: e.Holder, Token: e.Token, Mark: e.Mark, State: e.State, TTL: time.Duration(e.TTL), Released: e.Released, Unsure: e.Unsure,
		Write: e.Version, Granted: *e.Granted,
	}
	if e.Forget != nil {
		r.Forget = *e.Forget
	}
	return r
}

const encoding = "json/plain" // Temporal's own tools show such a payload as it is

// payloads returns an entry as the input of a run or a signal.
func (e entry) payloads() (*common.Payloads, error) {
	text, err := json.Marshal(e)
	return &common.Payloads{Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: text}}}, err
}

// parse reads an input. The holder, the token and the like are checked by casstore.
func parse(p *common.Payloads) (e entry, err error) {
	if n := len(p.GetPayloads()); n != 1 {
		return entry{}, fmt.Errorf("it has %d payloads, not one", n)
	}
	payload := p.GetPayloads()[0]
	if got := string(payload.GetMetadata()["encoding"]); got != encoding {
		return entry{}, fmt.Errorf("its encoding is %q, not %s", got, encoding)
	}
	d := json.NewDecoder(bytes.NewReader(payload.GetData()))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return entry{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return entry{}, errors.New("something follows the record")
	}
	switch {
	case e.Version == "" || e.Version == e.Replaces:
		return entry{}, errors.New("its version cannot be")
	case !e.Deleted && e.Granted == nil:
		return entry{}, errors.New("it has no granted_at")
	}
	return e, nil
}
