package move

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// TestLagsAreForgotten: leases whose holders never ask again do not stay in memory, except for a while.
func TestLagsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBehind()
		for i := range 10 * fewRemembered {
			b.add(store.Claim{Name: fmt.Sprint(i), Holder: "h", TTL: time.Second})
			time.Sleep(lagTime / 100)
		}
		if n := len(b.of); n > fewRemembered+1 {
			t.Errorf("%d leases are remembered", n)
		}
		last := store.Claim{Name: fmt.Sprint(10*fewRemembered - 1), Holder: "h"}
		if b.get(last) == nil {
			t.Error("the last one is forgotten")
		}
	})
}

// TestALeaseThatFallsBehindOnceMoreStaysBehind: what was brought to the shadow does not settle a write that came after it.
func TestALeaseThatFallsBehindOnceMoreStaysBehind(t *testing.T) {
	b, c := newBehind(), store.Claim{Name: "x", Holder: "h", TTL: time.Second}
	b.add(c)
	brought := b.get(c)
	b.add(c)
	if b.settle(c, brought); b.get(c) == nil {
		t.Error("it counts as settled")
	}
	if b.settle(c, b.get(c)); b.get(c) != nil {
		t.Error("it is not settled")
	}
}

// TestLongLeasesAreRemembered: what is known of a lease whose TTL is longer than others are remembered stays until the TTL is over.
func TestLongLeasesAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, long := newMemory[struct{}](repeatTime), store.Claim{Name: "long", Holder: "h", TTL: time.Hour}
		m.put(long, struct{}{})
		time.Sleep(time.Minute)
		for i := range 2 * fewRemembered {
			m.put(store.Claim{Name: fmt.Sprint(i), Holder: "h", TTL: time.Second}, struct{}{})
		}
		if m.get(long) == nil {
			t.Error("it is forgotten after a minute of an hour")
		}
	})
}
