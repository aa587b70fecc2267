package mysqlstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// connecting adds advice to an error of the network or of TLS.
func connecting(err error) error {
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var name *net.DNSError
	switch {
	case errors.As(err, &host):
		return fmt.Errorf("%w: connect by a name that the server's certificate has, or give the server one with this name", err)
	case errors.As(err, &authority):
		return fmt.Errorf("%w: register the authority with mysql.RegisterTLSConfig, or add it to the system's", err)
	case errors.As(err, &invalid):
		return fmt.Errorf("%w: give the server a certificate that is valid now", err)
	case errors.As(err, &record):
		return fmt.Errorf("%w: the server does not speak TLS here", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: see to the host's name and to the DNS", err)
	}
	return err
}
