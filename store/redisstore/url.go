package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
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
	kind               string // "", "sentinel", "cluster"
	addrs              []string
	user, password     string
	master             string
	db                 int
	sentinelUser       string
	sentinelPassword   string
	tls                *tls.Config
	pool               int
	dial, read         time.Duration
	certFile, keyFile  string
	caFile, serverName string
	insecure           bool
	config             Config
}

func invalid(what, value, rule string, args ...any) error {
	return &store.InvalidError{What: what, Value: value, Rule: fmt.Sprintf(rule, args...)}
}

var (
	schemes = regexp.MustCompile(`^[a-z+]{0,20}$`)
	hosts   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

func parseURL(text string) (*target, error) {
	const rule = "write redis://, rediss://, redis+sentinel:// or redis+cluster://, then hosts"
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !schemes.MatchString(scheme) {
		return nil, invalid("store's URL", "(not shown)", rule) // it may be a password
	}
	t := &target{dial: 5 * time.Second, read: 10 * time.Second}
	base, kind, _ := strings.Cut(scheme, "+")
	if base != "redis" && base != "rediss" || !slices.Contains([]string{"", "sentinel", "cluster"}, kind) || rest == "" {
		return nil, invalid("scheme of the store's URL", strconv.Quote(scheme), rule)
	}
	t.kind = kind
	if base == "rediss" {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path, "@") || strings.Contains(query, "@") { // what was read as hosts, path and options is a password
		return nil, invalid("store's URL", "(not shown)", "has an @ after the hosts: write @, / and ? in user, password and options as %%40, %%2F and %%3F")
	}
	for _, parse := range []func() error{
		func() error { return t.parseAuthority(authority) },
		func() error { return t.parsePath(path) },
		func() error { return t.parseOptions(query) },
		t.loadTLS,
		func() error { return t.config.defaulted().check() },
	} {
		if err := parse(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *target) parseAuthority(authority string) error {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		var err1, err2 error
		t.user, err1 = url.PathUnescape(user)
		t.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return invalid("user and password of the store's URL", "(not shown)", "write what is not a letter or a digit as %%XX")
		}
		authority = authority[i+1:]
	}
	port := "6379"
	if t.kind == "sentinel" {
		port = "26379"
	}
	for addr := range strings.SplitSeq(authority, ",") {
		host, p, err := net.SplitHostPort(addr)
		if err != nil {
			host, p = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]"), port
		}
		_, notIP := netip.ParseAddr(host)
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || notIP != nil && !hosts.MatchString(host) {
			return invalid("host of the store's URL", "(not shown)", "write HOST or HOST:PORT, after USER:PASSWORD@ if there are any") // it may be a password
		}
		t.addrs = append(t.addrs, net.JoinHostPort(host, p))
	}
	if t.kind == "" && len(t.addrs) > 1 {
		return invalid("hosts of the store's URL", strconv.Quote(authority), "write one host, or redis+sentinel:// or redis+cluster:// for several")
	}
	return nil
}

func (t *target) parsePath(path string) error {
	db := path
	switch t.kind {
	case "sentinel":
		t.master, db, _ = strings.Cut(path, "/")
		if t.master == "" {
			return invalid("path of the store's URL", strconv.Quote("/"+path), "write the name under which the Sentinels know the master: redis+sentinel://HOSTS/MASTER")
		}
	case "cluster":
		if path != "" && path != "0" {
			return invalid("path of the store's URL", strconv.Quote("/"+path), "leave it out: a cluster has one database")
		}
		return nil
	}
	if db == "" {
		return nil
	}
	var err error
	if t.db, err = strconv.Atoi(db); err != nil || t.db < 0 {
		return invalid("database of the store's URL", strconv.Quote(db), "write a number from 0 on")
	}
	return nil
}

// What an option's value may be. An error is the rule that it breaks.
func word(to *string) func(string) error {
	return func(v string) error {
		if *to = v; v == "" {
			return errors.New("must not be empty")
		}
		return nil
	}
}

func lasting(to *time.Duration) func(string) error {
	return func(v string) (err error) {
		if *to, err = time.ParseDuration(v); err != nil || *to <= 0 {
			return errors.New("must be a duration of more than 0, such as 500ms or 2s")
		}
		return nil
	}
}

func count(to *int) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.Atoi(v); err != nil || *to < 0 || *to > 100_000 {
			return errors.New("must be a number from 0 to 100000")
		}
		return nil
	}
}

func choice(to *bool) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.ParseBool(v); err != nil {
			return errors.New("must be true or false")
		}
		return nil
	}
}

func sharing(to *bool) func(string) error {
	return func(v string) error {
		if choice(to)(v) != nil {
			return errors.New("must be true or false; the environment of ShedLock's provider is the option shedlock_env")
		}
		return nil
	}
}

var errDoubled = errors.New("is given twice: give it once")

// parseOptions reads the query. The values of options that are secrets are not told.
func (t *target) parseOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("options of the store's URL", "(not shown)", "write key=value&key=value, and what is not a letter or a digit as %%XX")
	}
	options := map[string]func(string) error{
		"prefix":           word(&t.config.Prefix),
		"shedlock":         sharing(&t.config.ShedLock),
		"shedlock_env":     word(&t.config.ShedLockEnv),
		"shedlock_prefix":  word(&t.config.ShedLockPrefix),
		"redisson":         choice(&t.config.Redisson),
		"wait":             count(&t.config.Wait),
		"waittimeout":      lasting(&t.config.WaitTimeout),
		"pool":             count(&t.pool),
		"dialtimeout":      lasting(&t.dial),
		"timeout":          lasting(&t.read),
		"sentineluser":     word(&t.sentinelUser),
		"sentinelpassword": word(&t.sentinelPassword),
		"cafile":           word(&t.caFile),
		"certfile":         word(&t.certFile),
		"keyfile":          word(&t.keyFile),
		"servername":       word(&t.serverName),
		"insecure":         choice(&t.insecure),
	}
	for key, all := range values {
		set, ok := options[key]
		if !ok {
			known := make([]string, 0, len(options))
			for name := range options {
				known = append(known, name)
			}
			slices.Sort(known)
			return invalid("option of the store's URL", strconv.Quote(key), "there is none of that name; there are %s", strings.Join(known, ", "))
		}
		err := errDoubled
		if len(all) == 1 {
			err = set(all[0])
		}
		if err != nil {
			shown := strconv.Quote(all[len(all)-1])
			if strings.Contains(key, "password") {
				shown = "(not shown)"
			}
			return invalid("option "+key+" of the store's URL", shown, "%s", err.Error())
		}
	}
	return nil
}

// loadTLS reads the files of certificates.
func (t *target) loadTLS() error {
	if t.tls == nil {
		if t.caFile != "" || t.certFile != "" || t.keyFile != "" || t.serverName != "" || t.insecure {
			return invalid("options of the store's URL", "cafile, certfile, keyfile, servername, insecure", "are for TLS: begin the URL with rediss")
		}
		return nil
	}
	t.tls.ServerName, t.tls.InsecureSkipVerify = t.serverName, t.insecure //nolint:gosec // only when somebody asks for it by name
	if t.caFile != "" {
		pem, err := os.ReadFile(t.caFile)
		if err != nil {
			return invalid("option cafile of the store's URL", strconv.Quote(t.caFile), "%v", err)
		}
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
			return invalid("option cafile of the store's URL", strconv.Quote(t.caFile), "has no certificate in PEM")
		}
	}
	if (t.certFile == "") != (t.keyFile == "") {
		return invalid("options of the store's URL", "certfile, keyfile", "give both or neither")
	}
	if t.certFile != "" {
		cert, err := tls.LoadX509KeyPair(t.certFile, t.keyFile)
		if err != nil {
			return invalid("options certfile and keyfile of the store's URL", strconv.Quote(t.certFile), "%v", err)
		}
		t.tls.Certificates = []tls.Certificate{cert}
	}
	return nil
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
