// Package listen opens the addresses on which the project's programs serve HTTP: loopback unless another address is given.
package listen

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/soloist-dev/soloist/store"
)

// An Address is where to listen: a TCP port of an IP address, or a unix socket.
type Address struct {
	ip   netip.Addr // of TCP
	port uint16
	path string // of a unix socket
}

const unixPrefix = "unix:"

// Parse reads PORT, :PORT, HOST:PORT with an IP address or localhost as HOST, or unix:PATH. Without HOST it is 127.0.0.1. Port 0 is any that
// is free. The error is a *store.InvalidError.
func Parse(text string) (Address, error) {
	bad := func(format string, args ...any) (Address, error) {
		return Address{}, &store.InvalidError{What: "address", Value: strconv.Quote(text), Rule: fmt.Sprintf(format, args...)}
	}
	if path, is := strings.CutPrefix(text, unixPrefix); is {
		if path == "" || len(path) > longestPath || strings.ContainsFunc(path, unicode.IsControl) || filepath.Clean(path) != path {
			return bad("give the path of a socket after unix:, of 1 to %d bytes", longestPath)
		}
		return Address{path: path}, nil
	}
	host, port := "", text
	if strings.Contains(text, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return bad("give HOST:PORT; an IPv6 address is in brackets, as in [::1]:9090")
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || port != strconv.FormatUint(n, 10) {
		return bad("the port must be a number from 0 to 65535; 0 means any that is free")
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return bad("the host must be an IP address or localhost; 0.0.0.0 means all addresses of this machine")
	}
	return Address{ip: ip.Unmap(), port: uint16(n)}, nil
}

// longestPath is how long the path of a unix socket can be on all systems.
const longestPath = 100

// Local reports whether only programs of this machine can connect.
func (a Address) Local() bool { return a.path != "" || a.ip.IsLoopback() }

// String returns the address as Parse reads it.
func (a Address) String() string {
	if a.path != "" {
		return unixPrefix + a.path
	}
	return netip.AddrPortFrom(a.ip, a.port).String()
}
