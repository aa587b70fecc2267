package etcdstore

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// An aliveStream keeps leases of etcd alive, one request after the other. The client of etcd has two ways to do that: one does not
// report when a request was sent, and the other one opens a stream for each request, for which etcd checks the password.
type aliveStream struct {
	ctx    context.Context // of the store
	turn   chan struct{}   // has a value while a request is under way
	stream etcdserverpb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc // of the stream
}

// renew keeps a lease alive. etcd keeps it for ttl from when the request was sent, at least.
func (a *aliveStream) renew(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID) (sent time.Time, ttl time.Duration, err error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return sent, 0, ctx.Err()
	}
	used := a.stream != nil
	sent, ttl, err = a.exchange(ctx, client, id)
	if err != nil && used && a.stream == nil && ctx.Err() == nil { // the stream had broken before
		sent, ttl, err = a.exchange(ctx, client, id)
	}
	return sent, ttl, clientv3.ContextError(ctx, err)
}

// exchange sends a request and receives its reply. After an error of the stream it has none.
func (a *aliveStream) exchange(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID) (sent time.Time, ttl time.Duration, err error) {
	if a.stream == nil {
		var of context.Context
		of, a.cancel = context.WithCancel(a.ctx)
		stop := context.AfterFunc(ctx, a.cancel)
		a.stream, err = etcdserverpb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(of)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			a.end()
			return sent, 0, err
		}
	}
	stop := context.AfterFunc(ctx, a.cancel)
	sent = time.Now()
	var reply *etcdserverpb.LeaseKeepAliveResponse
	if err = a.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)}); err == nil {
		reply, err = a.stream.Recv()
	} else if _, failure := a.stream.Recv(); failure != nil { // the reason why it could not be sent
		err = failure
	}
	switch ended := !stop(); {
	case err != nil:
		a.end()
		return sent, 0, err
	case ended: // the stream was cancelled after the reply
		a.end()
	}
	switch {
	case reply.ID != int64(id):
		a.end()
		return sent, 0, fmt.Errorf("etcd has replied about the lease %x instead of %x", reply.ID, id)
	case reply.TTL <= 0:
		return sent, 0, rpctypes.ErrLeaseNotFound
	}
	return sent, time.Duration(reply.TTL) * time.Second, nil
}

// end ends the stream.
func (a *aliveStream) end() {
	a.cancel()
	a.stream = nil
}
