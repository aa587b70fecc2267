package temporalstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store/temporalstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestTLS: a certificate that is trusted, and what is said where there is none.
func TestTLS(t *testing.T) {
	plain := shared(t).Addr
	addr, cafile := servers.Encrypted(t, plain, "h2")
	port := addr[strings.LastIndexByte(addr, ':'):]
	try := func(url string) error {
		s, err := temporalstore.OpenURL(background, url)
		if err != nil {
			return err
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(background, servers.Patience)
		defer cancel()
		return s.Ping(ctx)
	}
	if err := try("temporal://" + addr + "/default?tls=true&cafile=" + cafile); err != nil {
		t.Errorf("with its certificate: %v", err)
	}
	for what, c := range map[string]struct{ url, says string }{
		"the system's authorities": {addr + "/default?tls=true", "not trusted, see cafile"},
		"another name":             {"localhost" + port + "/default?tls=true&cafile=" + cafile, "not localhost"},
		"no TLS":                   {addr + "/default", "write tls=true"},
		"TLS where there is none":  {plain + "/default?tls=true&cafile=" + cafile, "leave out tls=true"},
	} {
		err := try("temporal://" + c.url)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", what, err, c.says)
		}
	}
}
