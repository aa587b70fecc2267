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
			of, _ := store.As[*memstore.Store](s)
			return New(of.Share())
		},
	})
}

// Nothing that the wrapped store can do is lost: no law is skipped for it.
func TestNothingIsLost(t *testing.T) {
	h := storetest.Harness{Open: func(testing.TB) store.Store { return New(memstore.New()) }}
	for _, law := range []string{"watch-wakes", "queue-free", "choose-again", "sweep-limit", "ping", "capabilities"} {
		if err := storetest.Check(t, law, h); err != nil {
			t.Error(err)
		}
	}
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
