package redisstore

import (
	"context"
	"time"

	"github.com/soloist-dev/soloist/store/shedlock"
)

// peer answers the key that ShedLock's Redis providers use for a name, if it is shared with them, else the record's own.
func (s *Store) peer(b *bucket, name string) (key string, shared bool) {
	if s.cfg.ShedLock != "" {
		if bare, is := shedlock.Bare(name); is {
			return "job-lock:" + s.cfg.ShedLock + ":" + bare, true
		}
	}
	return b.records + name, false
}

// shedLockValue is what ShedLock writes into its key: when, by the clock of whoever takes it, and who. Nothing is decided by it but whether the
// key is still ours.
func shedLockValue(holder string) string {
	return "ADDED:" + time.Now().UTC().Format("2006-01-02T15:04:05.000Z") + "@" + holder
}

// shedLockLook is how often a key of ShedLock's is looked at while somebody waits for it: its clients tell nobody when they unlock.
const shedLockLook = 500 * time.Millisecond

// follow wakes a watch when a key that Java clients may hold goes away, until ctx or the store ends.
func (s *Store) follow(ctx context.Context, w *watch, names []string) {
	var peers []string
	for _, name := range names {
		if peer, shared := s.peer(&s.parts[0], name); shared {
			peers = append(peers, peer)
		}
	}
	if len(peers) == 0 {
		return
	}
	s.calls.Go(func() {
		ticks := time.NewTicker(shedLockLook)
		defer ticks.Stop()
		for before := int64(len(peers)); ; {
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			case <-s.ctx.Done():
				return
			}
			n, err := s.client.Exists(ctx, peers...).Result()
			if err == nil && n < before {
				s.watches.wake(w)
			}
			if err == nil {
				before = n
			}
		}
	})
}
