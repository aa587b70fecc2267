package etcdstore

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// saw notes that the key of a session is there. Every store attaches it to the lease of etcd of the session. Where it is not, something else has written it, and it would not end:
// its names would be held forever.
func (p presence) saw(session string, kv *mvccpb.KeyValue) {
	p.there[session] = true
	if kv.Lease != int64(leaseOf(session)) {
		p.stray[session] = kv.ModRevision
	}
}

// mends are the sessions that were to be mended, and whether that was done.
type mends map[string]bool

// mend mends the session of a pair whose key is not attached to its lease of etcd. It reports whether the pair must be read again.
func (s *Store) mend(ctx context.Context, p pair, all mends) bool {
	if p.stray == 0 {
		return false
	}
	done, tried := all[p.record.Session]
	if !tried {
		done = s.mendSession(ctx, p.record.Session, p.stray)
		all[p.record.Session] = done
	}
	return done
}

// mendSession attaches the key of a session to its lease of etcd, if the key is as it was at a revision. If there is no such lease any more it deletes the key, which would have
// ended with the lease. Both are decided by a transaction, so that no lease counts as ended which is not.
func (s *Store) mendSession(ctx context.Context, session string, revision int64) bool {
	client, err := s.clients.get(ctx)
	if err != nil {
		return false
	}
	key := s.keys.session(session)
	same := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)}
	attach := clientv3.OpPut(key, "", clientv3.WithLease(leaseOf(session)))
	if _, err = s.height.commit(client.Txn(ctx), ask{are: same, then: []clientv3.Op{attach}}); errors.Is(err, rpctypes.ErrLeaseNotFound) {
		_, err = s.height.commit(client.Txn(ctx), ask{are: same, then: []clientv3.Op{clientv3.OpDelete(key)}})
	}
	return err == nil
}
