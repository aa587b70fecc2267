package redisstore_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// woken reports whether a watch has a value.
func woken(w <-chan struct{}) bool {
	select {
	case _, open := <-w:
		return open
	case <-time.After(servers.Patience):
		return false
	}
}

// The server ends the subscription's connection: everybody is woken once, for a message may have been missed, and goes on.
func TestLostSubscription(t *testing.T) {
	for kind, url := range map[string]string{"one server": servers.Redis(t).URL, "cluster": sharedCluster(t).URL} {
		t.Run(kind, func(t *testing.T) {
			s := open(t, fresh(t, url))
			var all []<-chan struct{}
			for i := range 5 {
				all = append(all, watched(t, s, fmt.Sprint("name", i)))
			}
			drain(all)
			killed := int64(0)
			urls := []string{url}
			if kind == "cluster" {
				if sharedCluster(t).Nodes == nil {
					t.Skip("the cluster is somebody else's")
				}
				urls = nil
				for _, node := range sharedCluster(t).Nodes {
					urls = append(urls, node.URL)
				}
			}
			for _, url := range urls {
				n, err := plainClient(t, url).ClientKillByFilter(background, "TYPE", "pubsub").Result()
				if err != nil {
					t.Fatal(err)
				}
				killed += n
			}
			if killed == 0 {
				t.Fatal("there was no subscription to end")
			}
			for i, w := range all {
				if !woken(w) {
					t.Fatalf("watch %d was not woken by the new connection", i)
				}
			}
			drain(all)
			for i, w := range all {
				if err := release(s, take(t, s, fmt.Sprint("name", i), "h")); err != nil {
					t.Fatal(err)
				}
				if !woken(w) {
					t.Fatalf("watch %d was not woken by a release", i)
				}
			}
		})
	}
}

// drain takes values that come until there is none for a while.
func drain(all []<-chan struct{}) {
	for _, w := range all {
		for more := true; more; {
			select {
			case _, more = <-w:
			case <-time.After(50 * time.Millisecond):
				more = false
			}
		}
	}
}

// A release right after Watch has returned wakes the watch, also when the same channel was given up a moment ago.
func TestReleaseAfterWatchIsNeverMissed(t *testing.T) {
	for kind, url := range map[string]string{"one server": shared(t).URL, "cluster": sharedCluster(t).URL} {
		t.Run(kind, func(t *testing.T) {
			at := fresh(t, url)
			waiter, holder := open(t, at), open(t, at)
			for i := range 500 {
				r := take(t, holder, "name", fmt.Sprint("h", i))
				ctx, cancel := context.WithCancel(background)
				w, err := waiter.Watch(ctx, []string{"name"})
				if err != nil {
					t.Fatal(err)
				}
				select {
				case <-w: // of the subscription itself
				default:
				}
				if err := release(holder, r); err != nil {
					t.Fatal(err)
				}
				if !woken(w) {
					t.Fatalf("round %d: not woken", i)
				}
				cancel()
			}
		})
	}
}

// A release wakes by its news, and not when somebody looks again: it takes about as long as a request.
func TestWakingIsPrompt(t *testing.T) {
	at := fresh(t, shared(t).URL)
	waiter, holder := open(t, at), open(t, at)
	w := watched(t, waiter, "name")
	drain([]<-chan struct{}{w})
	var gaps, requests []time.Duration
	for i := range 200 {
		begin := time.Now()
		r := take(t, holder, "name", fmt.Sprint("h", i))
		requests = append(requests, time.Since(begin))
		begin = time.Now()
		if err := release(holder, r); err != nil || !woken(w) {
			t.Fatal(err)
		}
		gaps = append(gaps, time.Since(begin))
	}
	slices.Sort(gaps)
	slices.Sort(requests)
	t.Logf("from the release's begin to the wake: p50 %v, p99 %v", gaps[100], gaps[198])
	if most := 20*time.Millisecond + 20*requests[100]; gaps[100] > most {
		t.Errorf("p50 %v, where a request takes %v; want at most %v", gaps[100], requests[100], most)
	}
}

// A user who may not subscribe is told so, and not left waiting.
func TestSubscriptionThatIsDenied(t *testing.T) {
	servers.Long(t)
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	must(t, admin.Do(background, words("ACL SETUSER deaf on >pw ~* resetchannels +@all")...).Err())
	s := open(t, fresh(t, strings.Replace(server.URL, "redis://", "redis://deaf:pw@", 1)))
	for range 2 {
		_, err := s.Watch(background, []string{"name"})
		if err == nil || !strings.Contains(err.Error(), "may not subscribe") {
			t.Error(err)
		}
	}
	must(t, admin.Do(background, words("ACL SETUSER deaf allchannels")...).Err())
	w := watched(t, s, "name")
	must(t, release(s, take(t, s, "name", "h")))
	if !woken(w) {
		t.Error("not woken once the user may subscribe")
	}
}

// A subscription that is denied ends no other, also when the connection breaks and all that is watched is subscribed
// again.
func TestDeniedSubscriptionEndsNoOther(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	must(t, admin.Do(background, words("ACL SETUSER half on >pw ~* resetchannels &{p:0}:c:mine +@all")...).Err())
	s := open(t, strings.Replace(server.URL, "redis://", "redis://half:pw@", 1)+"?prefix=p")
	w := watched(t, s, "mine")
	if _, err := s.Watch(background, []string{"other"}); err == nil {
		t.Fatal("a channel that is denied is subscribed")
	}
	drain([]<-chan struct{}{w})
	must(t, admin.ClientKillByFilter(background, "TYPE", "pubsub").Err())
	if !woken(w) {
		t.Fatal("not woken by the new connection")
	}
	drain([]<-chan struct{}{w})
	must(t, release(s, take(t, s, "mine", "h")))
	if !woken(w) {
		t.Error("not woken by a release")
	}
}

func TestGoroutinesEndWithClose(t *testing.T) {
	url := shared(t).URL
	before := 0
	for round := range 5 {
		s, err := redisstore.OpenURL(background, fresh(t, url, "share=job-lock:env:*"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if _, err := s.Watch(background, []string{fmt.Sprint("lock/", i), fmt.Sprint("lock/", i+1)}); err != nil {
				t.Fatal(err)
			}
		}
		take(t, s, "name", "h")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if round == 0 { // what others of this program leave is there by now
			time.Sleep(100 * time.Millisecond)
			before = runtime.NumGoroutine()
		}
	}
	servers.Wait(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before+2 })
	if _, err := open(t, fresh(t, url)).Watch(background, []string{""}); err == nil {
		t.Error("an empty name is watched")
	}
}

// What nobody watches any more is not subscribed any more, so that the server sends nothing that is thrown away. What another watch wants stays.
func TestWhatNobodyWatchesIsNotSubscribed(t *testing.T) {
	p := prefix()
	s, c := open(t, shared(t).URL+"?prefix="+p), plainClient(t, shared(t).URL)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	both, err := s.Watch(ctx, []string{"first", "second"})
	must(t, err)
	watched(t, s, "second")
	end()
	for range both { // until it has ended
	}
	watched(t, s, "third") // the server has answered, and what it was asked for before that is done
	got, err := c.PubSubChannels(background, "{"+p+":*").Result()
	must(t, err)
	slices.Sort(got)
	if want := []string{"{" + p + ":0}:c:second", "{" + p + ":0}:c:third"}; !slices.Equal(got, want) {
		t.Errorf("subscribed are %q, want %q", got, want)
	}
}
