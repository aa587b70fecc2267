package soloist

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store/memstore"
)

// A client does not grow with the names that it has waited for, with success or without.
func TestNamesThatWereWaitedForAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(memstore.New(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range 10 {
			l, err := c.Lock(t.Context(), fmt.Sprint("x", i))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := c.Lock(ctx, l.Name()); err == nil {
				t.Error("two have it")
			}
			cancel()
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		}
		if n := len(c.waiters.of); n != 0 {
			t.Errorf("nobody waits, and %d names are remembered", n)
		}
		for i := range 3 * maxBusy {
			w := c.waiters.join(fmt.Sprint("busy ", i))
			w.setBusy(true)
			if !w.busy() {
				t.Fatalf("the last of %d names that were busy is not remembered", i+1)
			}
			w.leave()
		}
		if n := len(c.waiters.busy); n > maxBusy {
			t.Errorf("%d names are remembered that were busy", n)
		}
	})
}
