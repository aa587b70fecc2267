package natsstore_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/soloist-dev/soloist/store/natsstore"
)

// TestWatchBesideClose: a watch that begins while the store is closed either begins before that or not at all.
func TestWatchBesideClose(t *testing.T) {
	js := connect(t, shared(t).Addr)
	bucket := fresh()
	made(t, js, natsstore.Config{Bucket: bucket})
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	for i := range 400 {
		s, err := natsstore.New(js, natsstore.Config{Bucket: bucket})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Watch(ctx, []string{"first"}); err != nil {
			t.Fatal(err)
		}
		var watching sync.WaitGroup
		for k := range 8 {
			watching.Go(func() { _, _ = s.Watch(ctx, []string{fmt.Sprint("name", k)}) })
		}
		for range i {
			runtime.Gosched()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		watching.Wait()
	}
}
