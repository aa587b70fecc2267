package etcdstore_test

import (
	"context"
	"net"
	"testing"

	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestSilentMember: a member that takes connections and says nothing, as one that is paused, does not keep an operator from learning about the others.
func TestSilentMember(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	s, err := etcdstore.OpenURL(background, "etcd://"+silent.Addr().String()+","+shared(t).Addr+"/"+prefix())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ctx, cancel := context.WithTimeout(background, servers.Patience)
	defer cancel()
	findings, err := s.Examine(ctx)
	if err != nil || len(findings) == 0 {
		t.Errorf("%+v, %v", findings, err)
	}
	if c, err := s.Capabilities(ctx); err != nil || c.Backend == "etcd" {
		t.Errorf("%+v, %v, want the version of the member that replies", c, err)
	}
}
