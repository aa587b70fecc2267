package etcdstore

import (
	"context"
	"fmt"
	"sync/atomic"

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

// commit commits a transaction, which etcd's leader decides. After the error that the revision has fallen it may have been carried out, if that was not known before.
func (h *height) commit(txn clientv3.Txn) (*clientv3.TxnResponse, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	before := h.high.Load()
	reply, err := txn.Commit()
	if err != nil {
		return nil, err
	}
	return reply, h.reached(before, reply.Header.Revision)
}

// get reads keys, as a majority has them.
func (h *height) get(ctx context.Context, client *clientv3.Client, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	before := h.high.Load()
	reply, err := client.Get(ctx, key, options...)
	if err != nil {
		return nil, err
	}
	return reply, h.reached(before, reply.Header.Revision)
}

// grant grants a lease of etcd, before anything is written that is attached to it.
func (h *height) grant(ctx context.Context, client *clientv3.Client, seconds int64) (*clientv3.LeaseGrantResponse, error) {
	before := h.high.Load()
	reply, err := client.Grant(ctx, seconds)
	if err != nil {
		return nil, err
	}
	return reply, h.reached(before, reply.GetRevision())
}
