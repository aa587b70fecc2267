package histories

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/proof"
)

// A user takes locks by an ordinary client, and tells from when to when it believed in them.
type user struct {
	rec    *recorder
	client *soloist.Client
	names  []string
}

func newUser(s *troubled, replica string, names []string, ttl time.Duration) (*user, error) {
	client, err := soloist.New(s, soloist.Config{
		Replica: replica, RequestTimeout: 2 * time.Second, Drain: -1, Logger: slog.New(slog.DiscardHandler), TTL: ttl,
	})
	if err != nil {
		return nil, err
	}
	return &user{rec: s.rec, client: client.With(soloist.Options{Wait: 300 * time.Millisecond}), names: names}, nil
}

// use takes locks until the round has had enough operations.
func (u *user) use(ctx context.Context, left *atomic.Int64) {
	defer u.client.Close()
	for left.Load() > 0 && ctx.Err() == nil {
		name := u.names[rand.IntN(len(u.names))]
		take := u.client.TryLock
		if rand.IntN(2) == 0 {
			take = u.client.Lock
		}
		lease, err := take(ctx, name)
		if err != nil {
			continue
		}
		u.believe(lease, time.Duration(rand.IntN(40))*time.Millisecond)
		if rand.IntN(10) > 0 { // else it forgets to, and the client renews the lease until it is closed
			_ = lease.Release()
		}
	}
}

// believe asks the lease for a while whether it is held, and records for how long it was.
func (u *user) believe(lease *soloist.Lease, d time.Duration) {
	e := proof.Event{Kind: proof.Belief, Name: "lock/" + lease.Name(), Holder: lease.Holder(), Token: lease.Token(), At: u.rec.now()}
	for {
		now := u.rec.now()
		if lease.Err() != nil {
			break
		}
		if e.Until = now; now-e.At > d {
			break
		}
		time.Sleep(time.Millisecond) // the work
	}
	if e.Until > e.At {
		u.rec.add(e)
	}
}
