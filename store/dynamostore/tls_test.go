package dynamostore_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store/dynamostore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestTLS: an endpoint with a certificate that is trusted, and what is said where there is none. Of whom to trust the SDK learns from the environment.
func TestTLS(t *testing.T) {
	credentialsInEnvironment(t)
	server := shared(t)
	plain := strings.TrimPrefix(server.Endpoint, "http://")
	table := fresh(t, server.Endpoint)
	addr, cafile := servers.Encrypted(t, plain, "http/1.1")
	port := addr[strings.LastIndexByte(addr, ':'):]
	for what, c := range map[string]struct{ endpoint, bundle, says string }{
		"its certificate":          {"https://" + addr, cafile, ""},
		"the system's authorities": {"https://" + addr, "", "not trusted, see AWS_CA_BUNDLE"},
		"another name":             {"https://localhost" + port, cafile, "not localhost"},
		"no TLS":                   {"http://" + addr, cafile, "request send failed"},
		"TLS where there is none":  {"https://" + plain, cafile, "write http:"},
	} {
		t.Setenv("AWS_CA_BUNDLE", c.bundle)
		s, err := dynamostore.OpenURL(background, "dynamodb://"+table+"?region=eu-central-1&endpoint="+url.QueryEscape(c.endpoint))
		if err == nil {
			ctx, cancel := context.WithTimeout(background, servers.Patience)
			err = s.Ping(ctx)
			cancel()
			_ = s.Close()
		}
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v; want %q", what, err, c.says)
		}
	}
}
