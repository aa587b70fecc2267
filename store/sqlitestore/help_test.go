package sqlitestore

import (
	"context"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

func claim(name, holder string, ttl time.Duration) []store.Claim {
	return []store.Claim{{Name: name, Holder: holder, TTL: ttl}}
}

// try asks for a name and answers the one outcome, or the error of the call.
func try(s store.Store, name, holder string, ttl time.Duration) (store.Grant, error) {
	out, err := s.Acquire(context.Background(), claim(name, holder, ttl))
	if err != nil {
		return store.Grant{}, err
	}
	return out[0].Grant, out[0].Err
}

// take takes a name that must be free, and answers what releases it.
func take(t testing.TB, s store.Store, name, holder string, ttl time.Duration) store.Release {
	t.Helper()
	g, err := try(s, name, holder, ttl)
	if err != nil {
		t.Fatalf("taking %q: %v", name, err)
	}
	return store.Release{Name: name, Holder: holder, Token: g.Token}
}

func release(t testing.TB, s store.Store, r store.Release) {
	t.Helper()
	errs, err := s.Release(context.Background(), []store.Release{r})
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		t.Fatalf("releasing %q: %v", r.Name, err)
	}
}
