package etcdstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestFewOperations: a server that takes few operations in one transaction, or checks few things for one, is asked for no more. Leases of many TTLs are of many sessions, of which each is checked.
func TestFewOperations(t *testing.T) {
	const names = 60
	member := servers.Etcd(t, 1, "--max-txn-ops", "16")[0]
	client := newClient(t, member.URL)
	t.Cleanup(func() { _ = client.Close() })
	for what, ttl := range map[string]func(int) time.Duration{
		"one TTL":   func(int) time.Duration { return time.Hour },
		"many TTLs": func(i int) time.Duration { return time.Hour + time.Duration(i)*10*time.Minute },
	} {
		s := on(t, client, prefix())
		claims, extensions, releases := make([]store.Claim, names), make([]store.Extension, names), make([]store.Release, names)
		for i := range claims {
			claims[i] = store.Claim{Name: fmt.Sprint(what, i), Holder: "x", TTL: ttl(i)}
		}
		acquire := func(claims []store.Claim) (outcomes []store.Outcome) {
			t.Helper()
			outcomes, err := s.Acquire(background, claims)
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range outcomes {
				if o.Err != nil {
					t.Fatalf("acquiring %s: %v", claims[i].Name, o.Err)
				}
			}
			return outcomes
		}
		for i := range claims { // one by one: so the extensions are the first of which too many are asked for
			grant := acquire(claims[i : i+1])[0].Grant
			extensions[i] = store.Extension{Name: claims[i].Name, Holder: "x", Token: grant.Token, TTL: ttl(i)}
			releases[i] = store.Release{Name: claims[i].Name, Holder: "x", Token: grant.Token}
		}
		for range 2 {
			errs, err := s.Extend(background, extensions)
			if err = errors.Join(append(errs, err)...); err != nil {
				t.Errorf("%s: extending: %v", what, err)
			}
		}
		errs, err := s.Release(background, releases)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Errorf("%s: releasing: %v", what, err)
		}
		acquire(claims)
	}
}
