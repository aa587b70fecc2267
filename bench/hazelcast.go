package main

import (
	"context"
	"net/url"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/test/servers"
)

func hazelcastBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) { return hazelcaststore.OpenURL(ctx, url) }
	return backend{
		name: "Hazelcast", start: startHazelcast, open: open,
		specs: []spec{
			{name: "floor: put an entry if there is none, remove it", cases: "ABD", floor: true, module: "github.com/hazelcast/hazelcast-go-client", open: openHazelcastFloor},
			{name: "IMap.tryLock", cases: "AB", module: "github.com/hazelcast/hazelcast-go-client", open: openHazelcastLock},
			oursOn(open),
		},
	}
}

func startHazelcast(t servers.Test) (*server, error) {
	s := servers.Hazelcast(t)
	p, err := newTap(t, s.Addr, hazelcastMessages)
	if err != nil {
		return nil, err
	}
	return &server{
		url: "hazelcast://" + p.addr() + "/bench?unisocket=true&cluster=" + servers.HazelcastName, version: "Hazelcast 5.5.0, one member", pid: s.PID, count: p.count,
	}, nil
}

// hostOf returns the address in a URL of a store.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		panic(err) // it is one of ours
	}
	return u.Host
}

func hazelcastMap(ctx context.Context, url, name string) (*hazelcast.Client, *hazelcast.Map, error) {
	var c hazelcast.Config
	c.Cluster.Name, c.Cluster.Unisocket, c.Cluster.Network.Addresses = servers.HazelcastName, true, []string{hostOf(url)}
	c.Logger.Level = logger.OffLevel
	client, err := hazelcast.StartNewClientWithConfig(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	entries, err := client.GetMap(ctx, name)
	return client, entries, err
}

func openHazelcastFloor(ctx context.Context, url string, _ time.Duration) (contender, error) {
	client, entries, err := hazelcastMap(ctx, url, "floor")
	if err != nil {
		return nil, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			before, err := entries.PutIfAbsent(ctx, name, "me")
			if err == nil && before != nil {
				err = errHeld
			}
			return hold{unlock: func() error {
				_, err := entries.RemoveIfSame(context.Background(), name, "me")
				return err
			}}, err
		},
		close: func() { _ = client.Shutdown(context.Background()) },
	}, nil
}

// openHazelcastLock opens the lock of an IMap, with a lease. Its holder is a context.
func openHazelcastLock(ctx context.Context, url string, ttl time.Duration) (contender, error) {
	client, entries, err := hazelcastMap(ctx, url, "locks")
	if err != nil {
		return nil, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			holder := entries.NewLockContext(ctx)
			got, err := entries.TryLockWithLease(holder, name, ttl)
			if err == nil && !got {
				err = errHeld
			}
			return hold{unlock: func() error { return entries.Unlock(holder, name) }}, err
		},
		close: func() { _ = client.Shutdown(context.Background()) },
	}, nil
}
