package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func etcdBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) { return etcdstore.OpenURL(ctx, url) }
	return backend{
		name: "etcd", start: startEtcd, open: open,
		specs: []spec{
			{name: "floor: create a key, delete it (clientv3)", cases: "ABD", floor: true, module: "go.etcd.io/etcd/client/v3", open: openEtcdFloor},
			{name: "concurrency.Mutex", cases: "ABCD", module: "go.etcd.io/etcd/client/v3", open: openEtcdMutex},
			oursOn(open),
		},
	}
}

func startEtcd(t servers.Test) (*server, error) {
	s := servers.Etcd(t, 1)[0]
	return &server{
		url: "etcd://" + s.Addr + "/bench", version: "etcd 3.7, one member, without fsync", pid: s.PID,
		count: func(ctx context.Context) (counts, error) { return etcdCounts(ctx, s.URL) },
	}, nil
}

// etcdCounts returns how many requests etcd has begun to serve. A stream is one, and each message that a client sends on it is another.
func etcdCounts(ctx context.Context, url string) (counts, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return counts{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return counts{}, err
	}
	defer response.Body.Close()
	c := counts{byName: map[string]int64{}}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		received := strings.HasPrefix(name, "grpc_server_msg_received_total{")
		if !received && name != "etcd_debugging_mvcc_events_total" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return counts{}, fmt.Errorf("%s: %w", name, err)
		}
		if received {
			c.commands += int64(n)
		} else {
			c.byName["publish"] += int64(n)
		}
	}
	return c, nil
}

func etcdClient(url string) (*clientv3.Client, error) {
	addr, _, _ := strings.Cut(strings.TrimPrefix(url, "etcd://"), "/")
	return clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addr}, DialTimeout: servers.Patience, Logger: zap.NewNop()})
}

func openEtcdFloor(_ context.Context, url string, _ time.Duration) (contender, error) {
	client, err := etcdClient(url)
	if err != nil {
		return nil, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			key := "floor/" + name
			reply, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, "")).Commit()
			switch {
			case err != nil:
				return hold{}, err
			case !reply.Succeeded:
				return hold{}, errHeld
			}
			mine := clientv3.Compare(clientv3.CreateRevision(key), "=", reply.Header.Revision)
			return hold{unlock: func() error {
				reply, err := client.Txn(context.Background()).If(mine).Then(clientv3.OpDelete(key)).Commit()
				if err == nil && !reply.Succeeded {
					err = errNotMine
				}
				return err
			}}, nil
		},
		close: func() { _ = client.Close() },
	}, nil
}

func openEtcdMutex(_ context.Context, url string, ttl time.Duration) (contender, error) {
	client, err := etcdClient(url)
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	lock := func(m *concurrency.Mutex, err error) (hold, error) {
		if errors.Is(err, concurrency.ErrLocked) {
			err = errHeld
		}
		return hold{unlock: func() error { return m.Unlock(context.Background()) }}, err
	}
	// A mutex is the session's: two goroutines of one session have it both. So those that are to refuse each other need keys of different sessions, as here.
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			m := concurrency.NewMutex(session, "mutex/"+name)
			return lock(m, m.TryLock(ctx))
		},
		lock: func(ctx context.Context, name string) (hold, error) {
			m := concurrency.NewMutex(session, "mutex/"+name)
			return lock(m, m.Lock(ctx))
		},
		close: func() { _, _ = session.Close(), client.Close() },
	}, nil
}
