package etcdstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// A height remembers etcd's revision. It only grows, unless etcd was restored from a snapshot, or has lost its data. Then leases that were granted are
// not there, and tokens would be granted again. So a store whose revision has fallen refuses everything.
type height struct {
	high atomic.Int64              // the highest revision that etcd has replied with
	fell atomic.Pointer[fellError] // nil while the revision has not fallen
}

// A fellError reports that etcd's revision has fallen.
type fellError struct{ from, to int64 }

func (e *fellError) Error() string {
	return fmt.Sprintf("the revision of etcd has fallen from %d to %d, so tokens would be granted again: etcd was restored from a snapshot without --bump-revision, or has lost its data; "+
		"stop what relies on tokens, and see \"What is promised\" on the page about etcd", e.from, e.to)
}

// Is makes errors.Is(e, store.ErrUnusable) true.
func (e *fellError) Is(target error) bool { return target == store.ErrUnusable }

// reached checks the revision of a reply. before is one that etcd had replied with when the request was sent: replies to requests that are under way at the
// same time may arrive in another order.
func (h *height) reached(before, revision int64) error {
	if revision < before {
		h.fell.CompareAndSwap(nil, &fellError{from: before, to: revision})
	}
	for known := h.high.Load(); revision > known && !h.high.CompareAndSwap(known, revision); {
		known = h.high.Load()
	}
	return h.check()
}

// check returns the error of a store whose revision has fallen.
func (h *height) check() error {
	if fell := h.fell.Load(); fell != nil {
		return fell
	}
	return nil
}

// An ask is what a transaction has to do.
type ask struct {
	are             []clientv3.Cmp
	then, otherwise []clientv3.Op
}

// commit commits a transaction, which etcd's leader decides. After the error that the revision has fallen it may have been carried out, if that was not known before; nor is it known
// after a reply that is not one to the transaction.
func (h *height) commit(txn clientv3.Txn, of ask) (*clientv3.TxnResponse, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	before := h.high.Load()
	reply, err := txn.If(of.are...).Then(of.then...).Else(of.otherwise...).Commit()
	switch {
	case err != nil:
		return nil, err
	case reply.Header == nil || !replies((*etcdserverpb.TxnResponse)(reply), of.then, of.otherwise):
		return nil, errReply
	}
	return reply, h.reached(before, reply.Header.Revision)
}

// replies reports whether a reply can be that to a transaction: all that follows relies on the number of its parts, on their kinds and on their keys.
func replies(reply *etcdserverpb.TxnResponse, then, otherwise []clientv3.Op) bool {
	ops := otherwise
	if reply.Succeeded {
		ops = then
	}
	if len(reply.Responses) != len(ops) {
		return false
	}
	for i, op := range ops {
		switch r := reply.Responses[i]; {
		case op.IsGet():
			if got := r.GetResponseRange(); got == nil || !below(got.Kvs, op.KeyBytes(), op.RangeBytes()) {
				return false
			}
		case op.IsTxn():
			_, then, otherwise := op.Txn()
			if inner := r.GetResponseTxn(); inner == nil || !replies(inner, then, otherwise) {
				return false
			}
		case op.IsPut() && r.GetResponsePut() == nil, op.IsDelete() && r.GetResponseDeleteRange() == nil:
			return false
		}
	}
	return true
}

// below reports whether all of some keys are in a range, or are the only one that was asked for.
func below(kvs []*mvccpb.KeyValue, from, to []byte) bool {
	for _, kv := range kvs {
		switch {
		case kv == nil || kv.ModRevision <= 0 || len(to) == 0 && (len(kvs) > 1 || !bytes.Equal(kv.Key, from)):
			return false
		case len(to) > 0 && (bytes.Compare(kv.Key, from) < 0 || bytes.Compare(kv.Key, to) >= 0):
			return false
		}
	}
	return true
}

// get reads keys, as a majority has them.
func (h *height) get(ctx context.Context, client *clientv3.Client, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	before := h.high.Load()
	reply, err := client.Get(ctx, key, options...)
	if err != nil {
		return nil, err
	}
	of := clientv3.OpGet(key, options...)
	ordered := slices.IsSortedFunc(reply.Kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.GetKey(), b.GetKey()) })
	if reply.Header == nil || !below(reply.Kvs, of.KeyBytes(), of.RangeBytes()) || !ordered || reply.More && len(reply.Kvs) == 0 {
		return nil, errReply
	}
	return reply, h.reached(before, reply.Header.Revision)
}

// grant grants a lease of etcd, before anything is written that is attached to it.
func (h *height) grant(ctx context.Context, client *clientv3.Client, seconds int64) (*clientv3.LeaseGrantResponse, error) {
	before := h.high.Load()
	reply, err := client.Grant(ctx, seconds)
	switch {
	case err != nil:
		return nil, err
	case reply.ResponseHeader == nil || reply.ID == clientv3.NoLease:
		return nil, errReply
	}
	return reply, h.reached(before, reply.GetRevision())
}
