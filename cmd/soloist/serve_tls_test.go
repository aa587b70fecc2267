//go:build unix

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/server"
	"github.com/soloist-dev/soloist/test/servers"
)

// writeCertificate writes a new certificate for 127.0.0.1 and its key to dir, and returns those who trust it.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: public}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}))
	return pool
}

// writeToken writes a file with a new token, and returns its secret.
func writeToken(t *testing.T, path, role string) string {
	t.Helper()
	secret, line, err := server.NewToken("ci", role, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return secret
}

// getStatus returns the status of a list with a token; 0 if there is no connection.
func getStatus(t *testing.T, addr, token string, trusted *x509.CertPool, version uint16) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+"/v1/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: version, MaxVersion: version}, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// serve has TLS 1.2 and 1.3 and nothing older. HUP makes it read the files of tokens and of TLS again; a file that is wrong changes nothing.
func TestServeReadsItsFilesAgain(t *testing.T) {
	dir := memoryDir(t)
	tokens := filepath.Join(dir, "tokens")
	trusted, secret := writeCertificate(t, dir), writeToken(t, tokens, "read")
	p := watched(t, dir, "memory:", "serve", "--listen", "0", "--tokens", "tokens", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	addr := p.address()
	for version, want := range map[uint16]int{tls.VersionTLS10: 0, tls.VersionTLS11: 0, tls.VersionTLS12: 200, tls.VersionTLS13: 200} {
		if got := getStatus(t, addr, secret, trusted, version); got != want {
			t.Errorf("%s: %d, want %d", tls.VersionName(version), got, want)
		}
	}
	const version = tls.VersionTLS13
	again := func() {
		t.Helper()
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	newer, newSecret := writeCertificate(t, dir), writeToken(t, tokens, "read")
	again()
	until(t, "the new files are used", func() bool { return getStatus(t, addr, newSecret, newer, version) == 200 })
	if got := getStatus(t, addr, secret, newer, version); got != 401 {
		t.Errorf("the old token: %d", got)
	}
	if got := getStatus(t, addr, newSecret, trusted, version); got != 0 {
		t.Errorf("the old certificate: %d", got)
	}
	for _, name := range []string{"tokens", "cert.pem"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("wrong\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again()
	p.untilSaid(`file=tokens err=`)
	p.untilSaid(`file=cert.pem err=`)
	if got := getStatus(t, addr, newSecret, newer, version); got != 200 {
		t.Errorf("with files that are wrong: %d", got)
	}
	p.ends()
}

// A chain of certificates of which a part lacks its end is refused, and what was read before stays in use: clients would miss a certificate.
func TestChainsThatAreCutAreRefused(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	writeCertificate(t, dir)
	writeCertificate(t, other)
	r := &serveRun{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	leaf, parent := read(r.cert), read(filepath.Join(other, "cert.pem"))
	try := func(parent []byte) error {
		if err := os.WriteFile(r.cert, slices.Concat(leaf, parent), 0o600); err != nil {
			t.Fatal(err)
		}
		return r.readCertificate()
	}
	if err := try(parent); err != nil {
		t.Fatal(err)
	}
	whole := r.pair.Load()
	if len(whole.Certificate) != 2 {
		t.Fatalf("%d certificates were read", len(whole.Certificate))
	}
	const dashes = len("-----")
	for cut := dashes; cut < len(parent)-dashes-1; cut++ {
		if err := try(parent[:cut]); err == nil || r.pair.Load() != whole {
			t.Errorf("the second certificate is accepted with %d of its %d bytes: %v", cut, len(parent), err)
		}
	}
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")})
	if err := try(broken); err == nil || r.pair.Load() != whole {
		t.Errorf("a second block that is no certificate: %v", err)
	}
	if err := try(slices.Concat([]byte("# of the authority\n"), parent)); err != nil || r.pair.Load() == whole {
		t.Errorf("a remark before the second certificate: %v", err)
	}
}
