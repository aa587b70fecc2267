package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func zookeeperBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) { return zkstore.OpenURL(ctx, url) }
	return backend{
		name: "ZooKeeper", start: startZooKeeper, open: open,
		specs: []spec{
			{name: "floor: create an ephemeral node, delete it", cases: "ABD", floor: true, module: "github.com/go-zookeeper/zk", open: openZooKeeperFloor},
			{name: "zk.Lock (go-zookeeper)", cases: "ABC", module: "github.com/go-zookeeper/zk", open: openZooKeeperLock},
			oursOn(open),
		},
		java: []javaSpec{{name: "Curator InterProcessMutex", provider: "curator"}},
	}
}

func startZooKeeper(t servers.Test) (*server, error) {
	s := servers.ZooKeeper(t, 1)[0]
	var asked int64
	return &server{
		url: "zk://" + s.Addr + "/bench", version: "ZooKeeper 3.9, one server", pid: s.PID,
		count: func(context.Context) (counts, error) {
			status, err := s.Status()
			asked++
			return counts{commands: int64(status.Received) - asked}, err
		},
	}, nil
}

// zookeeperPath is below which the peers have their nodes.
const zookeeperPath = "/peers"

// zookeeperConn connects to the server of a URL, and makes the node that those of the peers are below.
func zookeeperConn(ctx context.Context, url string) (*zk.Conn, error) {
	addr, _, _ := strings.Cut(strings.TrimPrefix(url, "zk://"), "/")
	conn, events, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State != zk.StateHasSession {
				continue
			}
			if _, err := conn.Create(zookeeperPath, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				conn.Close()
				return nil, err
			}
			return conn, nil
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		}
	}
}

func openZooKeeperFloor(ctx context.Context, url string, _ time.Duration) (contender, error) {
	conn, err := zookeeperConn(ctx, url)
	if err != nil {
		return nil, err
	}
	return plain{
		try: func(_ context.Context, name string) (hold, error) {
			node := zookeeperPath + "/floor-" + name
			if _, err := conn.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
				if errors.Is(err, zk.ErrNodeExists) {
					err = errHeld
				}
				return hold{}, err
			}
			return hold{unlock: func() error { return conn.Delete(node, -1) }}, nil
		},
		close: conn.Close,
	}, nil
}

// openZooKeeperLock opens the lock of the client. It knows no contexts, and no try.
func openZooKeeperLock(ctx context.Context, url string, _ time.Duration) (contender, error) {
	conn, err := zookeeperConn(ctx, url)
	if err != nil {
		return nil, err
	}
	lock := func(_ context.Context, name string) (hold, error) {
		l := zk.NewLock(conn, zookeeperPath+"/lock-"+name, zk.WorldACL(zk.PermAll))
		return hold{unlock: l.Unlock}, l.Lock()
	}
	return plain{try: lock, lock: lock, close: conn.Close}, nil
}
