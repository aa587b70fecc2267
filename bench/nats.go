package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func natsBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) {
		s, err := natsstore.OpenURL(ctx, url)
		return migrated(ctx, s, err)
	}
	return backend{
		name: "NATS", start: startNATS, open: open,
		specs: []spec{
			{name: "floor: create a key, delete it (jetstream)", cases: "ABD", floor: true, module: "github.com/nats-io/nats.go", open: openNATSFloor},
			oursOn(open),
		},
	}
}

func startNATS(t servers.Test) (*server, error) {
	s := servers.NATS(t, 1)[0]
	return &server{
		url: "nats://" + s.Addr + "/bench", version: "NATS 2.15, one server", pid: s.PID,
		count: func(ctx context.Context) (counts, error) { return natsCounts(ctx, s.Monitor) },
	}, nil
}

// natsCounts returns how many messages NATS has received from clients.
func natsCounts(ctx context.Context, monitor string) (c counts, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, monitor+"/varz", nil)
	if err != nil {
		return c, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return c, err
	}
	defer response.Body.Close()
	var status struct {
		Received int64 `json:"in_msgs"`
	}
	err = json.NewDecoder(response.Body).Decode(&status)
	c.commands = status.Received
	return c, err
}

func openNATSFloor(ctx context.Context, url string, _ time.Duration) (contender, error) {
	addr, _, _ := strings.Cut(strings.TrimPrefix(url, "nats://"), "/")
	conn, err := nats.Connect("nats://" + addr)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	bucket, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "floor", History: 1})
	if err != nil {
		return nil, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			revision, err := bucket.Create(ctx, name, nil)
			if errors.Is(err, jetstream.ErrKeyExists) {
				err = errHeld
			}
			return hold{unlock: func() error { return bucket.Delete(context.Background(), name, jetstream.LastRevision(revision)) }}, err
		},
		close: conn.Close,
	}, nil
}
