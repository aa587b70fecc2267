package hazelcaststore

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hazelcast/hazelcast-go-client/cluster"
	"github.com/hazelcast/hazelcast-go-client/types"
)

// members are those members of the cluster that have data, as one client sees them.
type members struct {
	enough int
	filled chan struct{} // closed when there were enough for the first time

	mu  sync.Mutex
	all map[types.UUID]cluster.MemberInfo
}

func newMembers(enough int) *members {
	return &members{enough: max(1, enough), filled: make(chan struct{}), all: map[types.UUID]cluster.MemberInfo{}}
}

// change notes that a member came or left. The client calls it once for each member, with one exception: when a member
// was started again before the client has seen that it was gone, the client reports the new one only. So whoever comes
// takes the place of the one that had its address.
func (m *members) change(e cluster.MembershipStateChanged) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.State != cluster.MembershipStateRemoved {
		maps.DeleteFunc(m.all, func(_ types.UUID, other cluster.MemberInfo) bool {
			return other.Address == e.Member.Address
		})
	}
	switch {
	case e.Member.LiteMember:
	case e.State == cluster.MembershipStateRemoved:
		delete(m.all, e.Member.UUID)
	default:
		m.all[e.Member.UUID] = e.Member
		if len(m.all) == m.enough {
			select {
			case <-m.filled:
			default:
				close(m.filled)
			}
		}
	}
}

// settleTime is how long a new client waits for the members that it needs. It reports the first ones, one by one, only after it has connected.
const settleTime = time.Second

// settle waits until there are enough members, for settleTime at most.
func (m *members) settle() {
	select {
	case <-m.filled:
	case <-time.After(settleTime):
	}
}

func (m *members) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

// versions returns the versions of the members, and how many have each.
func (m *members) versions() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]int{}
	for _, member := range m.all {
		found[fmt.Sprintf("%d.%d.%d", member.Version.Major, member.Version.Minor, member.Version.Patch)]++
	}
	return found
}
