//go:build unix

package servers

import (
	"slices"
	"strconv"
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
	primary := func(n *RedisServer) bool { return strings.Contains(ask(n.Addr, "INFO replication"), "role:master") }
	i := slices.IndexFunc(cluster.Nodes, primary)
	node, other := cluster.Nodes[i], cluster.Nodes[(i+1)%len(cluster.Nodes)]
	id := ask(node.Addr, "CLUSTER MYID")
	node.Pause()
	Wait(t, "another node to have had no response for so long that one with a second's patience would have failed it over", func() bool {
		return unanswered(ask(other.Addr, "CLUSTER NODES"), id) > 4*time.Second
	})
	node.Resume()
	Wait(t, "the node to respond", func() bool { return ask(node.Addr, "PING") != "" })
	if nodes := ask(other.Addr, "CLUSTER NODES"); strings.Contains(nodes, "fail") {
		t.Errorf("after one of them stood still:\n%s", nodes)
	}
	if !primary(node) {
		t.Error("a replica has taken the place of the node that stood still")
	}
}

// unanswered is for how long a node has been waiting for the answer of another one, by its CLUSTER NODES: id, address, flags, primary, when the ping was sent
// that has no answer in unix ms or 0, and more (https://redis.io/docs/latest/commands/cluster-nodes/).
func unanswered(nodes, id string) time.Duration {
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[0] == id {
			if sent, _ := strconv.ParseInt(fields[4], 10, 64); sent > 0 {
				return time.Since(time.UnixMilli(sent))
			}
		}
	}
	return 0
}
