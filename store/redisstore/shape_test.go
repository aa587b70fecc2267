package redisstore_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
)

// A reply that announces more memory than any machine should give, or is deeper than any stack, is refused before room is made for it. Without
// that the program would end: neither can be recovered from.
func TestAbsurdRepliesAreRefusedBeforeTheyAreRead(t *testing.T) {
	server := shared(t)
	const room = 64 << 20 // bytes
	for what, reply := range map[string]string{
		"long text":    "$200000000\r\n",
		"long array":   "*20000000\r\n",
		"large map":    "%3000000\r\n",
		"deep":         strings.Repeat("*1\r\n", 2_000_000),
		"deep in maps": strings.Repeat("%1\r\n+k\r\n", 1_000_000),
	} {
		t.Run(what, func(t *testing.T) {
			p := newLiar(t, server.Addr)
			s := open(t, fresh(t, p.url()))
			take(t, s, "warm", "h")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p.lying(func(*resp) []*resp { return []*resp{{raw: reply}} })
			_, err := s.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
			runtime.ReadMemStats(&after)
			if !isUnknown(err) || !strings.Contains(err.Error(), "malformed") {
				t.Errorf("got %.200v; want an unknown outcome because of a malformed reply", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > room {
				t.Errorf("%d MiB were allocated", used>>20)
			}
			p.lying(nil)
			repeated(t, "going on as before", func() error { return tried(background, s, "afterwards", "h") })
		})
	}
}

// Every true reply has a shape, in however many pieces it comes, and what begins after it is looked at anew.
func TestShapes(t *testing.T) {
	for reply, right := range map[string]bool{
		"+OK\r\n":                          true,
		":-12\r\n":                         true,
		"$-1\r\n":                          true,
		"*-1\r\n":                          true,
		"$0\r\n\r\n":                       true,
		"$5\r\na\r\nbc\r\n":                true,
		"=7\r\ntxt:abc\r\n":                true,
		"*0\r\n":                           true,
		"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n":    true,
		"%1\r\n+a\r\n*1\r\n_\r\n":          true,
		"|1\r\n+ttl\r\n:3\r\n*1\r\n+a\r\n": true,
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n": true,
		strings.Repeat("*1\r\n", 32) + ":1\r\n":        true,
		strings.Repeat("*1\r\n", 33) + ":1\r\n":        false,
		"$-2\r\n":                                      false,
		"%-1\r\n":                                      false,
		"$16777217\r\n":                                false,
		"*131073\r\n":                                  false,
		"$abc\r\n":                                     false,
		"$\r\n":                                        false,
		"\r\n":                                         false,
		"HTTP/1.1 400\r\n":                             false,
		"+no line end\n":                               false,
	} {
		for _, size := range []int{1, 2, 7, 1 << 20} {
			said := strings.Repeat(reply, 40) // so that what is left open adds up
			err := follow(said, size)
			if (err == nil) != right {
				t.Errorf("%.60q in pieces of %d: %v", reply, size, err)
			}
		}
	}
}

// follow reads what a server says in pieces of a size.
func follow(said string, size int) error {
	c := redisstore.ShapedText(said)
	for {
		if _, err := c.Read(make([]byte, size)); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
	}
}
