package storetest_test

import (
	"fmt"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/storetest"
)

// The test of a store. Each law is a subtest on its own store.
func Example() {
	TestStore := func(t *testing.T) {
		storetest.Run(t, storetest.Harness{
			Open: func(testing.TB) store.Store { return memstore.New() },
			Reopen: func(_ testing.TB, s store.Store) store.Store {
				return s.(*memstore.Store).Share() // as another process would open the same data
			},
		})
	}
	_ = TestStore // in a file of your package it is func TestStore(t *testing.T)
}

func ExampleLaws() {
	for _, law := range storetest.Laws()[:3] {
		fmt.Println(law)
	}
	// Output:
	// exclusion
	// expiry-frees
	// expiry-not-early
}
