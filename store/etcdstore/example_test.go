package etcdstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/etcdstore"
)

func Example() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"},
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := etcdstore.New(client, etcdstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	locks, err := soloist.New(s, soloist.Config{RequireFencing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(ctx, "close-month", func(_ context.Context, lease *soloist.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
