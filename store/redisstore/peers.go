package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store/internal/shedlock"
)

// peer returns the key that Java clients use for a name, if it is shared with them, else the record's own.
func (s *Store) peer(b *bucket, name string) (key string, shared bool) {
	switch bare, is := shedlock.Bare(name); {
	case s.cfg.ShedLock && is:
		return shedlock.Key(s.cfg.ShedLockPrefix, s.cfg.ShedLockEnv, bare), true
	case s.cfg.Redisson && is && strings.HasPrefix(name, shedlock.Lock):
		return bare, true
	}
	return b.records + name, false
}

// java reports whether keys are shared with Java clients.
func (s *Store) java() bool { return s.cfg.ShedLock || s.cfg.Redisson }

// peerValue begins what is written into a key that is shared; the holder follows. ShedLock's string says when, by the clock of the one that takes it, and who; the
// field of Redisson's hash says who. Nothing is decided by it but whether the key is still ours.
func (s *Store) peerValue() string {
	switch {
	case s.cfg.Redisson:
		return "r:"
	case s.cfg.ShedLock:
		return "ADDED:" + time.Now().UTC().Format("2006-01-02T15:04:05.000Z") + "@"
	}
	return ""
}

// redissonChannel is where Redisson tells that a lock has become free.
func redissonChannel(lock string) string {
	if strings.Contains(lock, "{") {
		return "redisson_lock__channel:" + lock
	}
	return "redisson_lock__channel:{" + lock + "}"
}

// peerLook is how often a key that Java clients may hold is looked at while somebody waits for it: ShedLock's tell nobody when they unlock, and
// Redisson's fair, spin and read-write locks tell it on their own channels.
const peerLook = 500 * time.Millisecond

// follow wakes a watch when a key that is shared with Java goes away, until ctx or the store ends.
func (s *Store) follow(ctx context.Context, w *watch, names []string) {
	if !s.java() {
		return
	}
	var peers []string
	for _, name := range names {
		if peer, shared := s.peer(&s.parts[0], name); shared {
			peers = append(peers, peer)
		}
	}
	if len(peers) == 0 || !s.enter() {
		return
	}
	go func() {
		defer s.calls.Done()
		ticks := time.NewTicker(peerLook)
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
	}()
}
