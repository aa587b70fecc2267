package dynamostore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/soloist-dev/soloist/store/casstore"
)

// The attributes of an item.
const (
	attrName     = "name"       // S, the key
	attrHolder   = "holder"     // S
	attrToken    = "token"      // N
	attrMark     = "mark"       // N
	attrState    = "state"      // B, if there is one
	attrTTL      = "ttl_ns"     // N, nanoseconds
	attrReleased = "released"   // BOOL
	attrSure     = "sure"       // BOOL, if true: the record is not Unsure. An item that is made begins without it, and one that is taken keeps it
	attrVersion  = "version"    // S, unique to each write; with the token, to each version of an item
	attrGranted  = "granted_at" // S, RFC 3339
	attrForget   = "forget_at"  // S, RFC 3339, if there is one
)

type attributes = map[string]types.AttributeValue

func encode(name string, r *casstore.Record) attributes {
	item := attributes{
		attrName:     &types.AttributeValueMemberS{Value: name},
		attrHolder:   &types.AttributeValueMemberS{Value: r.Holder},
		attrToken:    number(r.Token),
		attrMark:     number(r.Mark),
		attrTTL:      number(int64(r.TTL)),
		attrReleased: &types.AttributeValueMemberBOOL{Value: r.Released},
		attrVersion:  &types.AttributeValueMemberS{Value: r.Write},
		attrGranted:  instant(r.Granted),
	}
	if len(r.State) > 0 {
		item[attrState] = &types.AttributeValueMemberB{Value: r.State}
	}
	if !r.Unsure {
		item[attrSure] = &types.AttributeValueMemberBOOL{Value: true}
	}
	if !r.Forget.IsZero() {
		item[attrForget] = instant(r.Forget)
	}
	return item
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func instant(t time.Time) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: t.UTC().Format(time.RFC3339Nano)}
}

// decode reads an item. Its Err names what cannot be read.
func decode(attrs attributes) casstore.Item {
	d := decoder{attrs: attrs}
	item := casstore.Item{Name: d.text(attrName, true)}
	r := &item.Record
	r.Holder = d.text(attrHolder, true)
	r.Token = d.number(attrToken)
	r.Mark = d.number(attrMark)
	r.TTL = time.Duration(d.number(attrTTL))
	r.State = d.bytes(attrState)
	r.Released = d.flag(attrReleased)
	r.Unsure = !d.flag(attrSure)
	r.Write = d.text(attrVersion, true)
	r.Granted = d.instant(attrGranted)
	r.Forget = d.instant(attrForget)
	if item.Version = r.Version(); d.err != nil {
		return casstore.Item{Name: item.Name, Err: fmt.Errorf("the item %q: %w", item.Name, d.err)}
	}
	return item
}

// parts returns the attributes that an item of a version has, version and token.
func parts(version string) (write, token types.AttributeValue) {
	i := strings.LastIndexByte(version, '.')
	return &types.AttributeValueMemberS{Value: version[:i]}, &types.AttributeValueMemberN{Value: version[i+1:]}
}

// A decoder reads attributes, and remembers the first that cannot be read.
type decoder struct {
	attrs attributes
	err   error
}

func (d *decoder) fail(name, want string) {
	if d.err == nil {
		d.err = fmt.Errorf("the attribute %q is not %s: something else has written it", name, want)
	}
}

func (d *decoder) text(name string, needed bool) string {
	v, ok := d.attrs[name].(*types.AttributeValueMemberS)
	switch {
	case ok && (v.Value != "" || !needed):
		return v.Value
	case needed || d.attrs[name] != nil:
		d.fail(name, "a text")
	}
	return ""
}

func (d *decoder) number(name string) int64 {
	if v, ok := d.attrs[name].(*types.AttributeValueMemberN); ok {
		if n, err := strconv.ParseInt(v.Value, 10, 64); err == nil {
			return n
		}
	}
	d.fail(name, "a whole number")
	return 0
}

func (d *decoder) bytes(name string) []byte {
	if d.attrs[name] == nil {
		return nil
	}
	v, ok := d.attrs[name].(*types.AttributeValueMemberB)
	if !ok {
		d.fail(name, "bytes")
		return nil
	}
	return v.Value
}

func (d *decoder) flag(name string) bool {
	if d.attrs[name] == nil {
		return false
	}
	v, ok := d.attrs[name].(*types.AttributeValueMemberBOOL)
	if !ok {
		d.fail(name, "true or false")
		return false
	}
	return v.Value
}

func (d *decoder) instant(name string) time.Time {
	text := d.text(name, false)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		d.fail(name, "a time as in RFC 3339")
	}
	return t
}

var errNoItem = errors.New("the server returned no item where it must")
