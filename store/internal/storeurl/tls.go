package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strconv"
)

// TLS contains the options of a URL about TLS.
type TLS struct {
	CAFile            string // certificates of the authorities of servers, in PEM; "" for those of the system
	CertFile, KeyFile string // of this client, in PEM; "" for none
	ServerName        string // which a server's certificate must have; "" for the host
	Insecure          bool   // any certificate will do
}

// AddTo adds the options of TLS to others.
func (t *TLS) AddTo(options map[string]Option) map[string]Option {
	maps.Copy(options, map[string]Option{
		"cafile":     Word(&t.CAFile),
		"certfile":   Word(&t.CertFile),
		"keyfile":    Word(&t.KeyFile),
		"servername": Word(&t.ServerName),
		"insecure":   Bool(&t.Insecure),
	})
	return options
}

// Config reads the files. Without TLS it returns nil, and the options are an error, which contains rule: how TLS is switched on.
func (t *TLS) Config(on bool, rule string) (*tls.Config, error) {
	if !on {
		if *t != (TLS{}) {
			return nil, Invalid("options of the store's URL", "cafile, certfile, keyfile, servername, insecure", "are for TLS: %s", rule)
		}
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure} //nolint:gosec // only when somebody asks for it by name
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, unread("option cafile of the store's URL", t.CAFile, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, Invalid("option cafile of the store's URL", strconv.Quote(t.CAFile), "has no certificate in PEM")
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, Invalid("options of the store's URL", "certfile, keyfile", "give both or neither")
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, unread("options certfile and keyfile of the store's URL", t.CertFile, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// unread is the error of a file that cannot be used. One that may not be read is no mistake in the URL.
func unread(what, path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return Invalid(what, strconv.Quote(path), "%v", err)
}
