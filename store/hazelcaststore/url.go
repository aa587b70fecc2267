package hazelcaststore

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/cluster"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

const urlRule = "write hazelcast://USER:PASSWORD@HOST:PORT,HOST:PORT/MAP?cluster=NAME"

// OpenURL returns a store by a URL:
//
//	hazelcast://USER:PASSWORD@HOST:PORT,HOST:PORT/MAP?cluster=NAME&minmembers=2
//
// USER and PASSWORD, PORT (5701), MAP ("soloist") and the options can be left out. The hosts are those that are asked first; the other members are found through
// them. The options are documented in docs/stores/hazelcast.md. The store connects when the first request is made. What is wrong with the URL is a
// *store.InvalidError, which quotes no password.
func OpenURL(_ context.Context, text string) (*Store, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	return New(t.client(), t.config)
}

// A target is what a URL names.
type target struct {
	hosts           []string
	user, password  string
	cluster         string
	unisocket       bool
	dial, heartbeat time.Duration
	secure          bool
	files           storeurl.TLS
	tls             *tls.Config
	config          Config
}

func parseURL(text string) (*target, error) {
	rest, ok := strings.CutPrefix(text, "hazelcast://")
	if !ok {
		return nil, storeurl.Invalid("store's URL", storeurl.Hidden, "%s", urlRule)
	}
	t := &target{cluster: "dev", dial: connectTimeout, heartbeat: 10 * time.Second}
	authority, mapName, query, err := storeurl.Split(rest)
	if err != nil {
		return nil, err
	}
	t.config.Map = mapName
	for _, parse := range []func() error{
		func() error { return t.parseAuthority(authority) },
		func() error { return t.parseOptions(query) },
		func() (err error) { t.config, err = t.config.filled(); return err },
		t.parseTLS,
		func() error {
			if t.config.CP && t.unisocket {
				return storeurl.Invalid("option unisocket of the store's URL", "true", "leave it out with cp=true, which uses one connection at a time")
			}
			return nil
		},
	} {
		if err := parse(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *target) parseAuthority(authority string) (err error) {
	t.user, t.password, t.hosts, err = storeurl.Authority(authority, "5701")
	if err == nil && strings.Contains(authority, "@") && (t.user == "" || t.password == "") {
		return storeurl.Invalid("user and password of the store's URL", storeurl.Hidden, "write both, or neither")
	}
	return err
}

// parseOptions reads the query. None of the options is a secret.
func (t *target) parseOptions(query string) error {
	return storeurl.Parse(query, t.files.AddTo(map[string]storeurl.Option{
		"cluster":          storeurl.Word(&t.cluster),
		"minmembers":       storeurl.Count(&t.config.MinMembers),
		"cp":               storeurl.Bool(&t.config.CP),
		"unisocket":        storeurl.Bool(&t.unisocket),
		"dialtimeout":      storeurl.DialTimeout(&t.dial),
		"heartbeattimeout": storeurl.Duration(&t.heartbeat),
		"tls":              storeurl.Bool(&t.secure),
	}))
}

// parseTLS reads the files. The client verifies one name, for all members.
func (t *target) parseTLS() (err error) {
	t.tls, err = t.files.Config(t.secure, "write tls=true, too")
	if err != nil || t.tls == nil || t.tls.ServerName != "" || t.tls.InsecureSkipVerify {
		return err
	}
	var names []string
	for _, host := range t.hosts {
		name, _, _ := net.SplitHostPort(host)
		names = append(names, name)
	}
	if names = slices.Compact(names); len(names) > 1 {
		return storeurl.Invalid("option tls of the store's URL", "true", "name what the certificates of all members have, too: servername=NAME")
	}
	t.tls.ServerName = names[0]
	return nil
}

// client returns the configuration of the client, which logs nothing.
func (t *target) client() hazelcast.Config {
	var c hazelcast.Config
	c.Logger.Level = logger.OffLevel
	c.Cluster.Name = t.cluster
	c.Cluster.Unisocket = t.unisocket
	c.Cluster.Network.Addresses = t.hosts
	c.Cluster.Network.ConnectionTimeout = types.Duration(t.dial)
	c.Cluster.ConnectionStrategy.Timeout = types.Duration(t.dial)
	c.Cluster.HeartbeatTimeout = types.Duration(t.heartbeat)
	c.Cluster.HeartbeatInterval = types.Duration(t.heartbeat / 5)
	if t.user != "" {
		c.Cluster.Security.Credentials = cluster.CredentialsConfig{Username: t.user, Password: t.password}
	}
	if t.tls != nil {
		c.Cluster.Network.SSL.Enabled = true
		c.Cluster.Network.SSL.SetTLSConfig(t.tls)
	}
	return c
}
