package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store/internal/shedlock"
)

// shared returns the template of the keys that are shared, in which * stands for a name; "" if none are.
func (c Config) shared() string {
	if c.Redisson {
		return "*"
	}
	return c.Share
}

// peer returns the key that other libraries use for a name, if it is shared with them, else the record's own. A name that would lead to one of the
// store's own keys is not shared.
func (s *Store) peer(b *bucket, name string) (key string, shared bool) {
	bare, is := shedlock.Bare(name)
	if is && s.sharing() && (s.cfg.Share != "" || strings.HasPrefix(name, shedlock.Lock)) {
		if key = strings.Replace(s.cfg.shared(), "*", bare, 1); !strings.HasPrefix(key, b.tag) {
			return key, true
		}
	}
	return b.records + name, false
}

// sharing reports whether keys are shared with other libraries.
func (s *Store) sharing() bool { return s.cfg.shared() != "" }

// peerValue begins what is written into a key that is shared; the holder follows. A string is as ShedLock writes it, which says when, by the clock of
// this process, and who; other libraries read only whether it is theirs. The field of Redisson's hash says who. Nothing is decided by it but whether the
// key is still ours.
func (s *Store) peerValue() string {
	switch {
	case s.cfg.Redisson:
		return "r:"
	case s.sharing():
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

// peerLook is how often a key that other libraries may hold is looked at while somebody waits for it: those that set a string tell nobody when they unlock,
// and Redisson's fair, spin and read-write locks tell it on their own channels.
const peerLook = 500 * time.Millisecond

// follow wakes a watch when a key that is shared goes away, until ctx or the store ends.
func (s *Store) follow(ctx context.Context, w *watch, names []string) {
	if !s.sharing() {
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
			var n int64
			bound, cancel := context.WithTimeout(ctx, patience) // a client may have no bound of its own, and Close waits for this
			err := unharmed(func() (err error) { n, err = s.client.Exists(bound, peers...).Result(); return err })
			cancel()
			if err == nil && n < before {
				s.watches.wake(w)
			}
			if err == nil {
				before = n
			}
		}
	}()
}
