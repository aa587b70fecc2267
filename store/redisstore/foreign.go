package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"

	"github.com/redis/go-redis/v9"
)

// List is as in store.Store. It reads the index of names page by page, never the whole key space; except that what
// other libraries hold stands in no index: for it, a list that has locks in it scans the keys where locks are shared.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter is as in store.Pager. What other libraries hold is scanned for as by List.
func (s *Store) ListAfter(ctx context.Context, prefix, last string) iter.Seq2[store.Record, error] {
	common := min(len(prefix), len(shedlock.Lock)) // what a list of locks and prefix begin with alike
	if prefix[:common] != shedlock.Lock[:common] || !s.sharing() {
		return s.listOwn(ctx, prefix, last)
	}
	return func(yield func(store.Record, error) bool) {
		theirs, unread := s.foreignLocks(ctx, prefix)
		names := slices.Sorted(maps.Keys(theirs))
		names = slices.DeleteFunc(names, func(name string) bool { return name <= last })
		for r, err := range s.listOwn(ctx, prefix, last) {
			if err != nil {
				unread = errors.Join(err, unread)
				break
			}
			for len(names) > 0 && names[0] < r.Name {
				if !yield(theirs[names[0]], nil) {
					return
				}
				names = names[1:]
			}
			if len(names) > 0 && names[0] == r.Name {
				r, names = theirs[r.Name], names[1:]
			}
			if !yield(r, nil) {
				return
			}
		}
		for _, name := range names {
			if !yield(theirs[name], nil) {
				return
			}
		}
		if unread != nil {
			yield(store.Record{}, unread)
		}
	}
}

// mostFields is how many fields the hash of a lock of Redisson's has at most to be listed: one for each reader, and a
// mode.
const mostFields = 64

// scanned is how many keys the server looks at in one step of a scan.
const scanned = 1000

// foreignLocks returns the locks that other libraries hold, by the names of their records. The names begin with prefix.
func (s *Store) foreignLocks(ctx context.Context, prefix string) (map[string]store.Record, error) {
	names, err := ask(ctx, s, func(ctx context.Context) ([]string, error) { return s.foreignNames(ctx, prefix) })
	if err != nil {
		return nil, fmt.Errorf("looking for the locks of other libraries: %w", err)
	}
	locks := map[string]store.Record{}
	for some := range slices.Chunk(names, pageSize) {
		claims := make([]store.Claim, len(some))
		for i, name := range some {
			claims[i] = store.Claim{Name: name, Holder: "list", TTL: store.MinTTL, Mark: -1}
		}
		outs, err := s.Acquire(ctx, claims)
		if err != nil {
			return locks, fmt.Errorf("looking at the locks of other libraries: %w", err)
		}
		for _, out := range outs {
			var done *store.DoneError // else it is no lock
			if errors.As(out.Err, &done) && isForeign(done.Record) && (!s.cfg.Redisson || redissonOwner.MatchString(done.Record.Holder)) {
				locks[done.Record.Name] = done.Record
			}
		}
	}
	return locks, nil
}

// redissonOwner is how Redisson writes who has a lock: its client and thread, and for a writer that reads, too, what it
// does.
var redissonOwner = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+(:write)?$`)

// foreignNames returns the names of the records of the keys that may be locks of other libraries. Where a key is the name
// alone, nothing distinguishes a string that is a lock from any other: then these are the names that have records.
func (s *Store) foreignNames(ctx context.Context, prefix string) ([]string, error) {
	if s.cfg.Share == "*" {
		return s.ownNames(ctx, prefix)
	}
	begin, end, _ := strings.Cut(s.cfg.shared(), "*")
	kind := "string"
	if s.cfg.Redisson {
		kind = "hash"
	}
	names := map[string]bool{} // a scan may return a key twice
	for cursor := uint64(0); ; {
		keys, next, err := s.client.ScanType(ctx, cursor, globEscape.Replace(begin)+"*"+globEscape.Replace(end), scanned, kind).Result()
		if err != nil {
			return nil, err
		}
		if s.cfg.Redisson {
			keys = s.small(ctx, keys)
		}
		for _, key := range keys {
			name := shedlock.Lock + strings.TrimSuffix(strings.TrimPrefix(key, begin), end)
			if peer, _ := s.peer(&s.parts[0], name); peer == key && strings.HasPrefix(name, prefix) && store.CheckName(name) == nil {
				names[name] = true
			}
		}
		if cursor = next; cursor == 0 {
			return slices.Sorted(maps.Keys(names)), nil
		}
	}
}

// ownNames returns the names of the locks that have records and whose names begin with prefix, in order.
func (s *Store) ownNames(ctx context.Context, prefix string) (names []string, err error) {
	if len(prefix) < len(shedlock.Lock) {
		prefix = shedlock.Lock
	}
	for r, err := range s.listOwn(ctx, prefix, "") {
		if errors.As(err, new(*store.UnreadableError)) { // the list itself tells of it
			break
		}
		if err != nil {
			return names, err
		}
		names = append(names, r.Name)
	}
	return names, nil
}

// globEscape makes a pattern of a text, that matches the text alone.
var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// small returns those hashes that may be locks: they are not ours, and have few fields. One that may not be looked at
// is left out.
func (s *Store) small(ctx context.Context, keys []string) []string {
	keys = slices.DeleteFunc(keys, func(key string) bool {
		return slices.ContainsFunc(s.parts, func(b bucket) bool { return strings.HasPrefix(key, b.tag) })
	})
	if len(keys) == 0 {
		return nil
	}
	sizes, _ := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.HLen(ctx, key)
		}
		return nil
	})
	var few []string
	for i, size := range sizes {
		if n, err := size.(*redis.IntCmd).Result(); err == nil && n <= mostFields {
			few = append(few, keys[i])
		}
	}
	return few
}

// mostIdentity bounds what stands for the token of a lock that another library holds (identity in sharing.lua).
const mostIdentity = 1 << 48

// isForeign reports whether a record shows a lock of another library.
func isForeign(r store.Record) bool { return r.Holder != "" && r.Token > 0 && r.Token <= mostIdentity }

// ranByShedLock makes a refusal with *store.DoneError of one with *store.HeldError, if ShedLock has taken the lock for
// the scheduled time that is claimed: not earlier than shedlock.Early before it, by the clock of the JVM.
func ranByShedLock(c store.Claim, out store.Outcome) store.Outcome {
	if c.Mark <= 0 || out.Err == nil {
		return out
	}
	var held *store.HeldError
	if !errors.As(out.Err, &held) || !isForeign(held.Record) {
		return out
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(held.Record.Holder, "ADDED:"), "@")
	at, err := time.Parse("2006-01-02T15:04:05.999Z", text)
	if err != nil {
		return out
	}
	if now := time.Now(); at.After(now) {
		at = now
	}
	done := held.Record
	if done.Mark = max(done.Mark, at.Add(shedlock.Early).UnixMilli()); done.Mark < c.Mark {
		return out
	}
	return store.Outcome{Err: &store.DoneError{Record: done}}
}
