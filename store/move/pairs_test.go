package move

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// TestReadingAheadEndsWithItsReader: who stops reading a list, at any record, ends it, however much of it is left, and
// nothing of it is under way after that.
func TestReadingAheadEndsWithItsReader(t *testing.T) {
	for _, wanted := range []int{0, 1, aheadRecords, 3*aheadRecords + 1} {
		synctest.Test(t, func(t *testing.T) {
			listed, over := 0, false
			r := ahead(func(yield func(store.Record, error) bool) {
				for yield(store.Record{Token: int64(listed + 1)}, nil) {
					if listed++; listed > 100*aheadChunks*aheadRecords {
						t.Error("the list goes on without a reader")
						break
					}
				}
				time.Sleep(time.Second) // it takes a while to let go
				over = true
			})
			for n := range wanted {
				if r.next(); !r.more || r.Token != int64(n+1) || r.err != nil {
					t.Fatalf("record %d: %+v, %v", n, r.Record, r.err)
				}
			}
			if r.stop(); !over {
				t.Errorf("after %d records: the list is still under way", wanted)
			}
		})
	}
}
