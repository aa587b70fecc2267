package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// OpenURL opens the store that a URL names, with a client of its own, without asking the server anything yet:
//
//	redis://USER:PASSWORD@HOST:PORT/DB                     one server; rediss:// with TLS
//	redis+sentinel://USER:PASSWORD@HOST:PORT,…/MASTER/DB   a server that Sentinels name; rediss+sentinel:// with TLS
//	redis+cluster://USER:PASSWORD@HOST:PORT,…              a cluster; rediss+cluster:// with TLS
//
// What can be left out is USER, PASSWORD, PORT (6379, of Sentinels 26379) and DB (0). The options of the query are documented in
// docs/redis.md. What is wrong with the URL is a *store.InvalidError, which has no secret of it.
func OpenURL(_ context.Context, text string) (*Store, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	s, err := New(u.client(), u.config)
	if err != nil {
		return nil, err
	}
	s.own = true
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

func parseURL(text string) (*target, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	t := &target{dial: 5 * time.Second, read: 10 * time.Second}
	base, kind, _ := strings.Cut(scheme, "+")
	if base != "redis" && base != "rediss" || !slices.Contains([]string{"", "sentinel", "cluster"}, kind) || rest == "" {
		return nil, invalid("scheme of the store's URL", strconv.Quote(scheme), "write redis://, rediss://, redis+sentinel:// or redis+cluster://, then hosts")
	}
	t.kind = kind
	if base == "rediss" {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if err := t.parseAuthority(authority); err != nil {
		return nil, err
	}
	if err := t.parsePath(path); err != nil {
		return nil, err
	}
	if err := t.parseOptions(query); err != nil {
		return nil, err
	}
	return t, t.loadTLS()
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
			host, p = strings.Trim(addr, "[]"), port
		}
		if n, err := strconv.Atoi(p); host == "" || err != nil || n < 1 || n > 65535 {
			return invalid("host of the store's URL", strconv.Quote(addr), "write HOST or HOST:PORT")
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

// parseOptions reads the query. The values of options that are secrets are not told.
func (t *target) parseOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("options of the store's URL", "(not shown)", "write key=value&key=value, and what is not a letter or a digit as %%XX")
	}
	span := func(to *time.Duration) func(string) error {
		return func(v string) (err error) {
			if *to, err = time.ParseDuration(v); err == nil && *to <= 0 {
				err = errors.New("must be more than 0")
			}
			return err
		}
	}
	word := func(to *string) func(string) error { return func(v string) error { *to = v; return nil } }
	options := map[string]func(string) error{
		"prefix":           word(&t.config.Prefix),
		"shedlock":         word(&t.config.ShedLock),
		"wait":             func(v string) (err error) { t.config.Wait, err = strconv.Atoi(v); return err },
		"waittimeout":      span(&t.config.WaitTimeout),
		"pool":             func(v string) (err error) { t.pool, err = strconv.Atoi(v); return err },
		"dialtimeout":      span(&t.dial),
		"timeout":          span(&t.read),
		"sentineluser":     word(&t.sentinelUser),
		"sentinelpassword": word(&t.sentinelPassword),
		"cafile":           word(&t.caFile),
		"certfile":         word(&t.certFile),
		"keyfile":          word(&t.keyFile),
		"servername":       word(&t.serverName),
		"insecure":         func(v string) (err error) { t.insecure, err = strconv.ParseBool(v); return err },
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
		if err := set(all[len(all)-1]); err != nil {
			shown := strconv.Quote(all[len(all)-1])
			if strings.Contains(key, "password") {
				shown = "(not shown)"
			}
			return invalid("option "+key+" of the store's URL", shown, "%v", err)
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

// client makes the client. It heeds contexts and never repeats by itself what may have taken effect: the client of soloist does that, and
// knows what it is doing.
func (t *target) client() redis.UniversalClient {
	switch t.kind {
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: t.master, SentinelAddrs: t.addrs, SentinelUsername: t.sentinelUser, SentinelPassword: t.sentinelPassword,
			Username: t.user, Password: t.password, DB: t.db, TLSConfig: t.tls, PoolSize: t.pool,
			DialTimeout: t.dial, ReadTimeout: t.read, WriteTimeout: t.read, ContextTimeoutEnabled: true, MaxRetries: -1, DisableIdentity: true,
		})
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: t.addrs, Username: t.user, Password: t.password, TLSConfig: t.tls, PoolSize: t.pool,
			DialTimeout: t.dial, ReadTimeout: t.read, WriteTimeout: t.read, ContextTimeoutEnabled: true, MaxRetries: -1, DisableIdentity: true,
			ClusterStateReloadInterval: 2 * time.Second,
		})
	}
	return redis.NewClient(&redis.Options{
		Addr: t.addrs[0], Username: t.user, Password: t.password, DB: t.db, TLSConfig: t.tls, PoolSize: t.pool,
		DialTimeout: t.dial, ReadTimeout: t.read, WriteTimeout: t.read, ContextTimeoutEnabled: true, MaxRetries: -1, DisableIdentity: true,
	})
}
