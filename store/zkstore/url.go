package zkstore

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

const urlRule = "write zk://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH"

// OpenURL returns a store by a URL:
//
//	zk://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?sessiontimeout=10s
//
// USER, PASSWORD, PORT (2181) and PATH (soloist) can be left out. Name all servers of the ensemble. With a user, the nodes that the store makes are for that user
// alone, and without one for everybody. The options are documented in docs/stores/zookeeper.md. It connects when the first request is made. What is wrong
// with the URL is a *store.InvalidError, which quotes no password.
func OpenURL(_ context.Context, text string) (*Store, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	return open(newConnector(t), t.config)
}

// A target is what a URL names.
type target struct {
	hosts          []string
	user, password string
	session, dial  time.Duration
	secure         bool
	files          storeurl.TLS
	tls            *tls.Config
	config         Config
}

func parseURL(text string) (*target, error) {
	rest, ok := strings.CutPrefix(text, "zk://")
	if !ok {
		return nil, storeurl.Invalid("store's URL", storeurl.Hidden, "%s", urlRule)
	}
	t := &target{session: 10 * time.Second, dial: 2 * time.Second}
	authority, path, query, err := storeurl.Split(rest)
	if err != nil {
		return nil, err
	}
	if path != "" {
		t.config.Path = "/" + path
	}
	for _, parse := range []func() error{
		func() error { return t.parseAuthority(authority) },
		func() error { return t.parseOptions(query) },
		func() (err error) { t.tls, err = t.files.Config(t.secure, "write tls=true, too"); return err },
		func() (err error) { t.config, err = t.config.filled(); return err },
	} {
		if err := parse(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *target) parseAuthority(authority string) (err error) {
	t.user, t.password, t.hosts, err = storeurl.Authority(authority, "2181")
	switch {
	case err != nil:
		return err
	case strings.Contains(authority, "@") && (t.user == "" || t.password == ""):
		return storeurl.Invalid("user and password of the store's URL", storeurl.Hidden, "write both, or neither")
	case strings.Contains(t.user, ":"):
		return storeurl.Invalid("user of the store's URL", storeurl.Hidden, "must have no colon, which ends a user of ZooKeeper")
	case t.user != "":
		t.config.ACL = zk.AuthACL(zk.PermAll)
	}
	return nil
}

// parseOptions reads the query. None of the options is a secret.
func (t *target) parseOptions(query string) error {
	err := storeurl.Parse(query, t.files.AddTo(map[string]storeurl.Option{
		"sessiontimeout": storeurl.Duration(&t.session),
		"dialtimeout":    storeurl.DialTimeout(&t.dial),
		"tls":            storeurl.Bool(&t.secure),
	}))
	if err == nil && (t.session < shortestSession || t.session > longestSession) {
		return storeurl.Invalid("option sessiontimeout of the store's URL", strconv.Quote(t.session.String()),
			"give %s to %s: a server has so long for its first reply", shortestSession, longestSession)
	}
	return err
}

// What a session may be. The protocol has milliseconds in 32 bits, and servers grant less than that.
const (
	shortestSession = 100 * time.Millisecond
	longestSession  = time.Hour
)

// connect returns a connection to a server.
func (t *target) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if t.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return (&tls.Dialer{Config: t.tls}).DialContext(ctx, network, address)
}
