package natsstore_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
)

// scribble publishes a message as a client does whose headers are whatever it likes.
func scribble(t *testing.T, subject, headers, data string) {
	t.Helper()
	conn, err := net.Dial("tcp", shared(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(headers), len(headers)+len(data), headers, data)
	if err != nil {
		t.Fatal(err)
	}
	for from := bufio.NewReader(conn); ; {
		line, err := from.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "-ERR") {
			t.Fatalf("%q, %v", line, err)
		}
		if strings.HasPrefix(line, "PONG") {
			return
		}
	}
}

// TestForeignMessages: a message that no store has written harms its own name only, also if its headers cannot be read.
func TestForeignMessages(t *testing.T) {
	js, bucket := connect(t, shared(t).Addr), fresh()
	s := made(t, js, natsstore.Config{Bucket: bucket})
	subject := func(name string) string { return "$KV." + bucket + "." + name }
	const names = 5
	var extensions []store.Extension
	for i := range names {
		name := fmt.Sprint("n", i)
		g, err := acquire(background, s, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: g.Token, TTL: time.Hour})
	}
	bad := map[int]string{1: "headers cannot be read", 3: "Nats-TTL", 4: "was not granted yet"}
	spoil := func() {
		scribble(t, subject("n1"), "these are none\r\n\r\n", "x")
		m := nats.NewMsg(subject("n3"))
		m.Data = []byte(fmt.Sprintf(`{"holder":"x","token":%d,"mark":0,"ttl_ns":3600000000000,"released":false,"write":"w","granted_at":"2026-01-02T03:04:05Z"}`, extensions[3].Token))
		m.Header.Set("Nats-TTL", "1h")
		if _, err := js.PublishMsg(background, m); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(background, subject("n4"), bytes.Replace(m.Data, fmt.Appendf(nil, `%d`, extensions[3].Token), fmt.Appendf(nil, `%d`, int64(1)<<62), 1)); err != nil {
			t.Fatal(err)
		}
	}
	spoil()
	for range 2 {
		errs, err := s.Extend(background, extensions)
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range errs {
			if why, is := bad[i]; is != (err != nil) || is && (errors.Is(err, store.ErrLost) || !says(err, why) || !says(err, fmt.Sprintf(`"n%d"`, i))) {
				t.Errorf("extension %d: %v, want one that says %q", i, err, why)
			}
		}
	}
	other := open(t, js, natsstore.Config{Bucket: bucket})
	for i := range names {
		if _, err := acquire(background, other, fmt.Sprint("n", i), "y", time.Hour); errors.Is(err, store.ErrHeld) == (bad[i] != "") || err == nil {
			t.Errorf("claim %d: %v", i, err)
		}
	}
	for _, s := range []store.Store{s, other} {
		listed, last := 0, error(nil)
		for _, err := range s.List(background, "") {
			if last = err; err == nil {
				listed++
			}
		}
		if listed != names-len(bad) || !says(last, `"n1"`) || !says(last, `"n3"`) {
			t.Errorf("%d are listed, and then %v", listed, last)
		}
	}
	if _, err := s.Sweep(background, 10); !says(err, `"n1"`) || !says(err, `"n3"`) {
		t.Errorf("a sweep: %v", err)
	}
}
