package cassandrastore

import (
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store/casstore"
)

// A row contains the columns of a reply. A column that is null is nil.
type row struct {
	name, holder, version *string
	token, mark, ttl      *int64
	state                 *[]byte
	released, unsure      *bool
	granted, forget       *time.Time
	applied               *bool // in the reply to a write
}

// into returns where the columns of a reply belong, in their order. A column that is not soloist's is left out.
func (r *row) into(columns []gocql.ColumnInfo) []any {
	places := map[string]any{
		"name": &r.name, "holder": &r.holder, "version": &r.version,
		"fencing_token": &r.token, "mark": &r.mark, "ttl_ns": &r.ttl,
		"state": &r.state, "released": &r.released, "unsure": &r.unsure,
		"granted_at": &r.granted, "forget_at": &r.forget, "[applied]": &r.applied,
	}
	all := make([]any, len(columns))
	for i, c := range columns {
		all[i] = places[c.Name]
	}
	return all
}

// never is forget_at of a row that is not to be forgotten. It is not null, for a null leaves a tombstone.
var never = time.UnixMilli(0)

// values returns the parameters of insert and update, up to the name.
func values(c casstore.Change) []any {
	r := c.Record
	state, forget := r.State, r.Forget
	if state == nil {
		state = []byte{} // not null
	}
	if forget.IsZero() {
		forget = never
	}
	return []any{r.Holder, r.Token, r.Mark, state, int64(r.TTL), r.Released, r.Unsure, versionAfter(c), r.Granted, forget, c.Name}
}

// item returns what the row means. Its Err names what cannot be read.
func (r *row) item() casstore.Item {
	if r.name == nil {
		return casstore.Item{Err: fmt.Errorf("a row without a name: %w", errForeign)}
	}
	item := casstore.Item{Name: *r.name}
	for column, there := range map[string]bool{
		"holder": r.holder != nil, "fencing_token": r.token != nil, "mark": r.mark != nil, "ttl_ns": r.ttl != nil, "released": r.released != nil,
		"state": r.state != nil, "unsure": r.unsure != nil, "version": r.version != nil && len(writes(*r.version)) > 0, "granted_at": r.granted != nil, "forget_at": r.forget != nil,
	} {
		if !there {
			item.Err = fmt.Errorf("the row %q has no %s: %w", item.Name, column, errForeign)
			return item
		}
	}
	item.Version = *r.version
	item.Record = casstore.Record{
		Holder: *r.holder, Token: *r.token, Mark: *r.mark, State: *r.state, TTL: time.Duration(*r.ttl),
		Released: *r.released, Unsure: *r.unsure, Write: writes(*r.version)[0], Granted: *r.granted,
	}
	if r.forget.UnixMilli() != never.UnixMilli() {
		item.Record.Forget = *r.forget
	}
	return item
}
