package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// The permits of a semaphore are in one part of a cluster: choosing one is one request.
func TestChoosingInAClusterIsOneTrip(t *testing.T) {
	cluster := sharedCluster(t)
	if cluster.Nodes == nil {
		t.Skip("the cluster is somebody else's")
	}
	s := open(t, fresh(t, cluster.URL))
	permits := make([]string, 200)
	for i := range permits {
		permits[i] = fmt.Sprintf("semaphore/of many/%d", i)
	}
	choose := func(holder string) int {
		i, _, err := s.Choose(t.Context(), permits, store.Claim{Holder: holder, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	choose("warm")
	total := func() (n int) {
		for _, node := range cluster.Nodes {
			n += requests(t, plainClient(t, node.URL))
		}
		return n
	}
	before := total()
	if i := choose("h"); i != 1 {
		t.Errorf("permit %d was chosen, want the first that is free", i)
	}
	if n := total() - before; n != 1 {
		t.Errorf("choosing a permit: %d requests, want 1", n)
	}
}
