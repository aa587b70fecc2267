package redisstore

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const canary = "canary5ecret"

func TestURLs(t *testing.T) {
	for _, good := range []string{
		"redis://localhost", "redis://localhost:6380/3", "redis://[::1]:6379", "redis://::1", "rediss://host?servername=other",
		"redis://user:p%40%2F%3Fss@host/0?prefix=app&pool=3&timeout=2s&dialtimeout=1s", "redis://:pw@host",
		"redis+sentinel://a,b:26380,c/main", "redis+sentinel://u:p@a/main/2?sentineluser=x&sentinelpassword=y",
		"redis+cluster://a:1,b:2", "rediss+cluster://a:1,b:2/0", "redis://host?wait=1&waittimeout=100ms", "redis://host?share=job-lock:prod:*", "redis://host?share=*",
		"redis://host?redisson=true",
	} {
		if _, err := parseURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, says := range map[string]string{
		"":                                "redis://",
		"localhost:6379":                  "redis://",
		"http://host":                     `"http"`,
		"redis+ring://host":               `"redis+ring"`,
		"redis://":                        "then hosts",
		"redis://:6379":                   "HOST:PORT",
		"redis://host:0":                  "HOST:PORT",
		"redis://host:port":               "HOST:PORT",
		"redis://a,b":                     "write one host",
		"redis://host/x":                  `database of the store's URL "x"`,
		"redis://host/-1":                 `"-1"`,
		"redis+sentinel://host":           "name under which the Sentinels",
		"redis+sentinel://host/main/x":    `"x"`,
		"redis+cluster://host/1":          "one database",
		"redis://host?prefx=a":            `"prefx": there is none of that name; there are cafile`,
		"redis://host?wait=x":             "option wait",
		"redis://host?wait=-1":            "option wait",
		"redis://host?wait=101":           "0 to 100",
		"redis://host?timeout=5":          "such as 500ms",
		"redis://host?timeout=0s":         "more than 0",
		"redis://host?insecure=x":         "option insecure",
		"redis://host?insecure=true":      "begin the URL with rediss",
		"redis://host?cafile=/x":          "begin the URL with rediss",
		"rediss://host?cafile=/none":      "cafile",
		"rediss://host?certfile=/x":       "both or neither",
		"redis://host?prefix=":            "must not be empty",
		"redis://host?prefix={}":          "braces",
		"redis://host?share=*&redisson=1": "must not be together",
		"redis://host?share=lock":         `share "lock": must be the key of the other library with one * in the place of the lock's name`,
		"redis://host?share=*:*":          "one *",
		"redis://host?share=%20*":         "without spaces",
		"redis://host?share=":             "must not be empty",
		"redis://host?share=*;wait=1":     "key=value",
		"redis://host?%zz":                "%XX",
	} {
		if _, err := parseURL(bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", bad, err, says)
		}
	}
}

// What a URL says reaches the client, whatever kind of client that is.
func TestURLReachesTheClient(t *testing.T) {
	const query = "?pool=3&timeout=2s&dialtimeout=1s"
	type said struct {
		user, password             string
		db, pool, retries, dialing int
		dial, read, write          time.Duration
		bound                      bool
	}
	clientOf := func(text string) redis.UniversalClient {
		u, err := parseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		c := u.client()
		t.Cleanup(func() { c.Close() })
		return c
	}
	for text, db := range map[string]int{"redis://u:p@h/7": 7, "redis+sentinel://u:p@h/main/7": 7, "redis+sentinel://u:p@h/main": 0, "redis+cluster://u:p@h,i:1": 0} {
		want := said{"u", "p", db, 3, 0, 1, time.Second, 2 * time.Second, 2 * time.Second, true}
		var got said
		switch c := clientOf(text + query).(type) {
		case *redis.Client:
			o := c.Options()
			got = said{o.Username, o.Password, o.DB, o.PoolSize, o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled}
		case *redis.ClusterClient:
			o := c.Options()
			got = said{o.Username, o.Password, db, o.PoolSize, o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled}
			if !slices.Equal(o.Addrs, []string{"h:6379", "i:1"}) {
				t.Errorf("%s: the nodes are %q", text, o.Addrs)
			}
			got.retries = max(0, got.retries) // as go-redis has it of a cluster's
		}
		if got != want {
			t.Errorf("%s: the client has %+v, want %+v", text, got, want)
		}
	}
	if o := clientOf("redis://[::1]").(*redis.Client).Options(); o.Addr != "[::1]:6379" {
		t.Errorf("the server is %q", o.Addr)
	}
}

// A Sentinel is told who the user of Sentinels is, and not the password of the server.
func TestSentinelUser(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan string, 1)
	go func() {
		var all strings.Builder
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for b := make([]byte, 4096); ; {
				n, err := conn.Read(b)
				all.Write(b[:n])
				if err != nil || strings.Contains(all.String(), "main-name") {
					break
				}
				_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
			}
			conn.Close()
			select {
			case asked <- all.String():
			default:
			}
		}
	}()
	u, err := parseURL("redis+sentinel://server-user:server-password@" + l.Addr().String() + "/main-name?sentineluser=sentinel-user&sentinelpassword=sentinel-password")
	if err != nil {
		t.Fatal(err)
	}
	c := u.client()
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a server was found by a Sentinel that knows none")
	}
	said := <-asked
	for _, word := range []string{"sentinel-user", "sentinel-password"} {
		if !strings.Contains(said, word) {
			t.Errorf("the Sentinel was not told %q: %q", word, said)
		}
	}
	if strings.Contains(said, "server-password") {
		t.Errorf("the Sentinel was told the password of the server: %q", said)
	}
}

// Wherever somebody puts a password, it is not in the error.
func TestNoURLErrorTellsThePassword(t *testing.T) {
	for _, text := range []string{
		canary + "@host", "redis:" + canary + "@host", "redis:/" + canary + "@host", canary + "://host", "redis://u:" + canary,
		"redis://u:" + canary + "@", "redis://u:" + canary + "@host:x", "redis://u:a/" + canary + "@host", "redis://u:" + canary + "/b@host/0",
		"redis://u:a?" + canary + "@host", "redis://u:" + canary + "?b@host", "redis://u:" + canary + "%zz@host", "redis://u:" + canary + "@host/x",
		"redis://u:" + canary + "@host?x=y", "redis://u:" + canary + "@host,other", "redis://host?sentinelpassword=" + canary + "&wait=x",
		"redis://u:a:" + canary, "redis+sentinel://u:" + canary + "@host", "redis://u@" + canary + ":" + canary + "@host:y",
		"redis://u:" + canary + "#@host:x", "redis://u:p@a/" + canary + "@host/0", "redis://u:p@a?" + canary + "@host",
	} {
		if _, err := parseURL(text); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzURL(f *testing.F) {
	f.Add("u", "pw", "host:6379", "/0", "prefix=a")
	f.Add("u", "p@w/?", "a,b", "/main", "wait=1")
	f.Fuzz(func(t *testing.T, user, mess, hosts, path, query string) {
		for _, scheme := range []string{"redis", "rediss+sentinel", "redis+cluster"} {
			u, err := parseURL(scheme + "://" + user + ":" + canary + mess + "@" + hosts + path + "?" + query)
			if err != nil && strings.Contains(err.Error(), canary) && !strings.Contains(user+mess+hosts+path+query, canary) {
				t.Errorf("the password is told: %v", err)
			}
			if err == nil && (len(u.addrs) == 0 || u.config.defaulted().check() != nil) {
				t.Errorf("%+v", u)
			}
		}
	})
}

// FuzzKeys: two names never share a key, every key of a part has one hash tag, and the name comes back out of the key.
func FuzzKeys(f *testing.F) {
	f.Add("a", "b")
	f.Add("{a}", "}{")
	f.Add("token", "r:token")
	parts := newBuckets("soloist", buckets)
	s := &Store{parts: parts}
	f.Fuzz(func(t *testing.T, a, b string) {
		i, j := s.bucketOf(a), s.bucketOf(b)
		ka, kb := parts[i].records+a, parts[j].records+b
		if (a == b) != (ka == kb) {
			t.Errorf("%q and %q: %q and %q", a, b, ka, kb)
		}
		tag, rest, _ := strings.Cut(strings.TrimPrefix(ka, "{"), "}")
		if !strings.HasPrefix(parts[i].floor, "{"+tag+"}") || !strings.HasPrefix(parts[i].names, "{"+tag+"}") || rest != ":r:"+a {
			t.Errorf("%q has the key %q", a, ka)
		}
		if ka[len(parts[i].records):] != a {
			t.Errorf("%q comes back as %q", a, ka[len(parts[i].records):])
		}
		for _, own := range []string{parts[i].floor, parts[i].names, parts[i].due} {
			if own == ka {
				t.Errorf("%q has the key of the part's own", a)
			}
		}
	})
}
