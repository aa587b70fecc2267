package parallel_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// Every element has its call, as many at a time as allowed and no more, and Do returns after the last.
func TestDo(t *testing.T) {
	for _, n := range []int{0, 1, 7} {
		synctest.Test(t, func(t *testing.T) {
			begin, called := time.Now(), make([]int, n)
			var running, most atomic.Int32
			parallel.Do(n, 3, func(i int) {
				if now := running.Add(1); now > most.Load() {
					most.Store(now)
				}
				called[i]++
				time.Sleep(time.Second)
				running.Add(-1)
			})
			for i, calls := range called {
				if calls != 1 {
					t.Errorf("%d of %d was called %d times", i, n, calls)
				}
			}
			if took, want := time.Since(begin), time.Duration((n+2)/3)*time.Second; took != want || int(most.Load()) != min(n, 3) {
				t.Errorf("%d calls took %v, want %v; %d at a time", n, took, want, most.Load())
			}
		})
	}
}
