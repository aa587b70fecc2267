package temporalstore_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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

// TestAPIKey: each request has the key, and the namespace that it is for: a server with many namespaces learns from that which one to ask.
func TestAPIKey(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan metadata.MD, 100)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		of, _ := metadata.FromIncomingContext(stream.Context())
		sent <- of
		return status.Error(codes.Unimplemented, "it only looks at what is sent")
	}))
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	addr, cafile := servers.Encrypted(t, l.Addr().String(), "h2")
	s, err := temporalstore.OpenURL(background, "temporal://apikey:canary@"+addr+"/team?tls=true&cafile="+cafile)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ping(background); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want the error of the server, without the key", err)
	}
	of := <-sent
	if key, namespace := of.Get("authorization"), of.Get("temporal-namespace"); !slices.Equal(key, []string{"Bearer canary"}) || !slices.Equal(namespace, []string{"team"}) {
		t.Errorf("the request has the key %q and the namespace %q", key, namespace)
	}
}
