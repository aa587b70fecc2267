package listen

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// OnlyHosts returns a handler that responds 421 to requests of which Served reports false. A page of the web that
// has its own name resolved to a loopback address (DNS rebinding) can send requests to h, but its Host is that name.
func OnlyHosts(h http.Handler, others ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Served(r.Host, others) {
			http.Error(w, "misdirected request: this address is not for that host; use 127.0.0.1 or localhost as host", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Served reports whether the Host of a request, with or without a port, is a loopback address, localhost, or one of others: names, or IP addresses without
// brackets. The other "*" is every host.
func Served(host string, others []string) bool {
	name := HostOf(host)
	if strings.EqualFold(name, "localhost") {
		return true
	}
	if ip, err := netip.ParseAddr(name); err == nil && ip.Unmap().IsLoopback() {
		return true
	}
	return slices.ContainsFunc(others, func(other string) bool { return other == "*" || strings.EqualFold(other, name) })
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
