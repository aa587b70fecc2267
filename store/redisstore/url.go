package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

// OpenURL opens the store that a URL names, with its own client, without asking the server anything yet:
//
//	redis://USER:PASSWORD@HOST:PORT/DB                     one server; rediss:// with TLS
//	redis+sentinel://USER:PASSWORD@HOST:PORT,…/MASTER/DB   a server that Sentinels name; rediss+sentinel:// with TLS
//	redis+cluster://USER:PASSWORD@HOST:PORT,…              a cluster; rediss+cluster:// with TLS
//
// What can be left out is USER, PASSWORD, PORT (6379, of Sentinels 26379) and DB (0). The options of the query are documented in
// docs/stores/redis.md. What is wrong with the URL is a *store.InvalidError, which has no secret of it.
func OpenURL(_ context.Context, text string) (*Store, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	s, err := New(u.client(), u.config)
	if err != nil {
		return nil, err
	}
	s.own, s.secure = true, u.tls != nil
	return s, nil
}

// A target is what a URL says.
type target struct {
	kind             string // "", "sentinel", "cluster"
	addrs            []string
	user, password   string
	master           string
	db               int
	sentinelUser     string
	sentinelPassword string
	tls              *tls.Config
	pool             int
	dial, read       time.Duration
	files            storeurl.TLS
	config           Config
}

var schemes = regexp.MustCompile(`^[a-z+]{0,20}$`)

func parseURL(text string) (*target, error) {
	const rule = "write redis://, rediss://, redis+sentinel:// or redis+cluster://, then hosts"
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !schemes.MatchString(scheme) {
		return nil, storeurl.Invalid("store's URL", storeurl.Hidden, rule) // it may be a password
	}
	t := &target{dial: 5 * time.Second, read: 10 * time.Second}
	base, kind, _ := strings.Cut(scheme, "+")
	if base != "redis" && base != "rediss" || !slices.Contains([]string{"", "sentinel", "cluster"}, kind) || rest == "" {
		return nil, storeurl.Invalid("scheme of the store's URL", strconv.Quote(scheme), rule)
	}
	t.kind = kind
	authority, path, query, err := storeurl.Split(rest)
	if err != nil {
		return nil, err
	}
	for _, parse := range []func() error{
		func() error { return t.parseAuthority(authority) },
		func() error { return t.parsePath(path) },
		func() error { return t.parseOptions(query) },
		func() (err error) {
			t.tls, err = t.files.Config(base == "rediss", "begin the URL with rediss")
			return err
		},
		func() error { return t.config.defaulted().check() },
	} {
		if err := parse(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *target) parseAuthority(authority string) (err error) {
	port := "6379"
	if t.kind == "sentinel" {
		port = "26379"
	}
	if t.user, t.password, t.addrs, err = storeurl.Authority(authority, port); err != nil {
		return err
	}
	if t.kind == "" && len(t.addrs) > 1 {
		return storeurl.Invalid("hosts of the store's URL", strconv.Quote(strings.Join(t.addrs, ",")), "write one host, or redis+sentinel:// or redis+cluster:// for several")
	}
	return nil
}

func (t *target) parsePath(path string) error {
	db := path
	switch t.kind {
	case "sentinel":
		t.master, db, _ = strings.Cut(path, "/")
		if t.master == "" {
			return storeurl.Invalid("path of the store's URL", strconv.Quote("/"+path), "write the name under which the Sentinels know the master: redis+sentinel://HOSTS/MASTER")
		}
	case "cluster":
		if path != "" && path != "0" {
			return storeurl.Invalid("path of the store's URL", strconv.Quote("/"+path), "leave it out: a cluster has one database")
		}
		return nil
	}
	if db == "" {
		return nil
	}
	var err error
	if t.db, err = strconv.Atoi(db); err != nil || t.db < 0 {
		return storeurl.Invalid("database of the store's URL", strconv.Quote(db), "write a number from 0 on")
	}
	return nil
}

// parseOptions reads the query.
func (t *target) parseOptions(query string) error {
	return storeurl.Parse(query, t.files.AddTo(map[string]storeurl.Option{
		"prefix":           storeurl.Word(&t.config.Prefix),
		"share":            storeurl.Word(&t.config.Share),
		"redisson":         storeurl.Bool(&t.config.Redisson),
		"wait":             storeurl.Count(&t.config.Wait),
		"waittimeout":      storeurl.Duration(&t.config.WaitTimeout),
		"pool":             storeurl.Count(&t.pool),
		"dialtimeout":      storeurl.DialTimeout(&t.dial),
		"timeout":          storeurl.Duration(&t.read),
		"sentineluser":     storeurl.Word(&t.sentinelUser),
		"sentinelpassword": storeurl.Word(&t.sentinelPassword),
	}))
}

// client makes the client. It never repeats by itself what may have taken effect: the client of soloist does that, and knows what it is
// doing.
func (t *target) client() redis.UniversalClient {
	switch t.kind {
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: t.master, SentinelAddrs: t.addrs, SentinelUsername: t.sentinelUser, SentinelPassword: t.sentinelPassword,
			Username: t.user, Password: t.password, DB: t.db, Dialer: t.connect, DialerRetries: 1, PoolSize: t.pool,
			DialTimeout: t.dial, ReadTimeout: t.read, WriteTimeout: t.read, ContextTimeoutEnabled: true, MaxRetries: -1, DisableIdentity: true,
		})
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: t.addrs, Username: t.user, Password: t.password, Dialer: t.connect, DialerRetries: 1, PoolSize: t.pool,
			DialTimeout: t.dial, ReadTimeout: t.read, WriteTimeout: t.read, ContextTimeoutEnabled: true, MaxRetries: -1, DisableIdentity: true,
			ClusterStateReloadInterval: 2 * time.Second,
		})
	}
	return redis.NewClient(&redis.Options{
		Addr: t.addrs[0], Username: t.user, Password: t.password, DB: t.db, Dialer: t.connect, DialerRetries: 1, PoolSize: t.pool,
		DialTimeout: t.dial, ReadTimeout: t.read, WriteTimeout: t.read, ContextTimeoutEnabled: true, MaxRetries: -1, DisableIdentity: true,
	})
}

// connect dials. Whatever fails in it is an error of dialing, after which nothing has been sent.
func (t *target) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.dial)
	defer cancel()
	conn, err := (&net.Dialer{KeepAlive: 5 * time.Minute}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if t.tls == nil {
		return shaped(conn), nil
	}
	settings := t.tls.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil && settings.ServerName == "" {
		settings.ServerName = host
	}
	secure := tls.Client(conn, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: fmt.Errorf("TLS: %w", err)}
	}
	return shaped(secure), nil
}
