package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// An authority issues certificates into a folder.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) issue(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.file(name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	issued, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return issued, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func TestTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	ca.issue("server", &x509.Certificate{DNSNames: []string{"redis.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	ca.issue("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	server := servers.RedisTLS(t, ca.file("ca.crt"), ca.file("server.crt"), ca.file("server.key"))
	base := "rediss://" + server.Addr + "?cafile=" + ca.file("ca.crt")
	mine := "&certfile=" + ca.file("client.crt") + "&keyfile=" + ca.file("client.key")
	for _, good := range []string{base + mine, base + mine + "&servername=redis.test"} {
		s := open(t, good+"&prefix="+prefix())
		r := take(t, s, "name", "h")
		w := watched(t, s, "name")
		if err := release(s, r); err != nil || !woken(w) {
			t.Errorf("%s: %v", good, err)
		}
		var tls store.Level
		findings, err := s.Examine(background)
		for _, f := range findings {
			if f.Subject == "TLS" {
				tls = f.Level
			}
		}
		if err != nil || tls != store.LevelOK {
			t.Errorf("TLS is %q: %v", tls, err)
		}
	}
	for what, c := range map[string]struct{ url, says string }{
		"another authority":  {"rediss://" + server.Addr + "?cafile=" + stranger.file("ca.crt") + mine, "unknown authority"},
		"no authority":       {"rediss://" + server.Addr + "?x=" + mine, "there is none"},
		"the system's":       {"rediss://" + server.Addr + "?timeout=1s" + mine, "unknown authority"},
		"another name":       {base + mine + "&servername=other.test", "other.test"},
		"no certificate":     {base, "certificate required"},
		"not TLS":            {"redis://" + server.Addr, ""},
		"no such file":       {base + "&certfile=/none.crt&keyfile=/none.key", "/none.crt"},
		"no authority in it": {"rediss://" + server.Addr + "?cafile=" + ca.file("ca.key"), "no certificate in PEM"},
	} {
		s, err := openURL(c.url)
		if err == nil {
			// A server that closes a connection may reset it before what it said has been read: then it says it again.
			for range 20 {
				if err = tried(background, s, "name", "h"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
					break
				}
			}
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", what, err, c.says)
		}
	}
}

// Each server of a cluster shows a certificate for its own name.
func TestTLSOfSeveralServers(t *testing.T) {
	ca := newAuthority(t)
	ca.issue("named", &x509.Certificate{DNSNames: []string{"localhost"}})
	ca.issue("numbered", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	dial, err := redisstore.Dialer("rediss+cluster://localhost,127.0.0.1?cafile=" + ca.file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []struct{ name, host, refused string }{
		{"named", "localhost", "127.0.0.1"}, {"numbered", "127.0.0.1", "localhost"}, {"named", "localhost", "127.0.0.1"},
	} {
		own, err := tls.LoadX509KeyPair(ca.file(server.name+".crt"), ca.file(server.name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		listener, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
		if err != nil {
			t.Fatal(err)
		}
		var answered sync.WaitGroup
		answered.Go(func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				answered.Go(func() { _ = conn.(*tls.Conn).HandshakeContext(t.Context()); _ = conn.Close() })
			}
		})
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		conn, err := dial(t.Context(), "tcp4", net.JoinHostPort(server.host, port))
		if err != nil {
			t.Errorf("%s: %v", server.host, err)
		} else {
			_ = conn.Close()
		}
		if conn, err := dial(t.Context(), "tcp4", net.JoinHostPort(server.refused, port)); err == nil {
			t.Errorf("the server of %s is believed to be %s", server.host, server.refused)
			_ = conn.Close()
		}
		_ = listener.Close()
		answered.Wait()
	}
}
