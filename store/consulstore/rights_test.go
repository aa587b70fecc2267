package consulstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// withACLs is a server that lets nobody do anything without a token.
var withACLs = servers.Shared(func(t servers.Test) *servers.ConsulServer {
	return servers.Consul(t, 1, map[string]any{"primary_datacenter": "dc1", "acl": map[string]any{
		"enabled": true, "default_policy": "deny", "tokens": map[string]string{"initial_management": operator, "agent": operator},
	}})[0]
})

// token makes a token with the rules of a policy.
func token(t testing.TB, addr, rules string) string {
	t.Helper()
	send := func(path string, body any) map[string]any {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		var reply map[string]any
		servers.Wait(t, "a "+path, func() bool { // the leader prepares ACLs after its election
			status, out, _ := request(t, http.MethodPut, addr, "/v1/acl/"+path, string(text))
			return status == http.StatusOK && json.Unmarshal([]byte(out), &reply) == nil
		})
		return reply
	}
	name := fmt.Sprint("policy-", prefixes.Add(1))
	send("policy", map[string]string{"Name": name, "Rules": rules})
	return send("token", map[string]any{"Policies": []map[string]string{{"Name": name}}})["SecretID"].(string)
}

// problem returns the first finding that is an error.
func problem(s *consulstore.Store) error {
	findings, err := s.Examine(background)
	for _, f := range findings {
		if err == nil && f.Level == store.LevelError {
			err = fmt.Errorf("%s: %s", f.Subject, f.Found)
		}
	}
	return err
}

// TestRights: the policy of the documentation is enough, and less than that is an error that says so.
func TestRights(t *testing.T) {
	addr, prefix := withACLs(t).Addr, fresh()
	with := func(token string) *consulstore.Store {
		return open(t, consulstore.Config{Addresses: []string{addr}, Prefix: prefix, Token: store.Secret(token)})
	}
	worker := with(token(t, addr, `key_prefix "`+prefix+`/" { policy = "write" }`))
	g, err := acquire(background, worker, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"extend":  func() error { return extend(background, worker, "a", "x", g.Token, time.Hour) },
		"list":    func() error { _, err := list(worker); return err },
		"watch":   func() error { _, err := worker.Watch(t.Context(), []string{"a"}); return err },
		"sweep":   func() error { _, err := worker.Sweep(background, 10); return err },
		"examine": func() error { return problem(worker) },
		"promise": func() error { _, err := worker.Capabilities(background); return err },
	} {
		if err := do(); err != nil {
			t.Errorf("%s with the rights that the documentation lists: %v", name, err)
		}
	}
	denied := func(who, what string, err error) {
		t.Helper()
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) || says(err, "canary") {
			t.Errorf("%s: %s: %v, want that a right is missing", who, what, err)
		}
	}
	for who, s := range map[string]*consulstore.Store{
		"nobody":         with(""),
		"an old token":   with("canary-00000000"),
		"another prefix": with(token(t, addr, `key_prefix "`+prefix+`x/" { policy = "write" }`)),
	} {
		_, err := acquire(background, s, "a", "y", time.Hour)
		denied(who, "acquire", err)
		_, err = list(s)
		denied(who, "list", err)
		_, err = s.Watch(t.Context(), []string{"a"})
		denied(who, "watch", err)
		if err := problem(s); err == nil {
			t.Errorf("%s: the examination finds nothing", who)
		}
	}
	reader := with(token(t, addr, `key_prefix "`+prefix+`/" { policy = "read" }`))
	_, err = acquire(background, reader, "b", "y", time.Hour)
	denied("a reader", "acquire", err)
	if _, err := acquire(background, reader, "a", "y", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a reader: a name that is held: %v", err)
	}
	if err := problem(reader); err == nil {
		t.Error("a reader: the examination finds nothing")
	}
	if all, err := list(reader); err != nil || len(all) != 1 {
		t.Errorf("a reader: list: %v, %v", all, err)
	}
	part := with(token(t, addr, `key_prefix "`+prefix+`/" { policy = "write" } key "`+prefix+`/b" { policy = "deny" }`))
	outcomes, err := part.Acquire(background, []store.Claim{{Name: "c", Holder: "y", TTL: time.Hour}, {Name: "b", Holder: "y", TTL: time.Hour}})
	if err != nil || outcomes[0].Err != nil {
		t.Errorf("a name beside one that is denied: %v, %v", outcomes, err)
	} else {
		denied("one without a name", "acquire", outcomes[1].Err)
	}
	if _, err := acquire(background, worker, "d", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	_, err = list(with(token(t, addr, `key_prefix "`+prefix+`/d" { policy = "write" }`)))
	denied("who may see one of two", "list", err)
}

// stranger returns the certificate of an authority that has signed nothing.
func stranger(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestTLS: a store with TLS demands a certificate that it trusts. With the wrong one nothing is sent.
func TestTLS(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	dir := t.TempDir()
	cert, key, other := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "other.pem")
	private, err := x509.MarshalPKCS8PrivateKey(certified.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	write(t, other, stranger(t))
	secure := servers.FreePort(t)
	servers.Consul(t, 1, map[string]any{
		"addresses": map[string]string{"https": "127.0.0.1"}, "tls": map[string]any{"https": map[string]any{"cert_file": cert, "key_file": key}}, "ports": map[string]any{"https": secure},
	})
	at := fmt.Sprintf("consul://127.0.0.1:%d/locks?dialtimeout=1m", secure)
	by := func(options string) *consulstore.Store {
		s, err := consulstore.OpenURL(background, at+options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	if _, err := acquire(background, by("&tls=true&cafile="+url.QueryEscape(cert)), "a", "x", time.Hour); err != nil {
		t.Errorf("with the right certificate: %v", err)
	}
	if err := by("&tls=true&insecure=true").Ping(background); err != nil {
		t.Errorf("with any certificate: %v", err)
	}
	for _, options := range []string{"&tls=true", "&tls=true&cafile=" + url.QueryEscape(other), "&tls=true&servername=other.invalid&cafile=" + url.QueryEscape(cert)} {
		if _, err := acquire(background, by(options), "b", "x", time.Hour); err == nil || errors.Is(err, store.ErrUnknown) || !says(err, "see cafile and servername") {
			t.Errorf("%s: %v, want that the certificate is not trusted and nothing was sent", options, err)
		}
	}
	if _, err := acquire(background, by(""), "c", "x", time.Hour); err == nil {
		t.Error("without TLS a server with TLS has replied")
	}
}
