package zkstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/jsonrecord"
)

// A value is the data of a node, as JSON.
type value struct {
	Holder   string     `json:"holder"`
	Token    int64      `json:"token"`
	Mark     int64      `json:"mark"`
	State    []byte     `json:"state,omitempty"`
	TTL      int64      `json:"ttl_ns"`
	Released bool       `json:"released"`
	Unsure   bool       `json:"unsure,omitempty"`
	Write    string     `json:"write"`
	Life     string     `json:"life"` // the name of the node's child
	Granted  *time.Time `json:"granted_at"`
	Forget   *time.Time `json:"forget_at,omitempty"`
}

// encode returns the data of a record.
func encode(r *casstore.Record, life string) ([]byte, error) {
	granted := r.Granted.UTC()
	v := value{
		Holder: r.Holder, Token: r.Token, Mark: r.Mark, State: r.State, TTL: int64(r.TTL), Released: r.Released, Unsure: r.Unsure,
		Write: r.Write, Life: life, Granted: &granted,
	}
	if !r.Forget.IsZero() {
		forget := r.Forget.UTC()
		v.Forget = &forget
	}
	return json.Marshal(v)
}

// parse reads the data of a node.
func parse(data []byte) (v value, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return value{}, jsonrecord.Brief(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return value{}, errors.New("something follows the record")
	}
	switch {
	case v.Write == "" || v.Life == "" || strings.ContainsAny(v.Life, "./") || len(v.Write) > store.MaxName || len(v.Life) > store.MaxName:
		return value{}, errors.New("its write or its life cannot be")
	case v.Granted == nil:
		return value{}, errors.New("it has no granted_at")
	}
	return v, nil
}

// A version identifies the data of a node: the node by its life, and its data by ZooKeeper's version of them.
type version struct {
	life   string
	number int32
}

func (v version) String() string { return v.life + "." + strconv.Itoa(int(v.number)) }

// parseVersion is the inverse of String.
func parseVersion(text string) (version, error) {
	life, number, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || life == "" {
		return version{}, fmt.Errorf("the version %q of a record cannot be", text)
	}
	return version{life, int32(n)}, nil
}

// itemOf returns the item of a node. The server deletes one that has an owner, sooner or later.
func itemOf(name string, data []byte, stat *zk.Stat) casstore.Item {
	v, err := parse(data)
	number := stat.Version
	switch {
	case err != nil:
	case number < 0:
		err = fmt.Errorf("it has the version %d", number)
	case stat.EphemeralOwner != 0:
		err = errors.New("it is no persistent node, so the server deletes it")
	}
	if err != nil {
		return casstore.Item{Name: name, Err: fmt.Errorf("zkstore: the node of %q: %w: something else has written it; delete it with its child when nobody holds the name", name, err)}
	}
	item := casstore.Item{Name: name, Version: version{v.Life, number}.String(), Record: casstore.Record{
		Holder: v.Holder, Token: v.Token, Mark: v.Mark, State: v.State, TTL: time.Duration(v.TTL), Released: v.Released, Unsure: v.Unsure,
		Write: v.Write, Granted: *v.Granted,
	}}
	if v.Forget != nil {
		item.Record.Forget = *v.Forget
	}
	return item
}
