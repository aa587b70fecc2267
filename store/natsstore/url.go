package natsstore

import (
	"context"
	"crypto/tls"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

const urlRule = "write nats://USER:PASSWORD@HOST:PORT,HOST:PORT/BUCKET"

// OpenURL returns a store by a URL:
//
//	nats://USER:PASSWORD@HOST:PORT,HOST:PORT/BUCKET?creds=FILE&domain=NAME&tls=true&cafile=ca.pem
//
// USER and PASSWORD, PORT (4222), BUCKET ("soloist") and the options can be left out; a password without a user is a token. The options are
// documented in docs/stores/nats.md. The store connects when the first request is made. What is wrong with the URL is a *store.InvalidError, which quotes no
// password.
func OpenURL(_ context.Context, text string) (*Store, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	options, err := t.options()
	if err != nil {
		return nil, err
	}
	return open(&connector{options: options, domain: t.domain}, t.config), nil
}

// A target is what a URL names.
type target struct {
	hosts          []string
	user, password string
	creds, nkey    string
	domain         string
	inboxes        string
	dial           time.Duration
	secure         bool
	files          storeurl.TLS
	tls            *tls.Config
	config         Config
}

func parseURL(text string) (*target, error) {
	rest, ok := strings.CutPrefix(text, "nats://")
	if !ok {
		return nil, storeurl.Invalid("store's URL", storeurl.Hidden, "%s", urlRule)
	}
	t := &target{dial: 5 * time.Second}
	authority, bucket, query, err := storeurl.Split(rest)
	if err != nil {
		return nil, err
	}
	t.config.Bucket = bucket
	for _, parse := range []func() error{
		func() error { return t.parseAuthority(authority) },
		func() error { return t.parseOptions(query) },
		func() (err error) { t.config, err = t.config.filled(); return err },
		t.parseDomain,
		func() (err error) { t.tls, err = t.files.Config(t.secure, "write tls=true, too"); return err },
	} {
		if err := parse(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *target) parseAuthority(authority string) (err error) {
	t.user, t.password, t.hosts, err = storeurl.Authority(authority, "4222")
	if err == nil && strings.Contains(authority, "@") && t.password == "" {
		return storeurl.Invalid("user and password of the store's URL", storeurl.Hidden, "write USER:PASSWORD@, or :TOKEN@, or neither")
	}
	return err
}

// parseOptions reads the query. None of the options is a secret.
func (t *target) parseOptions(query string) error {
	return storeurl.Parse(query, t.files.AddTo(map[string]storeurl.Option{
		"creds":       storeurl.Word(&t.creds),
		"nkey":        storeurl.Word(&t.nkey),
		"domain":      storeurl.Word(&t.domain),
		"inboxprefix": storeurl.Word(&t.inboxes),
		"replicas":    storeurl.Count(&t.config.Replicas),
		"synced":      storeurl.Bool(&t.config.Synced),
		"dialtimeout": storeurl.DialTimeout(&t.dial),
		"tls":         storeurl.Bool(&t.secure),
	}))
}

// word is what a domain may be: one token of a subject.
var word = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

func (t *target) parseDomain() error {
	if !word.MatchString(t.domain) {
		return storeurl.Invalid("option domain of the store's URL", strconv.Quote(t.domain), "give letters, digits, _ and -")
	}
	return nil
}

// options returns those of the client, which logs nothing and keeps nothing for a later connection.
func (t *target) options() (nats.Options, error) {
	o := nats.GetDefaultOptions()
	o.Name, o.Timeout, o.PingInterval, o.MaxPingsOut = "soloist", t.dial, pingEvery, pingsLost
	o.MaxReconnect, o.ReconnectWait, o.ReconnectBufSize = -1, pauseFirst, -1
	o.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {}
	for _, host := range t.hosts {
		o.Servers = append(o.Servers, "nats://"+host)
	}
	if t.user != "" {
		o.User, o.Password = t.user, t.password
	} else {
		o.Token = t.password
	}
	if t.tls != nil {
		o.Secure, o.TLSConfig = true, t.tls
	}
	var more []nats.Option
	if t.inboxes != "" {
		more = append(more, nats.CustomInboxPrefix(t.inboxes))
	}
	if t.creds != "" {
		more = append(more, nats.UserCredentials(t.creds))
	}
	if t.nkey != "" {
		key, err := nats.NkeyOptionFromSeed(t.nkey)
		if err != nil {
			return o, storeurl.Invalid("option nkey of the store's URL", strconv.Quote(t.nkey), "name a file with the seed of a user's key: %v", err)
		}
		more = append(more, key)
	}
	for _, set := range more {
		if err := set(&o); err != nil {
			return o, storeurl.Invalid("options of the store's URL", "creds, inboxprefix", "%v", err)
		}
	}
	return o, nil
}
