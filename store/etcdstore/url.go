package etcdstore

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

const urlRule = "write etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX"

// OpenURL returns a store by a URL:
//
//	etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX?tls=true&cafile=ca.pem
//
// USER, PASSWORD, PORT (2379) and PREFIX (soloist) can be left out. Name all members of the cluster. The options are documented in
// docs/stores/etcd.md. It connects when the first request is made. What is wrong with the URL is a *store.InvalidError, which quotes no
// password.
func OpenURL(_ context.Context, text string) (*Store, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	return open(newConnector(t.client()), t.config)
}

// A target is what a URL names.
type target struct {
	hosts          []string
	user, password string
	dial           time.Duration
	secure         bool
	files          storeurl.TLS
	tls            *tls.Config
	config         Config
}

func parseURL(text string) (*target, error) {
	rest, ok := strings.CutPrefix(text, "etcd://")
	if !ok {
		return nil, storeurl.Invalid("store's URL", storeurl.Hidden, "%s", urlRule)
	}
	t := &target{dial: 5 * time.Second}
	authority, prefix, query, err := storeurl.Split(rest)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(prefix, "%#") {
		return nil, storeurl.Invalid("prefix of the store's URL", storeurl.Hidden, "must have no %% and no #: %s", urlRule)
	}
	t.config.Prefix = prefix
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
	t.user, t.password, t.hosts, err = storeurl.Authority(authority, "2379")
	if err == nil && strings.Contains(authority, "@") && (t.user == "" || t.password == "") {
		return storeurl.Invalid("user and password of the store's URL", storeurl.Hidden, "write both, or neither; a certificate takes the place of both")
	}
	return err
}

// parseOptions reads the query. None of the options is a secret.
func (t *target) parseOptions(query string) error {
	return storeurl.Parse(query, t.files.AddTo(map[string]storeurl.Option{
		"dialtimeout": storeurl.DialTimeout(&t.dial),
		"tls":         storeurl.Bool(&t.secure),
	}))
}

// How often a connection without traffic is checked, and how long a server may take to respond to that. A server that is gone without a word is left then.
const (
	checkEvery   = 10 * time.Second
	checkTimeout = 3 * time.Second
)

// client returns the configuration of the client, which logs nothing.
func (t *target) client() clientv3.Config {
	scheme := "http://"
	if t.secure {
		scheme = "https://"
	}
	c := clientv3.Config{
		DialTimeout: t.dial, DialKeepAliveTime: checkEvery, DialKeepAliveTimeout: checkTimeout,
		Username: t.user, Password: t.password, TLS: t.tls, Logger: zap.NewNop(),
	}
	if t.tls != nil && t.files.ServerName != "" {
		c.DialOptions = append(c.DialOptions, grpc.WithTransportCredentials(named{credentials.NewTLS(t.tls), t.files.ServerName}))
	}
	for _, host := range t.hosts {
		c.Endpoints = append(c.Endpoints, scheme+host)
	}
	return c
}

// named are credentials that expect one name of all servers. The client of etcd would expect each host's own.
type named struct {
	credentials.TransportCredentials
	name string
}

// ClientHandshake implements credentials.TransportCredentials.
func (n named) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return n.TransportCredentials.ClientHandshake(ctx, n.name, conn)
}

// Clone implements credentials.TransportCredentials.
func (n named) Clone() credentials.TransportCredentials {
	return named{n.TransportCredentials.Clone(), n.name}
}
