package natsstore_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"net/http/httptest"

	"crypto/x509"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestURLs(t *testing.T) {
	for url, text := range map[string]string{
		"nats://":                             "HOST or HOST:PORT",
		"nats:///bucket":                      "HOST or HOST:PORT",
		"nats://host:0/bucket":                "HOST or HOST:PORT",
		"nats://user@host/bucket":             ":TOKEN@",
		"nats://user:ca/nary@host/bucket":     "has an @ after the hosts",
		"nats://host/a.b":                     "200 letters",
		"nats://host/bucket/more":             "200 letters",
		"nats://host/bucket?replicas=2":       "1, 3 or 5",
		"nats://host/bucket?replica=3":        "there are cafile, certfile, creds",
		"nats://host/bucket?domain=a.b":       "letters, digits",
		"nats://host/bucket?synced=perhaps":   "true or false",
		"nats://host/bucket?nkey=/not/there":  "seed",
		"nats://host/bucket?dialtimeout=5":    "duration",
		"nats://host/bucket?cafile=x":         "tls=true",
		"nats:host/bucket":                    "nats://USER",
		"nats://host/b?tls=true&tls=true":     "twice",
		"nats://host/b?inboxprefix=a.*":       "inboxprefix",
		"nats://user:canary@host/b?replica=1": "there is none of that name",
	} {
		s, err := natsstore.OpenURL(background, url)
		if s != nil || !errors.Is(err, store.ErrInvalid) || !says(err, text) || says(err, "nary") {
			t.Errorf("%q: %v, want an invalid input that says %q", url, err, text)
		}
	}
	for _, url := range []string{
		"nats://host", "nats://u:p@a:4223,b,[::1]:5703/Bucket-1_x?domain=hub&synced=true&replicas=5&dialtimeout=1s&inboxprefix=_INBOX_x", "nats://:token@host/k?tls=true",
	} {
		s, err := natsstore.OpenURL(background, url)
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
	if _, err := natsstore.New(nil, natsstore.Config{Bucket: "a b"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a wrong bucket: %v", err)
	}
}

// byURL opens a store that is closed with the test.
func byURL(t testing.TB, text string) *natsstore.Store {
	t.Helper()
	s, err := natsstore.OpenURL(background, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestConnectionThatWasGivenUp: a store whose client has given its connection up makes another one, and what it had is its own still.
func TestConnectionThatWasGivenUp(t *testing.T) {
	s := byURL(t, "nats://"+shared(t).Addr+"/"+fresh()+"?dialtimeout=1m")
	if _, err := s.Migrate(background); err != nil {
		t.Fatal(err)
	}
	grant, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	woken, err := s.Watch(background, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := natsstore.GiveUp(background, s)
	if err != nil {
		t.Fatal(err)
	}
	for range woken { // until it is closed: the watch is lost
	}
	if err := extend(background, s, "a", "x", grant.Token, time.Hour); err != nil {
		t.Errorf("the lease: %v", err)
	}
	if _, err := acquire(background, s, "b", "x", time.Hour); err != nil {
		t.Errorf("another name: %v", err)
	}
	select {
	case <-ended:
	default:
		t.Error("there is another connection, and the store looks after the one that was given up still")
	}
}

// TestNoServer: a store without a server says so, and nothing is unknown.
func TestNoServer(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))
	s := byURL(t, "nats://"+addr+"?dialtimeout=300ms")
	for range 2 {
		if _, err := acquire(background, s, "a", "x", time.Minute); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, "connecting") {
			t.Errorf("got %v, want that it cannot connect", err)
		}
	}
	ctx, cancel := context.WithTimeout(background, time.Nanosecond)
	defer cancel()
	if _, err := acquire(ctx, s, "a", "x", time.Minute); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that the time is over and nothing was sent", err)
	}
}

// TestOtherPorts: a port that is not for clients of NATS, or has no TLS where the URL wants it, is reported with what to do.
func TestOtherPorts(t *testing.T) {
	web := httptest.NewServer(nil)
	defer web.Close()
	s := shared(t)
	for at, text := range map[string]string{
		web.Listener.Addr().String() + "/locks?dialtimeout=300ms": "usually 4222",
		servers.Redis(t).Addr + "/locks?dialtimeout=300ms":        "usually 4222",
		s.Addr + "/locks?dialtimeout=5m&tls=true":                 "leave tls=true out",
	} {
		if err := byURL(t, "nats://user:canary@"+at).Ping(background); err == nil || !says(err, text) || says(err, "canary") || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v, want an error that says %q", at, err, text)
		}
	}
}

// TestUnneededUser: a user of which the server takes no notice is reported.
func TestUnneededUser(t *testing.T) {
	s := shared(t)
	for user, want := range map[string]bool{"": false, "user:canary@": true, ":canary@": true} {
		of := byURL(t, "nats://"+user+s.Addr+"/unneeded?dialtimeout=5m")
		if _, err := of.Migrate(background); err != nil {
			t.Fatal(err)
		}
		findings, err := of.Examine(background)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Subject == "users" && f.Level == store.LevelWarning }) != want {
			t.Errorf("with the user %q the findings are %+v, want one about users: %t", user, findings, want)
		}
	}
}

// rights is what a user needs, as docs/stores/nats.md lists it. TestRights also checks that each line is needed.
const rights = `{ publish: [%s], subscribe: [%s] }`

var (
	publish = []string{"$KV.locks.>", "$JS.API.STREAM.INFO.KV_locks", "$JS.API.STREAM.MSG.GET.KV_locks", "$JS.API.DIRECT.GET.KV_locks"}
	migrate = []string{"$JS.API.STREAM.CREATE.KV_locks", "$JS.API.STREAM.UPDATE.KV_locks"}
	listen  = []string{"_INBOX.>", "soloist.stored.locks.>", "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.KV_locks"}
)

// permissions are those of a user, without one of the subjects.
func permissions(publish []string, without string) string {
	list := func(all []string) string {
		var quoted []string
		for _, one := range all {
			if one != without {
				quoted = append(quoted, `"`+one+`"`)
			}
		}
		return strings.Join(quoted, ", ")
	}
	return fmt.Sprintf(rights, list(publish), list(listen))
}

// TestRights: the permissions of the documentation are enough, and without one of them an error or a finding names what is missing.
func TestRights(t *testing.T) {
	all := append(append([]string{}, publish...), listen...)
	users := []string{`{ user: admin, password: canary, permissions: ` + permissions(append(append([]string{}, publish...), migrate...), "") + ` }`,
		`{ user: worker, password: canary, permissions: ` + permissions(publish, "") + ` }`}
	for i, without := range all {
		users = append(users, fmt.Sprintf(`{ user: w%d, password: canary, permissions: %s }`, i, permissions(publish, without)))
	}
	server := servers.NATS(t, 1, "authorization: { users: [\n"+strings.Join(users, "\n")+"\n] }")[0]
	of := func(user string) *natsstore.Store {
		return byURL(t, "nats://"+user+":canary@"+server.Addr+"/locks?dialtimeout=1m")
	}
	if _, err := of("admin").Migrate(background); err != nil {
		t.Fatal(err)
	}
	worker := of("worker")
	g, err := acquire(background, worker, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"extend": func() error { return extend(background, worker, "a", "x", g.Token, time.Hour) },
		"list": func() (err error) {
			for _, err = range worker.List(background, "") {
			}
			return err
		},
		"watch":   func() error { _, err := worker.Watch(t.Context(), []string{"a"}); return err },
		"sweep":   func() error { _, err := worker.Sweep(background, 10); return err },
		"examine": func() error { return problem(worker) },
	} {
		if err := do(); err != nil {
			t.Errorf("%s with the rights that the documentation lists: %v", name, err)
		}
	}
	if _, err := of("worker").Migrate(background); err != nil { // there is nothing to do
		t.Errorf("Migrate without the right to change: %v", err)
	}
	for i, without := range all {
		s := of(fmt.Sprintf("w%d", i))
		_, err := acquire(background, s, "new", "y", time.Hour)
		if err == nil {
			_, err = s.Watch(t.Context(), []string{"a"})
		}
		if err == nil {
			for _, err = range s.List(background, "") {
			}
		}
		if !errors.Is(err, fs.ErrPermission) || says(err, "canary") {
			t.Errorf("without %s: %v, want that a permission is missing", without, err)
		}
		if err := problem(s); err == nil {
			t.Errorf("without %s the examination finds nothing", without)
		}
		if err := release(background, worker, "new", "y", 1); err != nil && !errors.Is(err, store.ErrLost) {
			t.Fatal(err)
		}
		if o, err := worker.Acquire(background, []store.Claim{{Name: "new", Holder: "y", TTL: time.Hour}}); err == nil && o[0].Err == nil {
			_ = release(background, worker, "new", "y", o[0].Grant.Token)
		}
	}
	wrong := byURL(t, "nats://worker:wrong-canary@"+server.Addr+"/locks")
	if _, err := acquire(background, wrong, "a", "x", time.Hour); !errors.Is(err, fs.ErrPermission) || says(err, "canary") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// problem returns the first finding that is an error.
func problem(s *natsstore.Store) error {
	findings, err := s.Examine(background)
	for _, f := range findings {
		if err == nil && f.Level == store.LevelError {
			err = fmt.Errorf("%s: %s", f.Subject, f.Found)
		}
	}
	return err
}

// TestCredentials: a URL can name a file with the seed of a key, or a token.
func TestCredentials(t *testing.T) {
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := key.PublicKey()
	seed, _ := key.Seed()
	file := filepath.Join(t.TempDir(), "user.nk")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	byKey := servers.NATS(t, 1, `authorization: { users: [ { nkey: `+public+` } ] }`)[0]
	if _, err := byURL(t, "nats://"+byKey.Addr+"/locks?dialtimeout=1m&nkey="+url.QueryEscape(file)).Migrate(background); err != nil {
		t.Errorf("with the key: %v", err)
	}
	if _, err := byURL(t, "nats://"+byKey.Addr+"/locks").Migrate(background); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without a key: %v", err)
	}
	byToken := servers.NATS(t, 1, `authorization: { token: canary }`)[0]
	if _, err := byURL(t, "nats://:canary@"+byToken.Addr+"/locks?dialtimeout=1m").Migrate(background); err != nil {
		t.Errorf("with the token: %v", err)
	}
	if _, err := natsstore.OpenURL(background, "nats://"+byToken.Addr+"/locks?creds=/not/there.creds"); !errors.Is(err, store.ErrInvalid) || !says(err, "there.creds") {
		t.Errorf("with credentials that are not there: %v", err)
	}
}

// TestTLS: a URL with tls=true speaks TLS, and refuses a server whose certificate it does not trust.
func TestTLS(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	private, err := x509.MarshalPKCS8PrivateKey(certified.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := servers.NATS(t, 1, fmt.Sprintf("tls: { cert_file: %q, key_file: %q }", cert, key))[0]
	at := "nats://" + server.Addr + "/locks?dialtimeout=1m"
	if _, err := byURL(t, at+"&tls=true&cafile="+url.QueryEscape(cert)).Migrate(background); err != nil {
		t.Errorf("with the right certificate: %v", err)
	}
	if err := byURL(t, at+"&tls=true&insecure=true").Ping(background); err != nil {
		t.Errorf("with whatever certificate: %v", err)
	}
	for _, options := range []string{"&tls=true", "&tls=true&servername=other.invalid&cafile=" + url.QueryEscape(cert)} {
		if err := byURL(t, at+options).Ping(background); err == nil || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v, want that the certificate is not trusted", options, err)
		}
	}
}

// TestDomain: a store reaches a bucket in the domain that is named, also through a client that has a domain.
func TestDomain(t *testing.T) {
	named := servers.NATS(t, 1, "jetstream: { domain: hub }")[0]
	s := byURL(t, "nats://"+named.Addr+"/locks?domain=hub&dialtimeout=1m")
	if _, err := s.Migrate(background); err != nil {
		t.Fatal(err)
	}
	g, err := acquire(background, s, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.NewWithDomain(connect(t, named.Addr).Conn(), "hub")
	if err != nil {
		t.Fatal(err)
	}
	given := open(t, js, natsstore.Config{Bucket: "locks"})
	if err := extend(background, given, "a", "x", g.Token, time.Hour); err != nil {
		t.Errorf("through a client with a domain: %v", err)
	}
	for _, prefix := range []string{"$JS.hub.API", "$JS.hub.API."} {
		js, err := jetstream.NewWithAPIPrefix(connect(t, named.Addr).Conn(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		given := open(t, js, natsstore.Config{Bucket: "locks"})
		if err := extend(background, given, "a", "x", g.Token, time.Hour); err != nil {
			t.Errorf("through a client with the prefix %s: %v", prefix, err)
		}
		for _, err := range given.List(background, "") {
			if err != nil {
				t.Errorf("a list through a client with the prefix %s: %v", prefix, err)
			}
		}
	}
	other := byURL(t, "nats://"+named.Addr+"/locks?domain=other")
	if _, err := acquire(background, other, "a", "x", time.Hour); err == nil || errors.Is(err, store.ErrUnknown) {
		t.Errorf("in a domain that is not there: %v", err)
	}
}
