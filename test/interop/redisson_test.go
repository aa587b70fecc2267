//go:build unix

package interop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestRedisson has the real Redisson and the real client contend for names. What is under test is the Redis store's mode for it.
func TestRedisson(t *testing.T) {
	servers.Long(t)
	rules := map[string]func(*testing.T, *field){
		"theirs keeps ours out":              redissonKeepsOursOut,
		"ours keeps theirs out":              oursKeepsRedissonOut,
		"theirs expires":                     theirsExpires,
		"ours expires":                       oursExpires,
		"ours is renewed":                    oursIsRenewed,
		"a stale unlock of theirs":           staleUnlockOfRedisson,
		"stale calls of ours":                staleCallsOfOurs,
		"tokens grow across their turns":     tokensGrow,
		"their tokens grow across our turns": theirTokensGrow,
		"our release wakes theirs":           releaseWakesRedisson,
		"their unlock wakes ours":            redissonWakesOurs,
		"counting together":                  countingTogether,
	}
	for _, provider := range []string{"redisson", "redisson-fenced"} {
		t.Run(provider, func(t *testing.T) {
			server := redisServer(t)
			f := &field{url: server.URL, mode: "redisson=true"}
			o := Options{Provider: provider, URL: server.URL}
			f.a, f.b = Start(t, o), Start(t, o)
			t.Run("rules", func(t *testing.T) {
				for name, rule := range rules {
					t.Run(name+" "+provider, func(t *testing.T) { // Redisson has no prefix: names tell the tests apart
						t.Parallel()
						rule(t, f)
					})
				}
			})
		})
	}
}

func redissonKeepsOursOut(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	held := javaLock(t, f.a, name(t), long, 0)
	r := ourRefused(t, c, name(t))
	if r.Holder == "" || r.Left <= 0 || r.Left > long {
		t.Errorf("what Redisson holds is shown as held by %q for %v; want its id and at most %v", r.Holder, r.Left, long)
	}
	must(t, held.Unlock())
	must(t, ourLock(t, c, name(t)).Release())
}

func oursKeepsRedissonOut(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	lease := ourLock(t, c, name(t))
	javaRefused(t, f.a, name(t))
	javaRefused(t, f.b, name(t))
	must(t, lease.Release())
	must(t, javaLock(t, f.a, name(t), long, 0).Unlock())
}

func oursIsRenewed(t *testing.T, f *field) {
	inTime(t, func(ttl time.Duration) (time.Duration, error) {
		lease, err := f.client(t, soloist.Options{TTL: ttl}).Lock(bounded(t), name(t))
		if err != nil {
			return 0, err
		}
		held, err := f.a.Wait(name(t), long, 0, 3*ttl)
		if err == nil {
			must(t, held.Unlock())
			return 0, errors.New("a lease that is renewed was given away")
		}
		if !errors.Is(err, ErrRefused) { // Redisson's own time-out: it subscribes in what is left of its wait
			return 0, err
		}
		return 0, errors.Join(lease.Err(), lease.Release())
	})
}

// staleUnlockOfRedisson: Redisson looks whose the lock is, so an unlock that comes too late is an error and changes nothing.
func staleUnlockOfRedisson(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	stale := javaLock(t, f.a, name(t), ttl, 0)
	lease, err := c.Lock(bounded(t), name(t))
	must(t, err)
	if err := stale.Unlock(); err == nil {
		t.Error("Redisson unlocked what is ours")
	}
	javaRefused(t, f.b, name(t))
	must(t, lease.Check(context.Background()))
	must(t, lease.Release())
}

// theirTokensGrow: a resource that Redisson's tokens guard must see them grow across our turns.
func theirTokensGrow(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	last := int64(0)
	for range 3 {
		held := javaLock(t, f.a, name(t), long, 0)
		if held.Token != 0 && last != 0 && held.Token < last+2 {
			t.Errorf("Redisson's token was %d, then we had the lock, then it was %d", last, held.Token)
		}
		last = held.Token
		must(t, held.Unlock())
		must(t, ourLock(t, c, name(t)).Release())
	}
}

// A waiter who is not woken tries again when the lease ends, in an hour.
const soon = servers.Patience

func releaseWakesRedisson(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{TTL: long})
	lease := ourLock(t, c, name(t))
	got := make(chan error, 1)
	go func() {
		held, err := f.a.Wait(name(t), long, 0, soon)
		if err == nil {
			err = held.Unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("Redisson had a lock that is held, %v", err)
	case <-time.After(ttl): // it has subscribed by then, or looks once more when it has
	}
	begun := time.Now()
	must(t, lease.Release())
	must(t, <-got)
	if took := time.Since(begun); took > soon {
		t.Errorf("Redisson had the lock %v after its release: it was not woken", took)
	}
}

func redissonWakesOurs(t *testing.T, f *field) {
	c := f.client(t, soloist.Options{})
	held := javaLock(t, f.a, name(t), long, 0)
	got := make(chan error, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		lease, err := c.Lock(bounded(t), name(t))
		if err == nil {
			err = lease.Release()
		}
		got <- err
	})
	select {
	case err := <-got:
		t.Fatalf("we had a lock that Redisson holds, %v", err)
	case <-time.After(ttl):
	}
	begun := time.Now()
	must(t, held.Unlock())
	must(t, <-got)
	if took := time.Since(begun); took > soon {
		t.Errorf("we had the lock %v after its release: we were not woken", took)
	}
	waiting.Wait()
}
