package consulstore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// The limits of one transaction. Consul accepts 128 operations and 512 KiB, unless it is configured otherwise.
const (
	mostOperations = 128
	largestRequest = 400 << 10
)

// An operation is one of a transaction.
type operation struct {
	KV struct {
		Verb      string
		Key       string
		Value     []byte `json:",omitempty"`
		Index     uint64 // which the key must have; 0: it must not be there
		Namespace string `json:",omitempty"`
		Partition string `json:",omitempty"`
	}
}

func (c *client) operation(verb, key string, index uint64, value []byte) operation {
	var o operation
	o.KV.Verb, o.KV.Key, o.KV.Index, o.KV.Value = verb, key, index, value
	o.KV.Namespace, o.KV.Partition = c.cfg.Namespace, c.cfg.Partition
	return o
}

// An entry is a key with its value.
type entry struct {
	Key         string
	Value       []byte
	ModifyIndex uint64 // 0: it is not there
	Session     string
}

// A failure is why an operation could not be carried out.
type failure struct {
	OpIndex int
	What    string
}

// transact carries out all operations, or none. If there are failures, it has carried out none.
func (c *client) transact(ctx context.Context, operations []operation, query url.Values) (entries []entry, failures []failure, err error) {
	body, err := json.Marshal(operations)
	if err != nil {
		return nil, nil, &requestError{err: err}
	}
	r, err := c.do(ctx, http.MethodPut, "/v1/txn", query, body, http.StatusConflict)
	if err != nil {
		return nil, nil, err
	}
	var text struct {
		Results []struct{ KV *entry }
		Errors  []failure
	}
	if err := json.Unmarshal(r.body, &text); err != nil {
		return nil, nil, nonsense("it cannot be read: %w", err)
	}
	if (r.status == http.StatusConflict) != (len(text.Errors) > 0) {
		return nil, nil, nonsense("the status %d with %d errors", r.status, len(text.Errors))
	}
	for _, f := range text.Errors {
		if f.OpIndex < 0 || f.OpIndex >= len(operations) {
			return nil, nil, nonsense("an error of operation %d of %d", f.OpIndex, len(operations))
		}
	}
	for _, result := range text.Results {
		if result.KV == nil {
			return nil, nil, nonsense("a result without a key")
		}
		entries = append(entries, *result.KV)
	}
	return entries, text.Errors, nil
}

// nonsense is the error of a reply that Consul does not give. The request may have been carried out.
func nonsense(format string, args ...any) error {
	return &requestError{err: fmt.Errorf("the reply is not one of Consul: "+format, args...), sent: true}
}
