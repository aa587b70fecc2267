package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func consulBackend() backend {
	open := func(_ context.Context, url string) (store.Store, error) {
		return consulstore.OpenURL(context.Background(), url)
	}
	return backend{
		name: "Consul", start: startConsul, open: open,
		specs: []spec{
			{name: "floor: acquire and release a key (one session)", cases: "ABD", floor: true, open: openConsulFloor},
			{name: "as Lock of consul/api", cases: "ABCD", open: openConsulLock},
			oursOn(open),
		},
	}
}

func startConsul(t servers.Test) (*server, error) {
	s := servers.Consul(t, 1, map[string]any{
		"telemetry": map[string]any{"prometheus_retention_time": "2h", "disable_hostname": true},
		"limits":    map[string]any{"http_max_conns_per_client": 2000},
	})[0]
	servers.Wait(t, "the node to be registered, without which there is no session", func() bool { return consulRegistered(t, s.Addr) })
	return &server{
		url: "consul://" + s.Addr + "/bench", version: "Consul 1.22, one server", pid: s.PID,
		count: func(ctx context.Context) (counts, error) { return consulCounts(ctx, "http://"+s.Addr) },
	}, nil
}

// consulRegistered reports whether a server is in its own catalog. It is a moment after it knows a leader, which is itself.
func consulRegistered(t servers.Test, addr string) bool {
	response, err := http.Get("http://" + addr + "/v1/catalog/nodes")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var nodes []struct{ Node string }
	if response.StatusCode != http.StatusOK {
		return false
	}
	if err := json.NewDecoder(response.Body).Decode(&nodes); err != nil {
		t.Fatalf("Consul's catalog: %v", err)
	}
	return len(nodes) > 0
}

// consulCounts returns how many requests of clients the agent has answered, without those for its metrics.
func consulCounts(ctx context.Context, url string) (counts, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/agent/metrics?format=prometheus", nil)
	if err != nil {
		return counts{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return counts{}, err
	}
	defer response.Body.Close()
	var c counts
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(name, "consul_api_http_count{") || strings.Contains(name, "v1_agent_metrics") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return counts{}, fmt.Errorf("%s: %w", name, err)
		}
		c.commands += int64(n)
	}
	return c, nil
}

// A consulAPI sends requests to Consul's HTTP API.
type consulAPI struct {
	url    string
	client *http.Client
}

func newConsulAPI(url string) consulAPI {
	addr, _, _ := strings.Cut(strings.TrimPrefix(url, "consul://"), "/")
	return consulAPI{"http://" + addr, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
}

// do makes a request, and decodes the reply into a value unless that is nil.
func (c consulAPI) do(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if body == nil {
		text = nil
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err != nil || into == nil || response.StatusCode == http.StatusNotFound {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, text)
	}
	return json.Unmarshal(text, into)
}

// session makes a session that ends after a TTL, and returns its id.
func (c consulAPI) session(ctx context.Context, ttl time.Duration) (string, error) {
	var made struct{ ID string }
	err := c.do(ctx, http.MethodPut, "/v1/session/create", map[string]any{"TTL": ttl.String(), "LockDelay": "1ms", "Checks": []string{}}, &made)
	return made.ID, err
}

// put writes a key with a session, and reports whether Consul has done so.
func (c consulAPI) put(ctx context.Context, key, verb, session string) (done bool, err error) {
	err = c.do(ctx, http.MethodPut, "/v1/kv/"+key+"?"+verb+"="+session, nil, &done)
	return done, err
}

func (c consulAPI) release(key, session string) error {
	freed, err := c.put(context.Background(), key, "release", session)
	if err == nil && !freed {
		err = errNotMine
	}
	return err
}

func openConsulFloor(ctx context.Context, url string, _ time.Duration) (contender, error) {
	c := newConsulAPI(url)
	session, err := c.session(ctx, time.Hour)
	if err != nil {
		return nil, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			key := "floor/" + name
			got, err := c.put(ctx, key, "acquire", session)
			if err == nil && !got {
				err = errHeld
			}
			return hold{unlock: func() error { return c.release(key, session) }}, err
		},
		close: c.client.CloseIdleConnections,
	}, nil
}

// A consulEntry is what Consul says about a key.
type consulEntry struct {
	Session     string
	ModifyIndex uint64
}

// watch waits until a session does not have a key any more.
func (c consulAPI) watch(key, session string) {
	for query := "?consistent"; ; {
		var found []consulEntry
		if c.do(context.Background(), http.MethodGet, "/v1/kv/"+key+query, nil, &found) != nil || len(found) == 0 || found[0].Session != session {
			return
		}
		query = fmt.Sprintf("?consistent&index=%d", found[0].ModifyIndex)
	}
}

// openConsulLock opens a lock that sends what Lock of consul/api, and so the command consul lock, sends for each lock: a session, a read of the key, its acquisition, a read and a blocking
// query that watch it; the key's release, and the session's end. The library itself would bring along many modules.
func openConsulLock(_ context.Context, url string, ttl time.Duration) (contender, error) {
	c := newConsulAPI(url)
	try := func(ctx context.Context, name string, wait bool) (h hold, err error) {
		session, err := c.session(ctx, ttl)
		if err != nil {
			return hold{}, err
		}
		key := "lock/" + name
		destroy := func() error {
			var done bool
			return c.do(context.Background(), http.MethodPut, "/v1/session/destroy/"+session, nil, &done)
		}
		for index := uint64(0); ; {
			var found []consulEntry
			if err := c.do(ctx, http.MethodGet, fmt.Sprintf("/v1/kv/%s?index=%d&wait=15s", key, index), nil, &found); err != nil {
				return hold{}, errors.Join(err, destroy())
			}
			if len(found) > 0 && found[0].Session != "" {
				if !wait {
					return hold{}, errors.Join(errHeld, destroy())
				}
				index = found[0].ModifyIndex
				continue
			}
			got, err := c.put(ctx, key, "acquire", session)
			if err != nil {
				return hold{}, errors.Join(err, destroy())
			}
			if got {
				break
			}
			if !wait {
				return hold{}, errors.Join(errHeld, destroy())
			}
		}
		go c.watch(key, session)
		return hold{unlock: func() error { return errors.Join(c.release(key, session), destroy()) }}, nil
	}
	return plain{
		try:   func(ctx context.Context, name string) (hold, error) { return try(ctx, name, false) },
		lock:  func(ctx context.Context, name string) (hold, error) { return try(ctx, name, true) },
		close: c.client.CloseIdleConnections,
	}, nil
}
