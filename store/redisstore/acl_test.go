package redisstore_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// The rights that docs/stores/redis.md names are enough in every mode.
func TestRightsOfEveryMode(t *testing.T) {
	one, cluster, sentinel := servers.Redis(t), sharedCluster(t), servers.RedisSentinel(t, time.Minute)
	if cluster.Nodes == nil || sentinel.Master == nil {
		t.Skip("the servers are somebody else's")
	}
	for mode, c := range map[string]struct {
		servers   []*servers.RedisServer
		url, more string
	}{
		"string": {[]*servers.RedisServer{one}, one.URL + "?share=job-lock:default:*", "+exists +pttl +pexpire +scan ~job-lock:*"},
		"Redisson": {[]*servers.RedisServer{one}, one.URL + "?redisson=true",
			"+exists +hexists +hkeys +pttl +pexpire +incr +scan +hlen ~NAME ~redisson_lock_token:* &redisson_lock__channel:*"},
		"WAIT":    {[]*servers.RedisServer{sentinel.Master, sentinel.Replica}, sentinel.URL + "?wait=1", "+wait"},
		"cluster": {cluster.Nodes, cluster.URL + "?", "+cluster|slots +cluster|info +command"},
	} {
		t.Run(mode, func(t *testing.T) {
			for _, server := range c.servers {
				line := aclLine(strings.ToLower(mode), "pw", "acl") + " " + c.more
				must(t, plainClient(t, server.URL).Do(background, words(line)...).Err())
			}
			url := strings.Replace(c.url, "://", "://"+strings.ToLower(mode)+":pw@", 1) + "&prefix=acl"
			url = strings.Replace(url, "?&", "?", 1)
			s := open(t, url)
			w := watched(t, s, "lock/NAME")
			r := take(t, s, "lock/NAME", "h")
			held(t, s, "lock/NAME", "other")
			must(t, extend(s, r))
			must(t, release(s, r))
			if !woken(w) {
				t.Error("not woken")
			}
			count(t, s)
			_, err := s.Sweep(background, 10)
			must(t, err)
			for subject, f := range finding(t, s) {
				if f.Level == "error" || f.Level == "unknown" {
					t.Errorf("%s: %+v", subject, f)
				}
			}
		})
	}
}

// A user who may not publish cannot release what somebody watches. A batch that releases it twice reports that of both, for neither is carried out.
func TestReleaseTwiceWithoutTheRightToPublish(t *testing.T) {
	server := servers.Redis(t)
	must(t, plainClient(t, server.URL).Do(background, append(words(aclLine("mute", "pw", "mute")), "resetchannels")...).Err())
	s := open(t, strings.Replace(server.URL, "://", "://mute:pw@", 1)+"?prefix=mute")
	watched(t, open(t, server.URL+"?prefix=mute"), "lock/NAME")
	r := take(t, s, "lock/NAME", "h")
	errs, err := s.Release(background, []store.Release{r, r}) // that all have failed in the same way is an error of the call
	for i := range errs {
		if err == nil && errs[i] == nil {
			t.Errorf("release %d: done", i)
		}
	}
	must(t, extend(s, r))
}

// The claim of a user who may not wait for replicas has been carried out when the server says so: it is unknown, and not refused.
func TestGrantWithoutTheRightToWait(t *testing.T) {
	server := servers.Redis(t)
	must(t, plainClient(t, server.URL).Do(background, words(aclLine("hasty", "pw", "hasty"))...).Err())
	url := strings.Replace(server.URL, "://", "://hasty:pw@", 1) + "?prefix=hasty"
	s := open(t, url+"&wait=1")
	if err := tried(background, s, "name", "a"); !isUnknown(err) {
		t.Errorf("a claim: %v, want unknown", err)
	}
	if _, _, err := s.Choose(background, []string{"other"}, store.Claim{Holder: "a", TTL: time.Minute}); !isUnknown(err) {
		t.Errorf("a choice: %v, want unknown", err)
	}
	if f := finding(t, s)["privileges"]; f.Level != store.LevelError || !strings.Contains(f.Found, "may not wait") || !strings.Contains(f.Fix, "+wait") {
		t.Errorf("the right that is missing is found as %+v", f)
	}
	for _, name := range []string{"name", "other"} {
		held(t, open(t, url), name, "b") // so it would be wrong to say that nothing has happened
	}
}

// A user who may not count subscribers hands over all the same: then the number of those whom the news reach tells
// who is there.
func TestHandOverWithoutTheRightToCount(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	must(t, admin.Do(background, append(words(aclLine("blind", "pw", "p")), "-pubsub")...).Err())
	url := strings.Replace(server.URL, "://", "://blind:pw@", 1) + "?prefix=p"
	s, gone := open(t, url), open(t, url)
	held := take(t, s, "name", "a")
	stand(t, admin, gone, "{p:0}:w:name", "name", "dead")
	heir := stand(t, admin, s, "{p:0}:w:name", "name", "living")
	must(t, gone.Close())
	servers.Wait(t, "the server to notice", func() bool {
		channels, err := admin.PubSubChannels(background, "{p:0}:i:*").Result()
		return err == nil && len(channels) == 1
	})
	must(t, release(s, held))
	if w := served(s, heir, "name", "living"); w.err != nil || w.grant.Token <= held.Token {
		t.Errorf("handed over: %+v", w)
	}
}

// A claim that fails because the user lacks a right leaves no key behind that keeps another library out: nobody would
// give it back.
func TestFailedClaimLeavesNoSharedKey(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	must(t, admin.Do(background, words("ACL SETUSER halting on >pw ~* &* +@all -zadd")...).Err())
	url := strings.Replace(server.URL, "://", "://halting:pw@", 1)
	for mode, peer := range map[string]string{"redisson=true": "name", "share=theirs:*": "theirs:name"} {
		s := open(t, fresh(t, url, mode))
		if err := tried(background, s, "lock/name", "h"); !isUnknown(err) {
			t.Errorf("%s: %v; want unknown", mode, err)
		}
		_, _, err := s.Choose(background, []string{"lock/name"}, store.Claim{Holder: "h", TTL: time.Minute})
		if !isUnknown(err) {
			t.Errorf("%s: choosing: %v; want unknown", mode, err)
		}
		if n := admin.Exists(background, peer).Val(); n != 0 {
			t.Errorf("%s: the key is there", mode)
		}
	}
}

// The line of the document is the one that is tested.
func TestDocumentHasTheLineOfRights(t *testing.T) {
	text, err := os.ReadFile("../../docs/stores/redis.md")
	if err != nil || !strings.Contains(string(text), aclLine("soloist", "PASSWORD", "soloist")) {
		t.Error("docs/stores/redis.md does not have the line that is tested", err)
	}
}
