package hazelcaststore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestURLs(t *testing.T) {
	for url, text := range map[string]string{
		"hazelcast://":                             "HOST or HOST:PORT",
		"hazelcast:///map":                         "HOST or HOST:PORT",
		"hazelcast://host,/map":                    "HOST or HOST:PORT",
		"hazelcast://host:0/map":                   "HOST or HOST:PORT",
		"hazelcast://user@host/map":                "write both",
		"hazelcast://user:ca/nary@host/map":        "has an @ after the hosts",
		"hazelcast://host/a*":                      "200 letters",
		"hazelcast://host/map/more":                "200 letters",
		"hazelcast://host/map?clustre=a":           "there are cafile, certfile, cluster",
		"hazelcast://host/map?cluster=a&cluster=b": "twice",
		"hazelcast://host/map?cluster=":            "must not be empty",
		"hazelcast://host/map?minmembers=-1":       "number from 0",
		"hazelcast://host/map?unisocket=maybe":     "true or false",
		"hazelcast://host/map?dialtimeout=5":       "duration",
		"hazelcast://host/map?cp=yes":              "true or false",
		"hazelcast://host?cp=true&minmembers=2":    "a majority of the CP group decides",
		"hazelcast://host?cp=true&unisocket=true":  "one connection at a time",
		"hazelcast://host/map?cafile=x":            "tls=true",
		"hazelcast://a,b/map?tls=true":             "servername=NAME",
		"hazelcast:host/map":                       "hazelcast://USER",
	} {
		s, err := hazelcaststore.OpenURL(background, url)
		if s != nil || !errors.Is(err, store.ErrInvalid) || !says(err, text) || says(err, "nary@") {
			t.Errorf("%q: %v, want an invalid input that says %q", url, err, text)
		}
	}
	for _, url := range []string{
		"hazelcast://host", "hazelcast://u:p@a:5702,b,[::1]:5703/Map-1.x?cluster=prod&minmembers=2&unisocket=true&dialtimeout=1s&heartbeattimeout=3s",
		"hazelcast://10.0.0.1,10.0.0.2/k?tls=true&servername=x", "hazelcast://10.0.0.1/k?tls=true", "hazelcast://a,b:5702/k?cp=true",
	} {
		s, err := hazelcaststore.OpenURL(background, url)
		if err != nil {
			t.Errorf("%q: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil { // it has not connected
			t.Error(err)
		}
		if err := s.Ping(background); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestConfigs(t *testing.T) {
	failover := config("host")
	failover.Failover.Enabled = true
	cloud := config("host")
	cloud.Cluster.Cloud.Enabled = true
	wrong := config("host")
	wrong.Cluster.HeartbeatTimeout = -1
	for text, test := range map[string]struct {
		client hazelcast.Config
		cfg    hazelcaststore.Config
	}{
		"200 letters":       {config("host"), hazelcaststore.Config{Map: "*"}},
		"or 0 for any":      {config("host"), hazelcaststore.Config{MinMembers: -1}},
		"without Cloud":     {cloud, hazelcaststore.Config{CP: true}},
		"the CP group":      {config("host"), hazelcaststore.Config{CP: true, MinMembers: 2}},
		"another cluster":   {failover, hazelcaststore.Config{}},
		"heartbeat timeout": {wrong, hazelcaststore.Config{}},
	} {
		if _, err := hazelcaststore.New(test.client, test.cfg); !errors.Is(err, store.ErrInvalid) || !says(err, text) {
			t.Errorf("got %v, want an invalid input that says %q", err, text)
		}
	}
}

// TestNoServer: a store without a server says so, and nothing is unknown.
func TestNoServer(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))
	s, err := hazelcaststore.OpenURL(background, "hazelcast://"+addr+"?dialtimeout=300ms")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if _, err := acquire(background, s, "a"); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, `connecting to the cluster "dev" at `+addr) {
			t.Errorf("got %v, want that it cannot connect", err)
		}
	}
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	if _, err := acquire(ctx, s, "a"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that the time is over and nothing was sent", err)
	}
}

// TestTLS: a URL with tls=true speaks TLS, and refuses a server whose certificate it does not trust. Hazelcast itself has TLS only with a license, so something
// before it ends TLS here.
func TestTLS(t *testing.T) {
	m := shared(t)
	address, ca := servers.EndTLS(t, m.Addr)
	open := func(options, patience string) error {
		s, err := hazelcaststore.OpenURL(background, "hazelcast://"+address+"?unisocket=true&cluster="+servers.HazelcastName+"&dialtimeout="+patience+"&"+options)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Ping(background)
	}
	if err := open("tls=true&servername=example.com&cafile="+url.QueryEscape(ca), "5m"); err != nil {
		t.Errorf("with the right certificate: %v", err)
	}
	if err := open("tls=true&insecure=true", "5m"); err != nil {
		t.Errorf("with whatever certificate: %v", err)
	}
	for _, options := range []string{"tls=true&servername=example.com", "tls=true&servername=other.example&cafile=" + url.QueryEscape(ca), "tls=false"} {
		if err := open(options, "500ms"); !says(err, "the wrong kind of TLS") {
			t.Errorf("%s: got %v, want what to check", options, err)
		}
	}
}
