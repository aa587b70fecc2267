package storetest_test

import (
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

var tokenFlaws = []flaw{
	{"token-positive", "tokens are negative", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		o.Grant.Token = -o.Grant.Token
		return o
	}})},
	{"token-over-release", "a released name begins again", counting(func(r store.Record) bool { return r.Holder == "" && r.Free() }, false)},
	{"token-over-release", "a holder has one token for good", func(testing.TB) bend {
		tokens := map[string]int64{}
		return bend{release: releaseCurrent, acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			o := acquire(s, c)
			if tokens[c.Holder] == 0 {
				tokens[c.Holder] = o.Grant.Token
			}
			o.Grant.Token = tokens[c.Holder]
			return o
		}}
	}},
	{"token-over-expiry", "an expired name begins again", counting(func(r store.Record) bool { return r.Holder != "" && r.Free() }, false)},
	{"token-over-sweep", "a forgotten name begins again", counting(func(r store.Record) bool { return r.Name == "" }, false)},
	{"token-over-reopening", "tokens are counted by each handle", counting(func(store.Record) bool { return false }, true)},
}

// counting is a store whose tokens are 1, 2, 3 from where begins says that the record found by a claim lets the count
// begin again.
func counting(begins func(store.Record) bool, perHandle bool) func(testing.TB) bend {
	type counter struct {
		handle *memstore.Store
		name   string
	}
	return func(testing.TB) bend {
		counts := map[counter]int64{}
		return bend{release: releaseCurrent, acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			before := look(s, c.Name)
			o := acquire(s, c)
			k := counter{name: c.Name}
			if perHandle {
				k.handle = s
			}
			if begins(before) {
				delete(counts, k)
			}
			if o.Err == nil && o.Grant.Token != before.Token {
				counts[k]++
			}
			o.Grant.Token = counts[k]
			return o
		}}
	}
}

// releaseCurrent releases whatever token is said, for stores whose tokens are not memstore's.
func releaseCurrent(s *memstore.Store, r store.Release) error {
	r.Token = look(s, r.Name).Token
	return release(s, r)
}
