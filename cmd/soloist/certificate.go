package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// readCertificate reads the files of TLS. If either is not whole, or they do not belong together, those that were read before stay in use.
func (r *serveRun) readCertificate() error {
	chain, err := os.ReadFile(r.cert)
	var key []byte
	if err == nil {
		key, err = os.ReadFile(r.key)
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(chain, key)
	}
	if err == nil {
		err = checkChain(chain, pair.Certificate)
	}
	if err != nil {
		return badConfig(fmt.Errorf("--tls-cert %s, --tls-key %s: %w", r.cert, r.key, err))
	}
	r.pair.Store(&pair)
	return nil
}

// checkChain returns an error if a file of certificates has a part that is no whole certificate. tls.X509KeyPair skips such a part, and parses
// the first certificate alone.
func checkChain(file []byte, chain [][]byte) error {
	marks := 0 // lines that begin or end a block
	for line := range bytes.Lines(file) {
		if bytes.HasPrefix(line, []byte("-----")) {
			marks++
		}
	}
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		marks -= 2
	}
	if marks != 0 {
		return errors.New("the file of certificates is not whole: a block lacks its end, or has characters that are not Base64")
	}
	for i, der := range chain {
		if _, err := x509.ParseCertificate(der); err != nil {
			return fmt.Errorf("certificate %d of %d: %w", i+1, len(chain), err)
		}
	}
	return nil
}
