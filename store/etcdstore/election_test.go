package etcdstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestElections: a request that waits is ended soon after another leader was elected, and at no other time. A term without a leader is none, and a member that
// does not reply is asked again.
func TestElections(t *testing.T) {
	const elected, patience = 1500 * time.Millisecond, time.Minute
	type asked func(context.Context, time.Duration) uint64
	for name, test := range map[string]struct {
		known uint64 // before the request
		ask   asked
		want  time.Duration // at most; 0 if it is not ended
	}{
		"another leader":           {2, func(_ context.Context, at time.Duration) uint64 { return term(at > elected, 3, 2) }, elected + 2*askEvery},
		"the term was not known":   {0, func(_ context.Context, at time.Duration) uint64 { return term(at > elected, 3, 2) }, elected + 2*askEvery},
		"the same leader":          {2, func(context.Context, time.Duration) uint64 { return 2 }, 0},
		"the first that is told":   {0, func(context.Context, time.Duration) uint64 { return 2 }, 0},
		"no leader":                {2, func(context.Context, time.Duration) uint64 { return 0 }, 0},
		"elected before, and seen": {3, func(context.Context, time.Duration) uint64 { return 3 }, 0},
		"a member that is silent": {2, func(ctx context.Context, at time.Duration) uint64 {
			if at < elected {
				<-ctx.Done()
			}
			return term(at > elected, 3, 0)
		}, elected + askPatience + 2*askEvery},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var e elections
				e.raise(test.known)
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				began := time.Now()
				err := e.during(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, func(ctx context.Context) uint64 { return test.ask(ctx, time.Since(began)) })
				took := time.Since(began)
				if ended := status.Code(err) == codes.Unavailable; ended != (test.want > 0) || ended && took > test.want || !ended && took != patience {
					t.Errorf("%v after %v, want %v", err, took, test.want)
				}
				if ended := refused(err); ended {
					t.Errorf("%v is taken for a request that has had no effect", err)
				}
			})
		})
	}
}

// TestElectionsAfterTheReply: what has a reply keeps it, and a short request asks nobody.
func TestElectionsAfterTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e elections
		want := errors.New("the reply")
		ask := func(context.Context) uint64 { t.Error("a member was asked"); return 0 }
		if err := e.during(context.Background(), func(context.Context) error { time.Sleep(slowAfter / 2); return want }, ask); !errors.Is(err, want) {
			t.Error(err)
		}
		if err := e.during(context.Background(), func(context.Context) error { time.Sleep(2 * slowAfter); return nil }, func(context.Context) uint64 { return 1 }); err != nil {
			t.Error(err)
		}
	})
}

// term returns one of two terms.
func term(of bool, yes, no uint64) uint64 {
	if of {
		return yes
	}
	return no
}
