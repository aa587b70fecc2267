package etcdstore

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
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

// TestNoLingerIsEndedAfterTheFall: after a revision that has fallen no lease of etcd is ended either: its ID may be
// that of another process now.
func TestNoLingerIsEndedAfterTheFall(t *testing.T) {
	s := bare()
	s.ctx, s.clients = t.Context(), given{} // there is no client to ask
	s.height.fell.Store(&fellError{from: 9, to: 8})
	s.endLingers([]*linger{{id: 1}})
}

// TestWhatIsAReply: a reply is believed if it has as many parts as were asked for, of their kinds, with the keys that
// were asked for, and with revisions.
func TestWhatIsAReply(t *testing.T) {
	kvs := func(keys ...string) *etcdserverpb.ResponseOp {
		var all []*mvccpb.KeyValue
		for _, key := range keys {
			all = append(all, &mvccpb.KeyValue{Key: []byte(key), ModRevision: 1})
		}
		return responseOf(all, false)
	}
	put := &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponsePut{
		ResponsePut: &etcdserverpb.PutResponse{},
	}}
	deleted := &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseDeleteRange{
		ResponseDeleteRange: &etcdserverpb.DeleteRangeResponse{},
	}}
	inner := func(made bool, parts ...*etcdserverpb.ResponseOp) *etcdserverpb.ResponseOp {
		return &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseTxn{
			ResponseTxn: &etcdserverpb.TxnResponse{Succeeded: made, Responses: parts},
		}}
	}
	one, some, all := clientv3.OpGet("b"), clientv3.OpGet("b", clientv3.WithRange("d")), clientv3.OpPut("b", "")
	nested := clientv3.OpTxn(nil, []clientv3.Op{all}, []clientv3.Op{one})
	for _, test := range []struct {
		what  string
		op    clientv3.Op
		part  *etcdserverpb.ResponseOp
		wants bool
	}{
		{"a key", one, kvs("b"), true},
		{"a key that is not there", one, kvs(), true},
		{"another key", one, kvs("a"), false},
		{"a longer key", one, kvs("bb"), false},
		{"a key, twice", one, kvs("b", "b"), false},
		{"a key without a revision", one, responseOf([]*mvccpb.KeyValue{{Key: []byte("b")}}, false), false},
		{"a key before all revisions", one, responseOf([]*mvccpb.KeyValue{{Key: []byte("b"), ModRevision: -1}}, false),
			false},
		{"no key", one, responseOf([]*mvccpb.KeyValue{nil}, false), false},
		{"the keys of a range", some, kvs("b", "bb", "c"), true},
		{"a range without keys", some, kvs(), true},
		{"a key before the range", some, kvs("azz", "b"), false},
		{"the end of the range", some, kvs("c", "d"), false},
		{"a key behind the range", some, kvs("b", "e"), false},
		{"a write for a read", one, put, false},
		{"nothing for a read", one, &etcdserverpb.ResponseOp{}, false},
		{"a write", all, put, true},
		{"a read for a write", all, kvs("b"), false},
		{"a deletion for a write", all, deleted, false},
		{"a deletion", clientv3.OpDelete("b"), deleted, true},
		{"a write for a deletion", clientv3.OpDelete("b"), put, false},
		{"a transaction that was made", nested, inner(true, put), true},
		{"a transaction that was not made", nested, inner(false, kvs("b")), true},
		{"a transaction that was made, with what is read otherwise", nested, inner(true, kvs("b")), false},
		{"a transaction that was not made, with what is written otherwise", nested, inner(false, put), false},
		{"a transaction with another key", nested, inner(false, kvs("a")), false},
		{"a transaction without its parts", nested, inner(true), false},
		{"a write for a transaction", nested, put, false},
	} {
		ops := []clientv3.Op{clientv3.OpGet("first"), test.op}
		for _, made := range []bool{true, false} {
			reply, then, otherwise := &etcdserverpb.TxnResponse{Succeeded: made,
				Responses: []*etcdserverpb.ResponseOp{kvs("first"), test.part}}, ops, []clientv3.Op(nil)
			if !made {
				then, otherwise = otherwise, then
			}
			if got := replies(reply, then, otherwise); got != test.wants {
				t.Errorf("%s, and it was made: %v: it is a reply: %v", test.what, made, got)
			}
			if reply.Succeeded = !made; replies(reply, then, otherwise) {
				t.Errorf("%s is a reply although the conditions were the other way round", test.what)
			}
		}
	}
}
