package temporalstore

import (
	"context"
	"crypto/tls"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

const urlRule = "write temporal://HOST:PORT/NAMESPACE, and with an API key temporal://apikey:KEY@HOST:PORT/NAMESPACE?tls=true"

// OpenURL returns a store by a URL:
//
//	temporal://apikey:KEY@HOST:PORT/NAMESPACE?prefix=soloist&tls=true&cafile=ca.pem
//
// "apikey:KEY@", PORT (7233), NAMESPACE ("default") and the options can be left out. The options are documented in docs/stores/temporal.md. The store
// connects when the first request is made. What is wrong with the URL is a *store.InvalidError, which quotes no key.
func OpenURL(_ context.Context, text string) (*Store, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("dns:///"+t.host, t.options()...)
	if err != nil {
		return nil, wrap("connecting", err)
	}
	return open(workflowservice.NewWorkflowServiceClient(conn), t.config, conn.Close)
}

// A target is what a URL names.
type target struct {
	host   string
	key    string
	secure bool
	files  storeurl.TLS
	tls    *tls.Config
	config Config
}

func parseURL(text string) (*target, error) {
	rest, ok := strings.CutPrefix(text, "temporal://")
	if !ok {
		return nil, storeurl.Invalid("store's URL", storeurl.Hidden, "%s", urlRule)
	}
	t := &target{}
	authority, namespace, query, err := storeurl.Split(rest)
	if err != nil {
		return nil, err
	}
	t.config.Namespace = namespace
	for _, parse := range []func() error{
		func() error { return t.parseAuthority(authority) },
		func() error { return t.parseOptions(query) },
		func() (err error) { t.config, err = t.config.filled(); return err },
		func() (err error) { t.tls, err = t.files.Config(t.secure, "write tls=true, too"); return err },
		t.checkKey,
	} {
		if err := parse(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *target) parseAuthority(authority string) error {
	user, key, hosts, err := storeurl.Authority(authority, "7233")
	switch {
	case err != nil:
		return err
	case strings.Contains(authority, "@") && (user != "apikey" || key == ""):
		return storeurl.Invalid("user and password of the store's URL", storeurl.Hidden, "%s", urlRule)
	case len(hosts) != 1:
		return storeurl.Invalid("hosts of the store's URL", storeurl.Hidden, "name one, which may be a name with several addresses")
	}
	t.host, t.key = hosts[0], key
	return nil
}

// parseOptions reads the query. None of the options is a secret.
func (t *target) parseOptions(query string) error {
	return storeurl.Parse(query, t.files.AddTo(map[string]storeurl.Option{
		"prefix": storeurl.Word(&t.config.Prefix),
		"tls":    storeurl.Bool(&t.secure),
	}))
}

func (t *target) checkKey() error {
	if t.key != "" && t.tls == nil {
		return storeurl.Invalid("API key of the store's URL", storeurl.Hidden, "would be sent in clear: write tls=true, too")
	}
	return nil
}

// maxResponse is the greatest response in bytes. A page of a history can be greater than what gRPC takes by default.
const maxResponse = 64 << 20

// How a connection is found to be dead, and made again. By its defaults gRPC would wait for the kernel to give up a connection on which nothing arrives any more, for
// a quarter of an hour, and after a long outage for two minutes before it tries again.
var (
	alive     = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second} // while a request is under way
	reconnect = grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: 5 * time.Second,
	}
)

// options returns how to connect. gRPC repeats no request that may have reached a server.
func (t *target) options() []grpc.DialOption {
	transport := insecure.NewCredentials()
	if t.tls != nil {
		transport = credentials.NewTLS(t.tls)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithKeepaliveParams(alive), grpc.WithConnectParams(reconnect),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)),
	}
	if t.key != "" {
		options = append(options, grpc.WithPerRPCCredentials(apiKey{t.key, t.config.Namespace}))
	}
	return options
}

// An apiKey is sent with each request, with the namespace that it is for.
type apiKey struct{ key, namespace string }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (k apiKey) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + k.key, "temporal-namespace": k.namespace}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (apiKey) RequireTransportSecurity() bool { return true }
