package redisstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// The rights that docs/stores/redis.md names are enough in every mode.
func TestRightsOfEveryMode(t *testing.T) {
	one, cluster, sentinel := servers.Redis(t), sharedCluster(t), servers.RedisSentinel(t)
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

// The line of the document is the one that is tested.
func TestDocumentHasTheLineOfRights(t *testing.T) {
	text, err := os.ReadFile("../../docs/stores/redis.md")
	if err != nil || !strings.Contains(string(text), aclLine("soloist", "PASSWORD", "soloist")) {
		t.Error("docs/stores/redis.md does not have the line that is tested", err)
	}
}
