package examples

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

func TestPublisherStopsWhenItsLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		stopped := make(chan error, 1)
		go client.Do(t.Context(), "publisher", func(ctx context.Context, lease *soloist.Lease) error {
			go soloisttest.LoseLease(t, s, lease)
			<-ctx.Done() // what the code under test must heed
			stopped <- context.Cause(ctx)
			return nil
		})
		if err := <-stopped; !errors.Is(err, soloist.ErrLost) {
			t.Errorf("stopped because of %v", err)
		}
	})
}
