//go:build unix

package servers

import (
	"strings"
	"testing"
	"time"
)

// A cluster of Redis that nobody is to fail over is as it was after one of its nodes has stood still for a while, as on a busy machine.
func TestClusterOutlastsANodeThatStandsStill(t *testing.T) {
	cluster := RedisCluster(t, time.Minute)
	if cluster.Nodes == nil {
		t.Skip("of another cluster no node can be stopped")
	}
	for _, node := range cluster.Nodes {
		if !strings.Contains(ask(node.Addr, "INFO replication"), "role:master") {
			continue
		}
		node.Pause()
		time.Sleep(4 * time.Second) // with a second's patience it is failed over by then
		node.Resume()
		Wait(t, "the node to respond", func() bool { return ask(node.Addr, "PING") != "" })
		if nodes := ask(node.Addr, "CLUSTER NODES"); strings.Contains(nodes, "fail") {
			t.Errorf("after one of them stood still:\n%s", nodes)
		}
		if !strings.Contains(ask(node.Addr, "INFO replication"), "role:master") {
			t.Error("a replica has taken the place of the node that stood still")
		}
		return
	}
	t.Fatal("no node is a primary")
}
