package cassandrastore

import (
	"context"
	"crypto/tls"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

const urlRule = "write cassandra://USER:PASSWORD@HOST:PORT,HOST:PORT/KEYSPACE"

// OpenURL returns a store by a URL:
//
//	cassandra://USER:PASSWORD@HOST:PORT,HOST:PORT/KEYSPACE?datacenter=dc1
//
// USER, PASSWORD and PORT (9042) can be left out. The hosts are those that are asked first; the other nodes are found through
// them. The options are documented in docs/stores/cassandra.md. It connects when the first request is made. What is wrong with the
// URL is a *store.InvalidError, which quotes no password.
func OpenURL(_ context.Context, text string) (*Store, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	return open(&connector{cluster: t.cluster(), datacenter: t.datacenter}, t.config)
}

// A target is what a URL names.
type target struct {
	hosts          []string
	user, password string
	datacenter     string
	dial, timeout  time.Duration
	secure         bool
	files          storeurl.TLS
	tls            *tls.Config
	config         Config
}

func parseURL(text string) (*target, error) {
	rest, ok := strings.CutPrefix(text, "cassandra://")
	if !ok {
		return nil, storeurl.Invalid("store's URL", storeurl.Hidden, "%s", urlRule)
	}
	t := &target{dial: 5 * time.Second, timeout: 11 * time.Second}
	authority, keyspace, query, err := storeurl.Split(rest)
	if err != nil {
		return nil, err
	}
	if t.config.Keyspace = keyspace; keyspace == "" {
		return nil, storeurl.Invalid("store's URL", storeurl.Hidden, "names no keyspace: %s", urlRule)
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
	t.user, t.password, t.hosts, err = storeurl.Authority(authority, "9042")
	if err == nil && strings.Contains(authority, "@") && (t.user == "" || t.password == "") {
		return storeurl.Invalid("user and password of the store's URL", storeurl.Hidden, "write both, or neither")
	}
	return err
}

// parseOptions reads the query. None of the options is a secret.
func (t *target) parseOptions(query string) error {
	err := storeurl.Parse(query, t.files.AddTo(map[string]storeurl.Option{
		"table":       storeurl.Word(&t.config.Table),
		"datacenter":  storeurl.Word(&t.datacenter),
		"consistency": storeurl.Either(&t.config.Local, "serial", "local_serial"),
		"dialtimeout": storeurl.DialTimeout(&t.dial),
		"timeout":     storeurl.Duration(&t.timeout),
		"tls":         storeurl.Bool(&t.secure),
	}))
	if err == nil && t.config.Local && t.datacenter == "" {
		return storeurl.Invalid("option consistency of the store's URL", strconv.Quote("local_serial"), "name the datacenter, too: datacenter=dc1")
	}
	return err
}

// cluster returns the configuration of the driver.
func (t *target) cluster() *gocql.ClusterConfig {
	c := gocql.NewCluster(t.hosts...)
	c.ConnectTimeout, c.Timeout, c.WriteTimeout = t.dial, t.timeout, t.timeout
	c.ReconnectInterval = time.Second // how long a node that was away stays unused
	c.Metadata.CacheMode = gocql.KeyspaceOnly
	if t.config.Local { // the copies of another datacenter would decide for themselves
		c.HostFilter = gocql.DataCenterHostFilter(t.datacenter)
	}
	if t.user != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: t.user, Password: t.password}
	}
	if t.tls != nil {
		c.SslOpts = &gocql.SslOptions{Config: t.tls, EnableHostVerification: !t.files.Insecure}
	}
	return c
}
