package storetest_test

import (
	"context"
	"math"
	"slices"
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
	{"token-time", "tokens of new names are counted", counting(func(store.Record) bool { return false }, false)},
	{"token-time", "the token of a name that was had is its last one + 1", func(testing.TB) bend {
		tokens := map[string]int64{}
		return bend{release: releaseCurrent, acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			before, o := look(s, c.Name), acquire(s, c)
			switch {
			case before.Name == "":
				tokens[c.Name] = o.Grant.Token
			case o.Err == nil && o.Grant.Token != before.Token:
				tokens[c.Name]++
			}
			o.Grant.Token = tokens[c.Name]
			return o
		}}
	}},
	{"token-above", "Above is not looked at", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.Above = 0
		return acquire(s, c)
	}})},
	{"token-above", "a token may be equal to Above", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.Above = max(0, c.Above-1)
		return acquire(s, c)
	}})},
	{"token-above-sweep", "a raised token is not remembered", raised(func(before store.Record) bool { return before.Name == "" })},
	{"token-above-sweep", "of what a sweep forgets only the last token is remembered", forgetting(func(floor int64, forgotten []int64) int64 {
		return max(floor, forgotten[len(forgotten)-1])
	})},
	{"token-above-sweep", "of what a sweep forgets only the first token is remembered", forgetting(func(floor int64, forgotten []int64) int64 {
		return max(floor, forgotten[0])
	})},
	{"token-above-sweep", "a sweep forgets what those before it have remembered", forgetting(func(_ int64, forgotten []int64) int64 {
		return slices.Max(forgotten)
	})},
	{"token-above-again", "a lease gets another token", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); c.Above > r.Token && r.Holder == c.Holder && !r.Free() {
			release(s, store.Release{Name: c.Name, Holder: c.Holder, Token: r.Token})
		}
		return acquire(s, c)
	}})},
	{"token-above-batch", "the first Above is that of all", always(bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			claims = slices.Clone(claims)
			for i := range claims {
				claims[i].Above = claims[0].Above
			}
			return s.Acquire(ctx, claims)
		},
	})},
	{"token-above-all", "the greatest number is as no Above", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Above == math.MaxInt64 {
			c.Above = 0
		}
		return acquire(s, c)
	}})},
	{"token-greatest", "a sweep that finds it takes the tokens of all names", func(testing.TB) bend {
		spent := false
		return bend{
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				if spent {
					return store.Outcome{Err: store.ErrTokens}
				}
				return acquire(s, c)
			},
			sweep: func(s *memstore.Store, limit int) int {
				spent = slices.ContainsFunc(list(s, ""), func(r store.Record) bool { return r.Token == math.MaxInt64 })
				n, _ := s.Sweep(context.Background(), limit)
				return n
			},
		}
	}},
	{"token-greatest", "a name begins again after its greatest token", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if look(s, c.Name).Token == math.MaxInt64 {
			c.Name += "again"
		}
		return acquire(s, c)
	}})},
	{"token-greatest", "a handle that has not seen the name begins again after its greatest token", func(testing.TB) bend {
		seen := map[*memstore.Store]bool{}
		return bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			if look(s, c.Name).Token == math.MaxInt64 && !seen[s] {
				c.Name += "again"
			}
			seen[s] = true
			return acquire(s, c)
		}}
	}},
	{"token-greatest", "a name without tokens is chosen before one that is free", always(bend{choose: withoutTokensFirst(func(err error) bool { return err == nil })})},
	{"token-greatest", "a name without tokens is chosen before one that will be free", always(bend{choose: withoutTokensFirst(func(err error) bool { return err != nil })})},
}

// withoutTokensFirst chooses a name that has no tokens left, if the choice without it ends like that.
func withoutTokensFirst(ends func(error) bool) func(*memstore.Store, []string, store.Claim) (int, store.Outcome) {
	return func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, grant, err := s.Choose(context.Background(), names, c)
		if at := slices.IndexFunc(names, func(name string) bool { return look(s, name).Token == math.MaxInt64 }); at >= 0 && ends(err) {
			return at, store.Outcome{Err: store.ErrTokens}
		}
		return i, store.Outcome{Grant: grant, Err: err}
	}
}

// raised is a store that adds what a claim's Above asks for to its tokens, until lost says that the record found by a claim makes it forget that.
func raised(lost func(store.Record) bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		more := map[string]int64{}
		return bend{release: releaseCurrent, acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			before, above := look(s, c.Name), c.Above
			c.Above = 0
			o := acquire(s, c)
			if o.Err == nil && o.Grant.Token != before.Token {
				if lost(before) {
					more[c.Name] = 0
				}
				more[c.Name] = max(more[c.Name], above+1-o.Grant.Token)
			}
			o.Grant.Token += more[c.Name]
			return o
		}}
	}
}

// forgetting is a store whose tokens are as low as they may be, where the floor of new names after a sweep is made of the one before and of the tokens that
// were forgotten, by name.
func forgetting(raise func(floor int64, forgotten []int64) int64) func(testing.TB) bend {
	return func(testing.TB) bend {
		tokens, floor := map[string]int64{}, int64(0)
		return bend{
			release: releaseCurrent,
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				before, above := look(s, c.Name), c.Above
				c.Above = 0
				o := acquire(s, c)
				if before.Name == "" {
					tokens[c.Name] = floor
				}
				if o.Err == nil && o.Grant.Token != before.Token {
					tokens[c.Name] = max(tokens[c.Name], above) + 1
				}
				o.Grant.Token = tokens[c.Name]
				return o
			},
			sweep: func(s *memstore.Store, limit int) int {
				before := list(s, "")
				n, _ := s.Sweep(context.Background(), limit)
				var forgotten []int64
				for _, r := range before {
					if look(s, r.Name).Name == "" {
						forgotten = append(forgotten, tokens[r.Name])
					}
				}
				if len(forgotten) > 0 {
					floor = raise(floor, forgotten)
				}
				return n
			},
		}
	}
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
