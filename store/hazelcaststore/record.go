package hazelcaststore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store/casstore"
)

// A value is what stands in the map for a name, as JSON. A text is compared by its content in every in-memory format
// of a map, and can be read in the Management Center.
type value struct {
	Holder   string     `json:"holder"`
	Token    int64      `json:"token"`
	Mark     int64      `json:"mark"`
	State    []byte     `json:"state,omitempty"`
	TTL      int64      `json:"ttl_ns"`
	Released bool       `json:"released"`
	Unsure   bool       `json:"unsure,omitempty"`
	Version  string     `json:"version"`
	Past     []string   `json:"past,omitempty"` // the versions before this one, the newest first
	Granted  *time.Time `json:"granted_at"`
	Forget   *time.Time `json:"forget_at,omitempty"`
}

// pastLimit is how many versions an entry remembers. A write that was carried out twice, and so was refused the
// second time, is recognized while at most as many other writes have come between.
const pastLimit = 8

// encode returns the text of a record that replaces another value, which is empty for none.
func encode(r *casstore.Record, replaces value) (string, error) {
	granted := r.Granted.UTC()
	v := value{
		Holder: r.Holder, Token: r.Token, Mark: r.Mark, State: r.State, TTL: int64(r.TTL), Released: r.Released, Unsure: r.Unsure,
		Version: r.Write, Granted: &granted,
	}
	if !r.Forget.IsZero() {
		forget := r.Forget.UTC()
		v.Forget = &forget
	}
	if replaces.Version != "" {
		v.Past = append([]string{replaces.Version}, replaces.Past...)
		v.Past = v.Past[:min(len(v.Past), pastLimit)]
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// parse reads the text of an entry.
func parse(text string) (v value, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return value{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return value{}, errors.New("something follows the record")
	}
	switch {
	case v.Version == "" || slices.Contains(v.Past, "") || slices.Contains(v.Past, v.Version):
		return value{}, errors.New("its versions cannot be")
	case v.Granted == nil:
		return value{}, errors.New("it has no granted_at")
	}
	return v, nil
}

// itemOf returns an item from the value of an entry, which is nil without one.
func itemOf(name string, found any) casstore.Item {
	if found == nil {
		return casstore.Item{Name: name}
	}
	text, ok := found.(string)
	if !ok {
		return foreign(name, fmt.Errorf("it is a %T, not a text", found))
	}
	v, err := parse(text)
	if err != nil {
		return foreign(name, err)
	}
	item := casstore.Item{Name: name, Version: text, Record: casstore.Record{
		Holder: v.Holder, Token: v.Token, Mark: v.Mark, State: v.State, TTL: time.Duration(v.TTL), Released: v.Released, Unsure: v.Unsure,
		Write: v.Version, Granted: *v.Granted,
	}}
	if v.Forget != nil {
		item.Record.Forget = *v.Forget
	}
	return item
}

// foreign is the item of an entry that no store has written.
func foreign(name string, why error) casstore.Item {
	return casstore.Item{Name: name, Err: fmt.Errorf("the entry of %q: %w: something else has written it; remove it when nobody holds the name", name, why)}
}
