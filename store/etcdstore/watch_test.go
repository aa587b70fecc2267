package etcdstore

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/soloist-dev/soloist/test/servers"
)

// A watching server begins each watch that it is asked for, and sends what the test gives it. There is no network to it.
type watching struct {
	ctx     context.Context
	begun   int64
	replies chan *etcdserverpb.WatchResponse
}

func (s *watching) open(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s.ctx = ctx
	return s, nil
}

func (s *watching) Header() (metadata.MD, error) { return nil, nil }
func (s *watching) Trailer() metadata.MD         { return nil }
func (s *watching) CloseSend() error             { return nil }
func (s *watching) Context() context.Context     { return s.ctx }

func (s *watching) SendMsg(request any) error {
	if request.(*etcdserverpb.WatchRequest).GetCreateRequest() != nil { //nolint:forcetypeassert // of the only stream
		s.replies <- &etcdserverpb.WatchResponse{WatchId: s.begun, Created: true}
		s.begun++
	}
	return nil
}

func (s *watching) RecvMsg(reply any) error {
	select {
	case next := <-s.replies:
		r := reply.(*etcdserverpb.WatchResponse) //nolint:forcetypeassert // of the only stream
		r.Header = &etcdserverpb.ResponseHeader{Revision: 1}
		r.WatchId, r.Created, r.Canceled, r.CancelReason = next.WatchId, next.Created, next.Canceled, next.CancelReason
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// TestWatchEndsWithTheServers: when etcd ends the watch of one name, the watch of all the names that a caller waits for is lost, and nothing is left of it.
func TestWatchEndsWithTheServers(t *testing.T) {
	server := &watching{replies: make(chan *etcdserverpb.WatchResponse, 10)}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(server.open)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s, err := New(client, Config{Prefix: "test/"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ended, err := s.Watch(t.Context(), []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	server.replies <- &etcdserverpb.WatchResponse{WatchId: 0, Canceled: true, CancelReason: "a test"}
	servers.Wait(t, "the end of the watch", func() bool {
		select {
		case _, open := <-ended:
			return !open
		default:
			return false
		}
	})
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if n := len(s.watches.names); n > 0 {
		t.Errorf("%d names are still watched, and nobody waits for them", n)
	}
}

// TestLateEvents: what a watch reports later than a reply has shown it, or something after it, changes nothing in what is known of a name.
func TestLateEvents(t *testing.T) {
	k := keys{prefix: "test/"}
	value := func(holder string) []byte {
		text, err := record{Holder: holder, TTL: time.Hour}.encode()
		if err != nil {
			t.Fatal(err)
		}
		return []byte(text)
	}
	var s sights
	s.see("a", k.pairOf("a", []*mvccpb.KeyValue{
		{Key: []byte(k.record("a")), Value: value("x"), ModRevision: 7}, {Key: []byte(k.taken("a")), ModRevision: 7, Lease: 1},
	}))
	event := func(kind string, revision int64, deleted bool) pair {
		s.event(k, "a", kind, &mvccpb.KeyValue{Value: value("y"), ModRevision: revision, Lease: 2}, deleted)
		p, _ := s.of("a")
		return p
	}
	for _, revision := range []int64{5, 7} {
		for _, kind := range []string{recordKey, takenKey} {
			for _, deleted := range []bool{false, true} {
				if p := event(kind, revision, deleted); p.record.Holder != "x" || p.revision != 7 || p.taken != 7 || p.lease != 1 {
					t.Errorf("after the change of %q at the revision %d, deleted: %v, the name is known as %+v, want it as the reply at the revision 7 has shown it",
						kind, revision, deleted, p)
				}
			}
		}
	}
	if p := event(takenKey, 8, true); p.taken != 0 || p.lease != clientv3.NoLease || p.record.Holder != "x" {
		t.Errorf("after a release at the revision 8 the name is known as %+v, want it free", p)
	}
	if p := event(recordKey, 9, false); p.record.Holder != "y" || p.revision != 9 {
		t.Errorf("after a change of the record at the revision 9 it is known as %+v", p)
	}
}
