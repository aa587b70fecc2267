// Package jsonrecord writes records of casstore as JSON, for backends whose version of an item is the token of the grant that wrote it.
package jsonrecord

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A value is a record as JSON.
type value struct {
	Holder   string     `json:"holder"`
	Token    int64      `json:"token,omitempty"` // 0: the version of this value
	Mark     int64      `json:"mark"`
	State    []byte     `json:"state,omitempty"`
	TTL      int64      `json:"ttl_ns"`
	Released bool       `json:"released"`
	Write    string     `json:"write"`
	Granted  *time.Time `json:"granted_at"`
	Forget   *time.Time `json:"forget_at,omitempty"`
}

// Encode returns the text of a record.
func Encode(r *casstore.Record) ([]byte, error) {
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

// Decode is the inverse of Encode. It is strict: a field that is unknown, or anything after the record, is an error.
func Decode(text []byte) (casstore.Record, error) {
	var v value
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return casstore.Record{}, Brief(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return casstore.Record{}, errors.New("something follows the record")
	}
	switch {
	case v.Write == "":
		return casstore.Record{}, errors.New(`it has no "write"`)
	case len(v.Write) > store.MaxName:
		return casstore.Record{}, errors.New(`its "write" is too long`)
	case v.Granted == nil:
		return casstore.Record{}, errors.New(`it has no "granted_at"`)
	}
	r := casstore.Record{
		Holder: v.Holder, Token: v.Token, Mark: v.Mark, State: v.State, TTL: time.Duration(v.TTL), Released: v.Released,
		Write: v.Write, Granted: *v.Granted,
	}
	if v.Forget != nil {
		r.Forget = *v.Forget
	}
	return r, nil
}

// Brief returns an error of the decoder, which quotes the whole of a field that it does not know, in a few words.
func Brief(err error) error {
	if text := err.Error(); len(text) > 120 {
		return fmt.Errorf("%.100q…", text)
	}
	return err
}
