package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A waiting is what a call of Queue in the background has answered.
type waiting struct {
	out   store.Outcome
	after time.Duration
	err   error
}

// stand has a holder wait in the line of name, and comes back when it is there.
func stand(t *testing.T, admin *redis.Client, s *redisstore.Store, line, name, holder string) <-chan waiting {
	t.Helper()
	answer := make(chan waiting, 1)
	go func() {
		out, after, err := s.Queue(background, store.Claim{Name: name, Holder: holder, TTL: time.Minute})
		answer <- waiting{out, after, err}
	}()
	servers.Wait(t, holder+" stands in line", 10*time.Second, func() bool {
		_, err := admin.ZScore(background, line, holder).Result()
		return err == nil
	})
	return answer
}

// A change of the owner is one request to stand in line and one to release, for any number of waiters.
func TestAHandOverIsTwoRequests(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	const waiters = 8
	s := open(t, server.URL+"?prefix=p")
	last := take(t, s, "name", "first")
	if err := release(s, last); err != nil { // the server has learned the scripts
		t.Fatal(err)
	}
	last = take(t, s, "name", "first")
	stand(t, admin, s, "{p:0}:w:name", "name", "warm")
	if left, err := s.Leave(background, "name", "warm"); !left || err != nil {
		t.Fatal(left, err)
	}
	before := requests(t, admin)
	var all []<-chan waiting
	for i := range waiters {
		all = append(all, stand(t, admin, open(t, server.URL+"?prefix=p"), "{p:0}:w:name", "name", fmt.Sprint("w", i)))
	}
	for i, answer := range all {
		if err := release(s, last); err != nil {
			t.Fatal(err)
		}
		w := <-answer
		if w.err != nil || w.out.Err != nil || w.after <= 0 || w.out.Grant.Token <= last.Token {
			t.Fatalf("waiter %d: %+v", i, w)
		}
		last = store.Release{Name: "name", Holder: fmt.Sprint("w", i), Token: w.out.Grant.Token}
	}
	if n := requests(t, admin) - before; n != 2*waiters {
		t.Errorf("%d requests for %d changes of the owner, want two each", n, waiters)
	}
}

// A process that has ended is not handed what it waited for.
func TestALineHasNoPlaceForTheDead(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	held := take(t, s, "name", "a")
	gone, alive := open(t, server.URL+"?prefix=p"), open(t, server.URL+"?prefix=p")
	stand(t, admin, gone, "{p:0}:w:name", "name", "dead")
	answer := stand(t, admin, alive, "{p:0}:w:name", "name", "living")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the server to notice", 10*time.Second, func() bool {
		channels, err := admin.PubSubChannels(background, "{p:0}:i:*").Result()
		return err == nil && len(channels) == 1
	})
	if err := release(s, held); err != nil {
		t.Fatal(err)
	}
	if w := <-answer; w.err != nil || w.out.Err != nil {
		t.Errorf("the next in line: %+v", w)
	}
	if n := admin.Exists(background, "{p:0}:w:name", "{p:0}:v:name").Val(); n != 0 {
		t.Errorf("%d keys of an empty line are left", n)
	}
}

// News that answer an earlier request of the holder, or come from before a gap of the connection, say nothing of how long ago the grant was:
// the holder asks again, and is told that.
func TestOldNewsAreNotBelieved(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	held := take(t, s, "name", "a")
	answer := stand(t, admin, s, "{p:0}:w:name", "name", "b")
	s.Hear("1795252498000430 1795252498000000 1795252499000000 0 1 b")
	if w := <-answer; !errors.Is(w.out.Err, store.ErrHeld) || w.err != nil {
		t.Errorf("after news of another request: %+v", w)
	}
	if err := release(s, held); err != nil { // nobody of b's listens
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // the age of the grant
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	out, after, err := s.Queue(ctx, store.Claim{Name: "name", Holder: "b", TTL: time.Minute})
	if err != nil || out.Err != nil || after > -50*time.Millisecond {
		t.Errorf("asked again: %+v, %v, %v; want the grant, made at least 50 ms before", out, after, err)
	}
	for _, nonsense := range []string{"x", "1 2 3 4 5 6", "1 2 3 4 -1 b", "1 2 3 4 9 b"} {
		s.Hear(nonsense)
	}
}
