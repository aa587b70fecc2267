package natsstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// connectorOf returns what connects to the server of a URL.
func connectorOf(t *testing.T, url string) *connector {
	t.Helper()
	to, err := parseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options, err := to.options()
	if err != nil {
		t.Fatal(err)
	}
	return &connector{options: options, domain: to.domain}
}

// TestOneConnection: calls that begin while the store connects share the attempt, and later ones its connection, until
// that is closed. Close gives up what is under way: it leaves no connection, and there is none after it.
func TestOneConnection(t *testing.T) {
	server := servers.NATS(t, 1)[0]
	c := connectorOf(t, "nats://"+server.Addr+"/locks?dialtimeout=5m")
	begun := func() *attempt {
		t.Helper()
		a, err := c.begin()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	server.Pause() // it accepts connections, and says nothing
	first := begun()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(over); !errors.Is(err, context.Canceled) || !errors.Is(err, errNotSent) {
		t.Errorf("a call whose context has ended: %v, want that nothing was sent", err)
	}
	if begun() != first {
		t.Error("there are two attempts at once")
	}
	server.Resume()
	l, err := c.get(t.Context())
	if err != nil || begun() != first || first.link != l {
		t.Fatalf("%v; the connection is used again: %t", err, first.link == l)
	}
	l.nc.Close()
	server.Pause()
	second := begun()
	select {
	case <-l.done:
	default:
		t.Error("it looks after the connection that was closed still")
	}
	if second == first {
		t.Fatal("a connection that was closed is used again")
	}
	closed := make(chan error, 1)
	go func() { closed <- c.close() }()
	servers.Wait(t, "the store to be closed", func() bool {
		_, err := c.begin()
		return errors.Is(err, store.ErrClosed)
	})
	server.Resume()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	select {
	case <-second.done:
	default:
		t.Fatal("it connects still")
	}
	if second.err != nil {
		t.Fatal(second.err)
	}
	if !second.link.nc.IsClosed() || second.link.life().Err() == nil {
		t.Errorf("the connection is closed: %t, and over: %v", second.link.nc.IsClosed(), second.link.life().Err())
	}
	if _, err := c.get(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestFailedAttempt: after an attempt that has failed the next call makes another one, and all who wait for the failed
// one get its error.
func TestFailedAttempt(t *testing.T) {
	server := servers.NATS(t, 1)[0]
	c := connectorOf(t, "nats://"+server.Addr+"/locks?dialtimeout=5m")
	defer c.close()
	server.Stop()
	first, err := c.begin()
	if err != nil {
		t.Fatal(err)
	}
	<-first.done
	if first.err == nil || first.link != nil {
		t.Fatalf("%v; there is a connection: %t", first.err, first.link != nil)
	}
	server.Start()
	if l, err := c.get(t.Context()); err != nil || l.nc.IsClosed() {
		t.Errorf("when there is a server: %v", err)
	}
}

// TestOptions: what a URL says is what the client is told, and it keeps nothing for a later connection: a write that
// waits would be carried out when its caller has long given up.
func TestOptions(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.creds")
	text := "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := connectorOf(t, "nats://u:p@a,b:4223/locks?dialtimeout=7s&inboxprefix=_OF.w").options
	if len(o.Servers) != 2 || o.Servers[0] != "nats://a:4222" || o.Servers[1] != "nats://b:4223" || o.User != "u" ||
		o.Password != "p" || o.Token != "" {
		t.Errorf("servers %q, user %q, password %q, token %q", o.Servers, o.User, o.Password, o.Token)
	}
	if o.Timeout != 7*time.Second || o.InboxPrefix != "_OF.w" || o.Name != "soloist" || o.AsyncErrorCB == nil ||
		o.Secure || o.UserJWT != nil {
		t.Errorf("%+v", o)
	}
	if o.ReconnectBufSize != -1 || o.MaxReconnect != -1 || !o.AllowReconnect || o.PingInterval > 5*time.Second ||
		o.MaxPingsOut > 2 {
		t.Errorf("it keeps %d bytes, connects again %t, %d times, and asks %d times every %v",
			o.ReconnectBufSize, o.AllowReconnect, o.MaxReconnect, o.MaxPingsOut, o.PingInterval)
	}
	o = connectorOf(t, "nats://:secret@a/locks?tls=true&creds="+file).options
	if o.Timeout != 5*time.Second || o.InboxPrefix != "" || o.Token != "secret" || o.User != "" || o.Password != "" ||
		!o.Secure || o.TLSConfig == nil || o.UserJWT == nil {
		t.Fatalf("%+v", o)
	}
	if jwt, err := o.UserJWT(); jwt != "a.b.c" || err != nil {
		t.Errorf("the user is %q, %v, want that of the file", jwt, err)
	}
	signed, err := o.SignatureCB([]byte("nonce"))
	if err != nil || user.Verify([]byte("nonce"), signed) != nil {
		t.Errorf("it signs as another user: %v", err)
	}
}
