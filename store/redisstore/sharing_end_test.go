package redisstore_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// The key that other libraries see is there for as long as what it stands for: a grant, a chosen one, an extension and a linger, also where they last a
// part of a millisecond, which Redis's keys do not know. If it ended sooner somebody else would take the name while its holder has it.
func TestSharedKeyIsThereToTheEnd(t *testing.T) {
	url := shared(t).URL
	client := plainClient(t, url)
	for mode, options := range map[string]func(env string) string{
		"string": func(env string) string { return "share=" + env + ":*" }, "redisson": func(string) string { return "redisson=true" },
	} {
		t.Run(mode, func(t *testing.T) {
			env := prefix()
			s := open(t, url+"?prefix="+env+"&"+options(env))
			for _, more := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond} {
				name, ttl := prefix(), time.Minute+more
				peer := map[string]string{"string": env + ":" + name, "redisson": name}[mode]
				whole := func(what string) {
					t.Helper()
					record, err := client.Get(background, "{"+env+":0}:r:lock/"+name).Bytes()
					must(t, err)
					until := int64(math.Float64frombits(binary.LittleEndian.Uint64(record[12:])))
					last, err := client.PExpireTime(background, peer).Result() // the last millisecond in which the key is there
					must(t, err)
					if end := (last.Milliseconds() + 1) * 1000; end < until {
						t.Errorf("%v more, %s: the key is there until %d µs, what it stands for until %d", more, what, end, until)
					}
				}
				at := func(claim store.Claim) store.Grant {
					outs, err := s.Acquire(background, []store.Claim{claim})
					must(t, err)
					must(t, outs[0].Err)
					return outs[0].Grant
				}
				grant := at(store.Claim{Name: "lock/" + name, Holder: "h", TTL: ttl})
				whole("a grant")
				errs, err := s.Extend(background, []store.Extension{{Name: "lock/" + name, Holder: "h", Token: grant.Token, TTL: 2 * ttl}})
				must(t, err)
				must(t, errs[0])
				whole("an extension")
				must(t, release(s, store.Release{Name: "lock/" + name, Holder: "h", Token: grant.Token, Linger: ttl}))
				whole("a linger")

				name = prefix()
				peer = map[string]string{"string": env + ":" + name, "redisson": name}[mode]
				_, grant, err = s.Choose(background, []string{"lock/" + name}, store.Claim{Holder: "h", TTL: ttl})
				must(t, err)
				whole("a chosen grant")
				errs, err = s.Extend(background, []store.Extension{{Name: "lock/" + name, Holder: "h", Token: grant.Token, TTL: 2 * ttl}})
				must(t, err)
				must(t, errs[0])
				whole("its extension")
				must(t, release(s, store.Release{Name: "lock/" + name, Holder: "h", Token: grant.Token}))
				if n, err := client.Exists(background, peer).Result(); n != 0 || err != nil {
					t.Errorf("%v more: the key stays after the release of a chosen grant (%d, %v)", more, n, err)
				}
			}
		})
	}
}
