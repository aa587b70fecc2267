package listen

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// LocalHosts returns a handler that responds 421 to requests whose Host is neither a loopback address nor localhost. A page of the web that
// has its own name resolved to a loopback address (DNS rebinding) can send requests to h, but its Host is that name.
func LocalHosts(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsLocal(r.Host) {
			http.Error(w, "misdirected request: this address is for programs of this machine; use 127.0.0.1 or localhost as host", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// IsLocal reports whether the Host of a request is a loopback address or localhost, with or without a port.
func IsLocal(host string) bool {
	name := HostOf(host)
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// HostOf returns a Host without its port and without the brackets of an IPv6 address.
func HostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1]
	}
	return host
}
