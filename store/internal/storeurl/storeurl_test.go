package storeurl_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

func TestSplit(t *testing.T) {
	if authority, path, query, err := storeurl.Split("u:p@h:1,i/a/b?c=d/e"); authority != "u:p@h:1,i" || path != "a/b" || query != "c=d/e" || err != nil {
		t.Errorf("%q, %q, %q, %v", authority, path, query, err)
	}
	for _, rest := range []string{"u:se/cret@h/db", "u:se?cret@h/db"} {
		_, _, _, err := storeurl.Split(rest)
		refused(t, rest, err, "write @, / and ?")
	}
}

// refused checks that an error says what would be right, and none of what may be a password.
func refused(t *testing.T, what string, err error, says string) {
	t.Helper()
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "cret") {
		t.Errorf("%s: %v, want an invalid URL and %q, without the secret", what, err, says)
	}
}

func TestAuthority(t *testing.T) {
	for text, want := range map[string]struct {
		user, password string
		hosts          []string
	}{
		"h":                     {"", "", []string{"h:7"}},
		"a.b:1,[::1]:2,[::1],c": {"", "", []string{"a.b:1", "[::1]:2", "[::1]:7", "c:7"}},
		"u:p%40%3a@h":           {"u", "p@:", []string{"h:7"}},
		"u@h":                   {"u", "", []string{"h:7"}},
	} {
		user, password, hosts, err := storeurl.Authority(text, "7")
		if user != want.user || password != want.password || !slices.Equal(hosts, want.hosts) || err != nil {
			t.Errorf("%q: %q, %q, %q, %v", text, user, password, hosts, err)
		}
	}
	for text, says := range map[string]string{
		"u:se%zzcret@h": "as %XX", "secret:x": "HOST or HOST:PORT", "h:0": "HOST or HOST:PORT", "h:65536": "HOST or HOST:PORT",
		"": "HOST or HOST:PORT", "h,": "HOST or HOST:PORT", "se cret": "HOST or HOST:PORT",
	} {
		_, _, _, err := storeurl.Authority(text, "7")
		refused(t, text, err, says)
	}
}

func TestParse(t *testing.T) {
	var o struct {
		word, password string
		duration, dial time.Duration
		count          int
		is, either     bool
	}
	options := map[string]storeurl.Option{
		"word": storeurl.Word(&o.word), "password": storeurl.Word(&o.password), "sentinelpassword": storeurl.Word(&o.password), "duration": storeurl.Duration(&o.duration),
		"dialtimeout": storeurl.DialTimeout(&o.dial),
		"count":       storeurl.Count(&o.count), "is": storeurl.Bool(&o.is), "either": storeurl.Either(&o.either, "no", "yes"),
	}
	want := o
	want.word, want.password, want.duration, want.count, want.is, want.either = "a b", "x", 500*time.Millisecond, 3, true, true
	want.dial = time.Second
	if err := storeurl.Parse("word=a%20b&password=x&duration=500ms&dialtimeout=1s&count=3&is=true&either=yes", options); err != nil || o != want {
		t.Errorf("%+v, %v", o, err)
	}
	for query, says := range map[string]string{
		"other=1":                         "there are count, dialtimeout, duration, either, is, password, sentinelpassword, word",
		"word=a&word=b":                   "is given twice",
		"password=secret1&password=cret2": "is given twice",
		"sentinelpassword=a&sentinelpassword=cret": "is given twice",
		"word=":           "must not be empty",
		"duration=5":      "such as 500ms",
		"duration=0s":     "more than 0",
		"duration=-1s":    "more than 0",
		"dialtimeout=5":   "such as 500ms",
		"dialtimeout=1ns": "from 1ms to 1h0m0s",
		"dialtimeout=61m": "from 1ms to 1h0m0s",
		"count=-1":        "from 0 to 100000",
		"count=100001":    "from 0 to 100000",
		"is=maybe":        "true or false",
		"either=maybe":    "no or yes",
		"word=%zzsecret":  "as %XX",
		"word=a;b":        "as %XX",
	} {
		refused(t, query, storeurl.Parse(query, options), says)
	}
}

func TestTLSOptions(t *testing.T) {
	config := func(query string, on bool) (*tls.Config, error) {
		var files storeurl.TLS
		if err := storeurl.Parse(query, files.AddTo(map[string]storeurl.Option{})); err != nil {
			t.Fatal(err)
		}
		return files.Config(on, "write tls=true")
	}
	if c, err := config("", false); c != nil || err != nil {
		t.Errorf("without TLS: %+v, %v", c, err)
	}
	if c, err := config("servername=a&insecure=true", true); err != nil || c.ServerName != "a" || !c.InsecureSkipVerify || c.MinVersion != tls.VersionTLS12 {
		t.Errorf("with TLS: %+v, %v", c, err)
	}
	if c, err := config("", true); err != nil || c.InsecureSkipVerify {
		t.Errorf("TLS that verifies: %+v, %v", c, err)
	}
	for query, says := range map[string]string{
		"cafile=nowhere.pem":             "nowhere.pem",
		"cafile=storeurl_test.go":        "no certificate in PEM",
		"certfile=a.pem":                 "both or neither",
		"keyfile=a.pem":                  "both or neither",
		"certfile=a.pem&keyfile=nothere": "a.pem",
	} {
		_, err := config(query, true)
		refused(t, query, err, says)
		_, err = config(query, false)
		refused(t, query+" without TLS", err, "write tls=true")
	}
}

// TestUntrusted: a certificate that is not trusted is one for errors.As too, where a library has kept the text alone, and nothing else is.
func TestUntrusted(t *testing.T) {
	lost := errors.New("connecting: tls: failed to verify certificate: x509: certificate signed by unknown authority")
	var untrusted *tls.CertificateVerificationError
	if err := storeurl.Untrusted(lost); !errors.As(err, &untrusted) || !errors.Is(err, lost) || err.Error() != lost.Error() {
		t.Errorf("got %v, which does not say that a certificate is not trusted", err)
	}
	other := errors.New("connecting: connection refused")
	if err := storeurl.Untrusted(other); errors.As(err, &untrusted) || !errors.Is(err, other) {
		t.Errorf("got %v, want it as it was", err)
	}
	if err := storeurl.Untrusted(nil); err != nil {
		t.Error(err)
	}
}

// TestAuthorities: with cafile the authorities in that file are the only ones, and those of the system are not beside them.
func TestAuthorities(t *testing.T) {
	ours, systems := authority(t), authority(t)
	t.Setenv("SSL_CERT_FILE", write(t, systems))
	files := storeurl.TLS{CAFile: write(t, ours)}
	c, err := files.Config(true, "")
	if err != nil {
		t.Fatal(err)
	}
	want := x509.NewCertPool()
	if !want.AppendCertsFromPEM(ours) {
		t.Fatal("no certificate")
	}
	if c.RootCAs == nil || !c.RootCAs.Equal(want) {
		t.Error("a server is trusted by others than the authority of cafile")
	}
	files.CAFile = ""
	if c, err = files.Config(true, ""); err != nil || c.RootCAs != nil {
		t.Errorf("without cafile: %v, want the authorities of the system", err)
	}
}

// authority returns the certificate of a new authority, in PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// write writes a file, and returns its name.
func write(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
