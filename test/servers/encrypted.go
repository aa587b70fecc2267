//go:build unix

package servers

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Encrypted leads TLS connections with a protocol, h2 or http/1.1, to a server that has no TLS. It returns the address, with 127.0.0.1, and the file of the certificate, which is for 127.0.0.1 and for
// no "localhost".
func Encrypted(t testing.TB, addr, protocol string) (encrypted, cafile string) {
	t.Helper()
	issuer := httptest.NewUnstartedServer(nil)
	issuer.StartTLS()
	certificate := issuer.TLS.Certificates[0]
	issuer.Close()
	cafile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(cafile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	work.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", addr)
			if err != nil {
				_ = from.Close()
				continue
			}
			var both sync.WaitGroup
			for _, c := range [][2]net.Conn{{from, to}, {to, from}} {
				both.Go(func() {
					_, _ = io.Copy(c[0], c[1])
					_ = c[0].Close()
					_ = c[1].Close()
				})
			}
			t.Cleanup(func() { _ = from.Close(); both.Wait() })
		}
	})
	return l.Addr().String(), cafile
}
