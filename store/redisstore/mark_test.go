package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// published counts the messages that a server was asked to publish.
func published(t testing.TB, url string) int64 {
	t.Helper()
	text, err := plainClient(t, url).Info(background, "commandstats").Result()
	must(t, err)
	n := int64(0)
	if _, rest, ok := strings.Cut(text, "cmdstat_publish:calls="); ok {
		_, err = fmt.Sscanf(rest, "%d,", &n)
	}
	must(t, err)
	return n
}

// A release publishes nothing as long as nobody watches.
func TestReleasesAreNotPublishedToNobody(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, server.URL+"?prefix=p")
	pair := func() {
		t.Helper()
		must(t, release(s, take(t, s, "name", "h")))
	}
	pair()
	if n := published(t, server.URL); n != 0 {
		t.Errorf("%d messages were published, and nobody watches", n)
	}
	w := watched(t, open(t, server.URL+"?prefix=p"), "name")
	if pair(); !woken(w) {
		t.Fatal("not woken")
	}
	if n := published(t, server.URL); n != 1 {
		t.Errorf("%d messages were published for 1 release", n)
	}
}

// When the mark that somebody watches was gone for a while, a release may have woken nobody: who watches is woken once the mark is there again.
func TestGapOfTheMarkIsNoticed(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	w := watched(t, s, "name")
	drain([]<-chan struct{}{w})
	must(t, s.Mark(background))
	select {
	case <-w:
		t.Error("woken, and there was no gap")
	default:
	}
	must(t, admin.Del(background, "{p:0}:watched").Err())
	must(t, release(s, take(t, s, "name", "h")))
	must(t, s.Mark(background))
	if !woken(w) {
		t.Fatal("not woken after the gap")
	}
	must(t, s.Mark(background))
	select {
	case <-w:
		t.Error("woken again, and there was no other gap")
	default:
	}
	must(t, release(s, take(t, s, "name", "h")))
	if !woken(w) {
		t.Error("not woken by a release after the gap")
	}
}

// A mark that could not be made on another connection, which may be that of another server, is made as soon as it can be, and not when it would be renewed
// anyhow: until then releases wake nobody.
func TestMarkThatFailedIsMadeSoon(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	s := open(t, server.URL+"?prefix=p")
	s.MarkSeldom()
	w := watched(t, s, "name")
	failures := func() (n int) {
		text, err := admin.Info(background, "errorstats").Result()
		must(t, err)
		if _, rest, ok := strings.Cut(text, "errorstat_WRONGTYPE:count="); ok {
			_, err = fmt.Sscanf(rest, "%d", &n)
			must(t, err)
		}
		return n
	}
	must(t, admin.Del(background, "{p:0}:watched").Err())
	must(t, admin.RPush(background, "{p:0}:watched", "x").Err()) // which is no mark
	must(t, admin.ClientKillByFilter(background, "TYPE", "pubsub").Err())
	servers.Wait(t, "the mark cannot be made", func() bool { return failures() > 0 })
	must(t, admin.Del(background, "{p:0}:watched").Err())
	servers.Wait(t, "the mark is made", func() bool { return admin.Exists(background, "{p:0}:watched").Val() == 1 })
	drain([]<-chan struct{}{w})
	must(t, release(s, take(t, s, "name", "h")))
	if !woken(w) {
		t.Error("not woken by a release after that")
	}
}

// The mark is renewed for as long as somebody watches a name, and not for those alone who wait in lines.
func TestMarkIsForNames(t *testing.T) {
	s := open(t, fresh(t, shared(t).URL))
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	if _, err := s.Watch(ctx, []string{"name"}); err != nil || !s.Watching() {
		t.Errorf("one name: %v, watching: %t", err, s.Watching())
	}
	if _, _, err := s.Queue(background, store.Claim{Name: "other", Holder: "h", TTL: time.Minute}); err != nil || !s.Watching() {
		t.Errorf("one name and the inbox: %v, watching: %t", err, s.Watching())
	}
	cancel()
	servers.Wait(t, "the watch to end", func() bool { return !s.Watching() })
}

// The mark that somebody watches ends by itself.
func TestMarkEnds(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, server.URL+"?prefix=p")
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	if _, err := s.Watch(ctx, []string{"name"}); err != nil {
		t.Fatal(err)
	}
	if left := plainClient(t, server.URL).PTTL(background, "{p:0}:watched").Val(); left <= 0 {
		t.Errorf("the mark has no end: %v", left)
	}
}
