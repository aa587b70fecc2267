package etcdstore

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A standing watch begins when it is first needed, and runs until the store is closed or the watch is lost.
type standing struct {
	opening chan struct{} // has a value while a call begins it

	mu   sync.Mutex
	open bool
}

// A watcher is what a standing watch watches, and whom it reports to.
type watcher struct {
	from    string
	options []clientv3.OpOption
	heard   func(*mvccpb.KeyValue)
	lost    func()
}

func (w *standing) isOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

func (w *standing) set(open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = open
}

// begin begins a standing watch, unless it runs. When it returns nil, etcd has subscribed.
func (s *Store) begin(ctx context.Context, client *clientv3.Client, w *standing, of watcher) error {
	select {
	case w.opening <- struct{}{}:
		defer func() { <-w.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.isOpen() {
		return nil
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosedMeanwhile
	}
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
	begun := make(chan error, 1)
	s.work.Go(func() {
		defer cancel()
		w.run(watching, client, of, begun)
	})
	s.mu.Unlock()
	select {
	case err := <-begun:
		if err != nil && s.ctx.Err() != nil {
			return errClosedMeanwhile
		}
		return s.wrap("watching", err)
	case <-ctx.Done():
		cancel()
		return s.wrap("watching", ctx.Err())
	}
}

// errEnded is the error of a watch that the client of etcd has ended before it began, without a reason, as it does when its stream is lost just then. It is no
// context.Canceled, for nobody has cancelled anything.
var errEnded = errors.New("the client of etcd has ended the watch before it began")

// run reports what is watched. begun receives whether the watch has begun.
func (w *standing) run(ctx context.Context, client *clientv3.Client, of watcher, begun chan<- error) {
	waiting, err := true, errEnded
	for reply := range client.Watch(ctx, of.from, append(of.options, clientv3.WithCreatedNotify())...) {
		if failure := reply.Err(); failure != nil {
			err = failure
			break
		}
		if reply.Created && waiting {
			waiting = false
			w.set(true)
			begun <- nil
		}
		for _, e := range reply.Events {
			of.heard(e.Kv)
		}
	}
	if waiting {
		begun <- err
		return
	}
	w.set(false)
	of.lost()
}
