package etcdstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/soloist-dev/soloist/store"
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

// TestLearnersDoNotVote: a member that only learns decides nothing and confirms nothing, so an operator is told of those that vote.
func TestLearnersDoNotVote(t *testing.T) {
	member := servers.Etcd(t, 1)[0]
	client := newClient(t, member.URL)
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.MemberAddAsLearner(background, []string{"http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	s := on(t, client, prefix())
	findings, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(findings, func(f store.Finding) bool { return f.Subject == "members" }); i < 0 || findings[i].Found != "1 that vote" {
		t.Errorf("%+v, want one member that votes", findings)
	}
	if c, err := s.Capabilities(background); err != nil || !strings.HasSuffix(c.Backend, ", one member") {
		t.Errorf("%+v, %v, want one member", c, err)
	}
}

// answered is a store that sees the replies of etcd as a function has changed them.
func answered(t *testing.T, change func(reply any)) *etcdstore.Store {
	t.Helper()
	changed := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, conn, options...)
		change(reply)
		return err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{shared(t).URL}, DialTimeout: servers.Patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(changed)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return on(t, client, prefix())
}

// TestDatabaseThatIsAlmostFull: an operator is warned before the database is full, from four fifths of its quota on.
func TestDatabaseThatIsAlmostFull(t *testing.T) {
	var used, quota int64
	s := answered(t, func(reply any) {
		if status, is := reply.(*etcdserverpb.StatusResponse); is {
			status.DbSize, status.DbSizeQuota = used, quota
		}
	})
	for _, test := range []struct {
		used, quota int64
		want        []store.Level
	}{
		{799, 1000, []store.Level{store.LevelOK}}, {800, 1000, []store.Level{store.LevelWarning}}, {1001, 1000, []store.Level{store.LevelWarning}},
		{800, 0, nil}, // it is not known
	} {
		used, quota = test.used, test.quota
		findings, err := s.Examine(background)
		if err != nil {
			t.Fatal(err)
		}
		var got []store.Level
		for _, f := range findings {
			if f.Subject == "database" {
				got = append(got, f.Level)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%d of %d bytes: %v, want %v", used, quota, got, test.want)
		}
	}
}

// TestMembersThatVote: what is promised says how many members confirm a write, and an operator is warned of a number of
// them that keeps no more running than one less would.
func TestMembersThatVote(t *testing.T) {
	voters := 0
	s := answered(t, func(reply any) {
		if list, is := reply.(*etcdserverpb.MemberListResponse); is {
			list.Members = []*etcdserverpb.Member{{IsLearner: true}}
			for range voters {
				list.Members = append(list.Members, &etcdserverpb.Member{})
			}
		}
	})
	for n, want := range map[int]store.Level{1: store.LevelWarning, 2: store.LevelWarning, 3: store.LevelOK,
		4: store.LevelWarning, 5: store.LevelOK} {
		voters = n
		findings, err := s.Examine(background)
		if err != nil {
			t.Fatal(err)
		}
		found := fmt.Sprint(n, " that vote")
		if i := slices.IndexFunc(findings, func(f store.Finding) bool { return f.Subject == "members" }); i < 0 ||
			findings[i].Level != want || findings[i].Found != found {
			t.Errorf("of %d: %+v, want %q and %v", n, findings, found, want)
		}
		backend, why := ", one member", "the only member"
		if n > 1 {
			backend, why = fmt.Sprintf(", %d members", n), fmt.Sprintf("a majority of %d members", n)
		}
		if c, err := s.Capabilities(background); err != nil || !strings.HasSuffix(c.Backend, backend) ||
			c.Durable.Answer != store.Yes || !strings.HasPrefix(c.Durable.Why, why) {
			t.Errorf("of %d: %+v, %v, want %q and %q", n, c, err, backend, why)
		}
	}
}
