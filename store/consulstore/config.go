package consulstore

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

// A Config configures a store. The zero value is valid.
type Config struct {
	// Addresses are those of agents or servers, as HOST:PORT. The store uses the first that can be reached, and another one after an error. The default is the agent of
	// this machine, 127.0.0.1:8500.
	Addresses []string

	// Prefix is how all keys of the store begin, without the slash after it: 1 to 255 letters, digits, ., _, - and /. No other program may write below it. The
	// default is "soloist".
	Prefix string

	// Token is the ACL token of all requests. It is not shown where a Config is printed. The default is none: the requests are those of the anonymous token.
	Token store.Secret

	// TokenFile is a file with the token, instead of Token. It is read for each request, so that it can be replaced.
	TokenFile string

	// Datacenter is where the records are. The default is the datacenter of the agent.
	Datacenter string

	// Namespace and Partition are those of the keys, in Consul Enterprise. The defaults are those of the token. Other editions refuse them.
	Namespace, Partition string

	// TLS is how the store connects. With nil it connects without TLS, and everybody on the way can read the token.
	TLS *tls.Config

	// DialTimeout is the longest time for connecting to one address, from 1 ms to 1 h. The default is 5 s.
	DialTimeout time.Duration
}

var (
	keyPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$`)
	word      = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)
)

// longestPrefix is in bytes.
const longestPrefix = 255

func (c Config) filled() (Config, error) {
	if len(c.Addresses) == 0 {
		c.Addresses = []string{"127.0.0.1:8500"}
	}
	if c.Prefix == "" {
		c.Prefix = "soloist"
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = 5 * time.Second
	}
	for _, address := range c.Addresses {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" || strings.ContainsAny(address, "/@?#% ") {
			return c, &store.InvalidError{What: "address", Value: strconv.Quote(address), Rule: "give HOST:PORT"}
		}
	}
	if len(c.Prefix) > longestPrefix || !keyPrefix.MatchString(c.Prefix) || dots.MatchString(c.Prefix) {
		return c, &store.InvalidError{
			What: "prefix", Value: strconv.Quote(c.Prefix),
			Rule: "give 1 to " + strconv.Itoa(longestPrefix) + " letters, digits, ., _ and -, with single slashes between them, such as soloist or apps/soloist",
		}
	}
	for what, value := range map[string]string{"datacenter": c.Datacenter, "namespace": c.Namespace, "partition": c.Partition} {
		if !word.MatchString(value) {
			return c, &store.InvalidError{What: what, Value: strconv.Quote(value), Rule: "give letters, digits, _ and -"}
		}
	}
	switch {
	case c.Token != "" && c.TokenFile != "":
		return c, &store.InvalidError{What: "token", Value: "beside the name of a file", Rule: "give a token or a file with one"}
	case !sendable(string(c.Token)):
		return c, &store.InvalidError{What: "token", Value: "with a control character or a space", Rule: "give it as Consul shows it, as SecretID"}
	case c.DialTimeout < storeurl.ShortestDial, c.DialTimeout > storeurl.LongestDial:
		return c, &store.InvalidError{What: "dial timeout", Value: c.DialTimeout.String(),
			Rule: fmt.Sprintf("give %s to %s, or 0 for 5 s", storeurl.ShortestDial, storeurl.LongestDial)}
	}
	return c, nil
}

// dots matches a prefix with a part that Consul takes for a directory.
var dots = regexp.MustCompile(`(^|/)\.\.?(/|$)`)

// sendable reports whether a token can be in a header.
func sendable(token string) bool {
	return !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// transport returns how requests are sent. It sends none twice: net/http repeats only those of which nothing has been sent, and those that are safe to repeat. It does not use
// HTTP/2: all requests would share one connection, which is kept after a request whose reply does not come, and some that were sent would be repeated.
func (c Config) transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: c.DialTimeout}).DialContext,
		TLSClientConfig:     c.TLS,
		TLSHandshakeTimeout: c.DialTimeout,
		MaxIdleConnsPerHost: flights + mostWatched,
		IdleConnTimeout:     30 * time.Second, // less than that of proxies, which would close a connection on which a request is just being sent
	}
}
