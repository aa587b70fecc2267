package etcdstore

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// A committed is a transaction that counts how often it was committed.
type committed struct {
	clientv3.Txn

	revision int64
	times    int
}

// If implements clientv3.Txn.
func (c *committed) If(...clientv3.Cmp) clientv3.Txn { return c }

// Then implements clientv3.Txn.
func (c *committed) Then(...clientv3.Op) clientv3.Txn { return c }

// Else implements clientv3.Txn.
func (c *committed) Else(...clientv3.Op) clientv3.Txn { return c }

// Commit implements clientv3.Txn.
func (c *committed) Commit() (*clientv3.TxnResponse, error) {
	c.times++
	return &clientv3.TxnResponse{Header: &etcdserverpb.ResponseHeader{Revision: c.revision}}, nil
}

// TestNothingAfterTheFall: after a revision that has fallen not even the background sends a write. Revisions repeat, so the condition that a key is as it was could be true
// of the key of another process.
func TestNothingAfterTheFall(t *testing.T) {
	var h height
	for _, revision := range []int64{7, 7, 9} {
		if _, err := h.commit(&committed{revision: revision}, ask{}); err != nil {
			t.Errorf("the revision %d: %v", revision, err)
		}
	}
	for i, revision := range []int64{8, 8, 10} {
		txn := &committed{revision: revision}
		if _, err := h.commit(txn, ask{}); !errors.Is(err, store.ErrUnusable) || txn.times > 0 != (i == 0) {
			t.Errorf("transaction %d was sent %d times, %v, want that the revision has fallen and only the first was sent", i, txn.times, err)
		}
	}
	if err := h.reached(7, 8); !errors.Is(err, store.ErrUnusable) {
		t.Errorf("a reply to an earlier request: %v", err)
	}
	var other height
	if err := errors.Join(other.reached(0, 9), other.reached(0, 8), other.reached(8, 8)); err != nil || other.high.Load() != 9 {
		t.Errorf("replies in another order: %v, the highest is %d, want 9", err, other.high.Load())
	}
}
