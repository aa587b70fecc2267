package consulstore

import (
	"context"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

const urlRule = "write consul://:TOKEN@HOST:PORT,HOST:PORT/PREFIX"

// OpenURL returns a store by a URL:
//
//	consul://:TOKEN@HOST:PORT,HOST:PORT/PREFIX?datacenter=dc1&creds=FILE&tls=true&cafile=ca.pem
//
// TOKEN, PORT (8500), PREFIX ("soloist") and the options can be left out. The options are documented in docs/stores/consul.md. The store connects when the first request is
// made. What is wrong with the URL is a *store.InvalidError, which quotes no token.
func OpenURL(_ context.Context, text string) (*Store, error) {
	cfg, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	return New(cfg)
}

func parseURL(text string) (cfg Config, err error) {
	rest, ok := strings.CutPrefix(text, "consul://")
	if !ok {
		return cfg, storeurl.Invalid("store's URL", storeurl.Hidden, "%s", urlRule)
	}
	authority, prefix, query, err := storeurl.Split(rest)
	if err != nil {
		return cfg, err
	}
	var user, token string
	user, token, cfg.Addresses, err = storeurl.Authority(authority, "8500")
	switch {
	case err != nil:
		return cfg, err
	case user != "" || strings.Contains(authority, "@") && token == "":
		return cfg, storeurl.Invalid("token of the store's URL", storeurl.Hidden, "write :TOKEN@, with the colon, or nothing")
	}
	cfg.Token, cfg.Prefix, cfg.DialTimeout = store.Secret(token), prefix, 5*time.Second
	var secure bool
	var files storeurl.TLS
	err = storeurl.Parse(query, files.AddTo(map[string]storeurl.Option{
		"creds":       storeurl.Word(&cfg.TokenFile),
		"datacenter":  storeurl.Word(&cfg.Datacenter),
		"namespace":   storeurl.Word(&cfg.Namespace),
		"partition":   storeurl.Word(&cfg.Partition),
		"dialtimeout": storeurl.DialTimeout(&cfg.DialTimeout),
		"tls":         storeurl.Bool(&secure),
	}))
	if err != nil {
		return cfg, err
	}
	cfg.TLS, err = files.Config(secure, "write tls=true, too")
	return cfg, err
}
