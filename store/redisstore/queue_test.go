package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// A waiting is what a call of Queue in the background has answered.
type waiting struct {
	grant store.Grant
	after time.Duration
	err   error
}

// stand has a holder wait in the line of name, and comes back when it is there.
func stand(t *testing.T, admin *redis.Client, s *redisstore.Store, line, name, holder string) <-chan waiting {
	t.Helper()
	answer := make(chan waiting, 1)
	go func() {
		grant, after, err := s.Queue(background, store.Claim{Name: name, Holder: holder, TTL: time.Minute})
		answer <- waiting{grant, after, err}
	}()
	servers.Wait(t, holder+" waits in the queue", func() bool {
		_, err := admin.ZScore(background, line, holder).Result()
		return err == nil
	})
	return answer
}

// served returns what becomes of a holder that waits. One that has to look again does so: a connection that was lost,
// as when all stands still for some seconds, has all who wait look again.
func served(s *redisstore.Store, answer <-chan waiting, name, holder string) waiting {
	w := <-answer
	for errors.Is(w.err, store.ErrHeld) {
		w.grant, w.after, w.err = s.Queue(background, store.Claim{Name: name, Holder: holder, TTL: time.Minute})
	}
	return w
}

// A change of the owner is one request to wait in the queue and one to release, for any number of waiters.
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
		if w.err != nil || w.after <= 0 || w.grant.Token <= last.Token {
			t.Fatalf("waiter %d: %+v", i, w)
		}
		last = store.Release{Name: "name", Holder: fmt.Sprint("w", i), Token: w.grant.Token}
	}
	if n := requests(t, admin) - before; n != 2*waiters {
		t.Errorf("%d requests for %d changes of the owner, want two each", n, waiters)
	}
}

// A process that has ended is not handed what it waited for.
func TestALineHasNoPlaceForTheDead(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	looker := admin.PSubscribe(background, "*") // a person who looks at all messages is no waiter
	defer looker.Close()
	if _, err := looker.Receive(background); err != nil {
		t.Fatal(err)
	}
	s := open(t, server.URL+"?prefix=p")
	held := take(t, s, "name", "a")
	gone, alive := open(t, server.URL+"?prefix=p"), open(t, server.URL+"?prefix=p")
	stand(t, admin, gone, "{p:0}:w:name", "name", "dead")
	answer := stand(t, admin, alive, "{p:0}:w:name", "name", "living")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the server to notice", func() bool {
		channels, err := admin.PubSubChannels(background, "{p:0}:i:*").Result()
		return err == nil && len(channels) == 1
	})
	if err := release(s, held); err != nil {
		t.Fatal(err)
	}
	if w := <-answer; w.err != nil {
		t.Errorf("the next in line: %+v", w)
	}
	if n := admin.Exists(background, "{p:0}:w:name", "{p:0}:v:name").Val(); n != 0 {
		t.Errorf("%d keys of an empty line are left", n)
	}
}

// Nobody else has acquired a name whose waiters are all gone, so a release whose answer was lost can be repeated, and the lease counts as released.
func TestReleaseToTheDeadCanBeRepeated(t *testing.T) {
	t.Run("with the right to count subscribers", func(t *testing.T) {
		server := servers.Redis(t)
		releasedToTheDead(t, server, server.URL)
	})
	t.Run("without it", func(t *testing.T) { // so that only the news themselves find out
		server := servers.Redis(t)
		must(t, plainClient(t, server.URL).Do(background, append(words(aclLine("blind", "pw", "p")), "-pubsub")...).Err())
		releasedToTheDead(t, server, strings.Replace(server.URL, "://", "://blind:pw@", 1))
	})
}

func releasedToTheDead(t *testing.T, server *servers.RedisServer, url string) {
	t.Helper()
	admin := plainClient(t, server.URL)
	s, gone := open(t, url+"?prefix=p"), open(t, url+"?prefix=p")
	held := take(t, s, "name", "a")
	stand(t, admin, gone, "{p:0}:w:name", "name", "dead")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the server to notice", func() bool {
		channels, err := admin.PubSubChannels(background, "{p:0}:i:*").Result()
		return err == nil && len(channels) == 0
	})
	age := func() (age time.Duration) {
		for r, err := range s.List(background, "name") {
			if age = r.Age; err != nil {
				t.Fatal(err)
			}
		}
		return age
	}
	before := age()
	held.Mark = 7
	for range 2 {
		if err := release(s, held); err != nil {
			t.Fatal(err)
		}
	}
	if now := age(); now < before {
		t.Errorf("the last grant was %v ago, and is %v ago after a hand-over that nobody heard", before, now)
	}
	out := acquire(t, s, "name", "b")
	if out.Err != nil || out.Grant.Token <= held.Token || out.Grant.Mark != 7 || out.Grant.ExpiredAge != 0 {
		t.Errorf("the next lease: %+v", out)
	}
}

// News that come from before a gap of the connection say nothing of how long ago the grant was: the holder asks again, and is told that.
func TestOldNewsAreNotBelieved(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	held := take(t, s, "name", "a")
	answer := stand(t, admin, s, "{p:0}:w:name", "name", "b")
	s.Hear("") // as after a gap
	if w := <-answer; !errors.Is(w.err, store.ErrHeld) {
		t.Errorf("after a gap: %+v", w)
	}
	if err := release(s, held); err != nil { // nobody of b's listens
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // the age of the grant
	grant, after, err := s.Queue(background, store.Claim{Name: "name", Holder: "b", TTL: time.Minute})
	if err != nil || after > -50*time.Millisecond {
		t.Errorf("asked again: %+v, %v, %v; want the grant, made at least 50 ms before", grant, after, err)
	}
}

// handedWithAMark hands a name with a mark over to a waiter, and returns its news, which it has not heard.
func handedWithAMark(t *testing.T, ttl time.Duration) (s *redisstore.Store, p *liar, heir <-chan waiting, news string) {
	t.Helper()
	server := servers.Redis(t)
	p = newLiar(t, server.Addr)
	s = open(t, p.url()+"?prefix=p")
	held := take(t, s, "name", "a")
	answer, kept := make(chan waiting, 1), make(chan string, 1)
	go func() {
		grant, after, err := s.Queue(background, store.Claim{Name: "name", Holder: "b", TTL: ttl})
		answer <- waiting{grant, after, err}
	}()
	admin := plainClient(t, server.URL)
	servers.Wait(t, "b waits in the queue", func() bool { return admin.ZScore(background, "{p:0}:w:name", "b").Err() == nil })
	p.lying(func(v *resp) []*resp {
		if len(v.of) == 3 && v.of[0].text == "message" && len(v.of[2].text) > 26 {
			kept <- v.of[2].text
			return nil
		}
		return []*resp{v}
	})
	held.Mark = 7
	if err := release(s, held); err != nil {
		t.Fatal(err)
	}
	return s, p, answer, <-kept
}

// recordOf looks at the record of a name.
func recordOf(t *testing.T, s *redisstore.Store) store.Record {
	t.Helper()
	outs, err := s.Acquire(background, []store.Claim{{Name: "name", Holder: "-", TTL: time.Second, Mark: -1}})
	var done *store.DoneError
	if err != nil || !errors.As(outs[0].Err, &done) {
		t.Fatal(outs, err)
	}
	return done.Record
}

// A call of Queue is one claim: when the lease that it was handed has ended before it could be told of it, it takes no other one.
func TestAWaiterIsGrantedOneLease(t *testing.T) {
	s, _, heir, news := handedWithAMark(t, store.MinTTL)
	handed := recordOf(t, s)
	servers.Wait(t, "the lease is over", func() bool { return recordOf(t, s).Free() })
	s.Hear(news)
	if w := <-heir; !errors.Is(w.err, store.ErrHeld) {
		t.Errorf("%+v; want to be told to look again", w)
	}
	if r := recordOf(t, s); handed.Holder != "b" || r.Token != handed.Token {
		t.Errorf("handed over: %+v; afterwards: %+v; want no other lease", handed, r)
	}
}

// A name has been handed over, whatever becomes of looking at its record.
func TestAHandOverThatCannotBeReadIsUnknown(t *testing.T) {
	s, p, heir, news := handedWithAMark(t, time.Hour)
	p.lying(func(*resp) []*resp { return []*resp{{raw: "-NOPERM no\r\n"}} })
	s.Hear(news)
	if w := <-heir; !isUnknown(w.err) {
		t.Errorf("%+v; want ErrUnknown", w)
	}
}

// Who may publish and subscribe, and has no right to the keys, learns nothing of what is handed over, and makes nobody believe in a grant.
func TestWhoMayOnlyPublishForgesNothing(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	if err := admin.Do(background, words("ACL SETUSER spy on >pw resetkeys &* +publish +psubscribe +subscribe +ping +hello +client")...).Err(); err != nil {
		t.Fatal(err)
	}
	spy := plainClient(t, strings.Replace(server.URL, "redis://", "redis://spy:pw@", 1))
	sub := spy.PSubscribe(background, "*")
	defer sub.Close()
	if _, err := sub.Receive(background); err != nil {
		t.Fatal(err)
	}
	heard := sub.Channel()
	s := open(t, server.URL+"?prefix=p")
	last := take(t, s, "name", "holder-0")
	var seen []*redis.Message // on the inbox
	for i := range 4 {
		next := fmt.Sprint("holder-", i+1)
		answer := stand(t, admin, s, "{p:0}:w:name", "name", next)
		for _, m := range seen { // what was true once, and what might be
			_, rest, _ := strings.Cut(m.Payload, " ")
			for _, forged := range []string{m.Payload, "x " + rest, rest, " " + rest, next + " 0 0", "0 0", m.Payload + " ", "\x00 0 0", strings.ToLower(m.Payload)} {
				if forged == "" {
					continue // which has all look again, and believe nothing
				}
				if err := spy.Publish(background, m.Channel, forged).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := extend(s, last); err != nil {
			t.Fatal(err)
		}
		if i == 2 { // a mark and a state for the next are asked for
			last.Mark, last.State = 7, []byte("the state")
		}
		if err := release(s, last); err != nil {
			t.Fatal(err)
		}
		w := <-answer
		if w.err != nil || w.grant.Token <= last.Token || w.after <= 0 {
			t.Fatalf("hand-over %d: %+v", i, w)
		}
		if want := i >= 2; (w.grant.Mark == 7 && string(w.grant.State) == "the state") != want {
			t.Errorf("hand-over %d: %+v", i, w.grant)
		}
		if rec, err := s.Acquire(background, []store.Claim{{Name: "name", Holder: next, TTL: time.Minute}}); err != nil || rec[0].Grant.Token != w.grant.Token {
			t.Fatalf("hand-over %d: %s was told token %d, and the server says %+v, %v", i, next, w.grant.Token, rec, err)
		}
		last = store.Release{Name: "name", Holder: next, Token: w.grant.Token}
		for m := range heard {
			if strings.Contains(m.Channel, ":i:") && isNews(m.Payload, seen) {
				seen = append(seen, m)
				for _, secret := range []string{"name", "holder", fmt.Sprint(last.Token), "state"} {
					if strings.Contains(m.Payload, secret) {
						t.Errorf("the message %q tells %q", m.Payload, secret)
					}
				}
				break
			}
		}
	}
}

// isNews reports whether a payload begins with a secret that was not seen before.
func isNews(payload string, seen []*redis.Message) bool {
	secret, _, _ := strings.Cut(payload, " ")
	return len(secret) == 26 && strings.ToUpper(secret) == secret && !slices.ContainsFunc(seen, func(m *redis.Message) bool { return strings.HasPrefix(m.Payload, secret) })
}

// A message that comes before the server's word that the inbox is subscribed holds up nobody.
func TestMessageBeforeTheSubscription(t *testing.T) {
	server := servers.Redis(t)
	p := newLiar(t, server.Addr)
	s := open(t, p.url()+"?prefix=p")
	held := take(t, s, "name", "a")
	p.lying(func(v *resp) []*resp {
		if len(v.of) != 3 || v.of[0].text != "subscribe" {
			return []*resp{v}
		}
		return []*resp{{kind: v.kind, of: []*resp{{kind: '$', text: "message"}, v.of[1], {kind: '$'}}}}
	})
	ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		_, _, err := s.Queue(ctx, store.Claim{Name: "name", Holder: "b", TTL: time.Minute})
		answer <- err
	}()
	select {
	case err := <-answer:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting in the queue: %v", err)
		}
	case <-time.After(servers.Patience):
		t.Fatal("the request never came back")
	}
	p.lying(nil)
	if err := release(s, held); err != nil {
		t.Error(err)
	}
}

// A hand-over that was published while nobody was subscribed is not waited for: with a new connection of the inbox all who wait ask again.
func TestGapOfTheInboxIsNoticed(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	outs, err := s.Acquire(background, []store.Claim{{Name: "name", Holder: "a", TTL: time.Hour}})
	if err != nil || outs[0].Err != nil {
		t.Fatal(outs, err)
	}
	answer := make(chan error, 1)
	go func() {
		_, _, err := s.Queue(background, store.Claim{Name: "name", Holder: "b", TTL: time.Hour})
		answer <- err
	}()
	servers.Wait(t, "b waits in the queue", func() bool { return admin.ZScore(background, "{p:0}:w:name", "b").Err() == nil })
	if n, err := admin.ClientKillByFilter(background, "TYPE", "pubsub").Result(); n != 1 || err != nil {
		t.Fatalf("%d subscriptions ended, %v; want that of the inbox", n, err)
	}
	select {
	case err := <-answer:
		if !errors.Is(err, store.ErrHeld) {
			t.Errorf("after a gap: %v", err)
		}
	case <-time.After(servers.Patience):
		t.Error("after a gap the request waits for news that may have been published meanwhile")
	}
}

// An inbox that the server has not confirmed is not open: each call ends with its context, the next one tries anew,
// and once it is confirmed names are handed over.
func TestInboxIsOpenedAgain(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	p := newLiar(t, server.Addr)
	s := open(t, p.url()+"?prefix=p")
	held := take(t, s, "name", "a")
	p.lying(func(v *resp) []*resp {
		if len(v.of) == 3 && v.of[0].text == "subscribe" {
			return nil
		}
		return []*resp{v}
	})
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		answers := make(chan error, 2)
		for _, holder := range []string{"b", "c"} {
			go func() {
				_, _, err := s.Queue(ctx, store.Claim{Name: "name", Holder: holder, TTL: time.Minute})
				answers <- err
			}()
		}
		for range 2 {
			if err := <-answers; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("waiting in the queue: %v", err)
			}
		}
	}
	if n := admin.Exists(background, "{p:0}:w:name").Val(); n != 0 {
		t.Error("there is a line of those who would not hear that they are served")
	}
	p.lying(nil)
	heir := stand(t, admin, s, "{p:0}:w:name", "name", "d")
	must(t, release(s, held))
	if w := served(s, heir, "name", "d"); w.err != nil || w.grant.Token <= held.Token {
		t.Errorf("handed over: %+v", w)
	}
}
