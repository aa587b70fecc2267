package storeurl

import (
	"crypto/tls"
	"strings"
)

// Untrusted returns err as an error that is a *tls.CertificateVerificationError, if its text says that it was one: some libraries keep the text alone.
func Untrusted(err error) error {
	if err == nil || !strings.Contains(err.Error(), "failed to verify certificate") {
		return err
	}
	return untrusted{err}
}

type untrusted struct{ error }

// Unwrap returns the library's error.
func (u untrusted) Unwrap() error { return u.error }

// As makes errors.As find what the library has lost.
func (u untrusted) As(target any) bool {
	t, ok := target.(**tls.CertificateVerificationError)
	if ok {
		*t = &tls.CertificateVerificationError{Err: u.error}
	}
	return ok
}
