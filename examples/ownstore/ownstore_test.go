package ownstore

import (
	"context"
	"testing"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(testing.TB) store.Store {
			return New(memstore.New())
		},
		Reopen: func(_ testing.TB, s store.Store) store.Store {
			return New(s.(*Counted).of.(*memstore.Store).Share())
		},
	})
}

// A lock that is free costs two round trips.
func TestTrips(t *testing.T) {
	s := New(memstore.New())
	defer s.Close()
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(t.Context(), "x", func(context.Context, *soloist.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if s.Trips() != 2 {
		t.Errorf("%d trips; want 2", s.Trips())
	}
}
