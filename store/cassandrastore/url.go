package cassandrastore

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

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
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
	hosts              []string
	user, password     string
	datacenter         string
	dial, timeout      time.Duration
	secure, insecure   bool
	caFile, serverName string
	certFile, keyFile  string
	tls                *tls.Config
	config             Config
}

func invalid(what, value, rule string, args ...any) error {
	return &store.InvalidError{What: what, Value: value, Rule: fmt.Sprintf(rule, args...)}
}

const hidden = "(not shown)" // it may be a password

func parseURL(text string) (*target, error) {
	rest, ok := strings.CutPrefix(text, "cassandra://")
	if !ok {
		return nil, invalid("store's URL", hidden, "%s", urlRule)
	}
	t := &target{dial: 5 * time.Second, timeout: 11 * time.Second}
	rest, query, _ := strings.Cut(rest, "?")
	authority, keyspace, _ := strings.Cut(rest, "/")
	if strings.Contains(keyspace, "@") || strings.Contains(query, "@") { // what was read as hosts, keyspace and options is a password
		return nil, invalid("store's URL", hidden, "has an @ after the hosts: write @, / and ? in user, password and options as %%40, %%2F and %%3F")
	}
	if t.config.Keyspace = keyspace; keyspace == "" {
		return nil, invalid("store's URL", hidden, "names no keyspace: %s", urlRule)
	}
	for _, parse := range []func() error{
		func() error { return t.parseAuthority(authority) },
		func() error { return t.parseOptions(query) },
		t.loadTLS,
		func() (err error) { t.config, err = t.config.filled(); return err },
	} {
		if err := parse(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func (t *target) parseAuthority(authority string) error {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		var err1, err2 error
		t.user, err1 = url.PathUnescape(user)
		t.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil || t.user == "" || t.password == "" {
			return invalid("user and password of the store's URL", hidden, "write both, and what is not a letter or a digit as %%XX")
		}
		authority = authority[i+1:]
	}
	for addr := range strings.SplitSeq(authority, ",") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]"), "9042"
		}
		_, notIP := netip.ParseAddr(host)
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || notIP != nil && !hostName.MatchString(host) {
			return invalid("host of the store's URL", hidden, "write HOST or HOST:PORT, after USER:PASSWORD@ if there are any")
		}
		t.hosts = append(t.hosts, net.JoinHostPort(host, port))
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

func choice(to *bool, no, yes string) func(string) error {
	return func(v string) error {
		if *to = v == yes; v != yes && v != no {
			return fmt.Errorf("must be %s or %s", no, yes)
		}
		return nil
	}
}

// parseOptions reads the query. None of the options is a secret.
func (t *target) parseOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("options of the store's URL", hidden, "write key=value&key=value, and what is not a letter or a digit as %%XX")
	}
	options := map[string]func(string) error{
		"table":       word(&t.config.Table),
		"datacenter":  word(&t.datacenter),
		"consistency": choice(&t.config.Local, "serial", "local_serial"),
		"dialtimeout": lasting(&t.dial),
		"timeout":     lasting(&t.timeout),
		"tls":         choice(&t.secure, "false", "true"),
		"cafile":      word(&t.caFile),
		"certfile":    word(&t.certFile),
		"keyfile":     word(&t.keyFile),
		"servername":  word(&t.serverName),
		"insecure":    choice(&t.insecure, "false", "true"),
	}
	for key, all := range values {
		set, ok := options[key]
		if !ok {
			known := make([]string, 0, len(options))
			for name := range options {
				known = append(known, name)
			}
			slices.Sort(known)
			return invalid("option of the store's URL", strconv.Quote(key), "is unknown; there are %s", strings.Join(known, ", "))
		}
		if len(all) != 1 {
			return invalid("option "+key+" of the store's URL", strconv.Quote(all[1]), "is given twice: give it once")
		}
		if err := set(all[0]); err != nil {
			return invalid("option "+key+" of the store's URL", strconv.Quote(all[0]), "%s", err.Error())
		}
	}
	if t.config.Local && t.datacenter == "" {
		return invalid("option consistency of the store's URL", strconv.Quote("local_serial"), "name the datacenter, too: datacenter=dc1")
	}
	return nil
}

// loadTLS reads the files of certificates.
func (t *target) loadTLS() error {
	if !t.secure {
		if t.caFile != "" || t.certFile != "" || t.keyFile != "" || t.serverName != "" || t.insecure {
			return invalid("options of the store's URL", "cafile, certfile, keyfile, servername, insecure", "are for TLS: write tls=true, too")
		}
		return nil
	}
	t.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.serverName, InsecureSkipVerify: t.insecure} //nolint:gosec // only when somebody asks for it by name
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

// cluster returns the configuration of the driver.
func (t *target) cluster() *gocql.ClusterConfig {
	c := gocql.NewCluster(t.hosts...)
	c.ConnectTimeout, c.Timeout, c.WriteTimeout = t.dial, t.timeout, t.timeout
	c.ReconnectInterval = 2 * time.Second // how long a node that was away stays unused
	c.Metadata.CacheMode = gocql.KeyspaceOnly
	if t.user != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: t.user, Password: t.password}
	}
	if t.tls != nil {
		c.SslOpts = &gocql.SslOptions{Config: t.tls, EnableHostVerification: !t.insecure}
	}
	return c
}
