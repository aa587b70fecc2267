package redisstore_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// Two servers behind one address are found.
func TestTwoServersBehindOneAddress(t *testing.T) {
	one, two := servers.Redis(t), servers.Redis(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var n atomic.Int64
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			addr := []string{one.Addr, two.Addr}[n.Add(1)%2]
			server, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				continue
			}
			go func() { io.Copy(server, client); server.Close() }()
			go func() { io.Copy(client, server); client.Close() }()
		}
	}()
	for url, want := range map[string]store.Level{"redis://" + l.Addr().String(): store.LevelError, one.URL: store.LevelOK} {
		if f := finding(t, open(t, url))["address"]; f.Level != want {
			t.Errorf("%s: %+v, want level %s", url, f, want)
		}
	}
}

// An option that is given twice is an error that names it.
func TestDoubledOptionIsRefused(t *testing.T) {
	for _, url := range []string{"redis://h?prefix=a&prefix=b", "redis://h?wait=1&wait=1", "redis://h?timeout=1s&timeout=2s"} {
		if _, err := openURL(url); err == nil {
			t.Errorf("%s is accepted", url)
		}
	}
}
