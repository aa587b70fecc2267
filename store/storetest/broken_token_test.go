package storetest_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

var tokenFlaws = []flaw{
	{"token-positive", "tokens are negative", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		o.Grant.Token = -o.Grant.Token
		return o
	}})},
	{"token-positive", "the token is 0", granting(func(_ store.Record, g *store.Grant) { g.Token = 0 })},
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
	{"token-over-sweep", "a forgotten name begins again once another was forgotten", lastForgotten},
	{"token-over-reopening", "tokens are counted by each handle", counting(func(store.Record) bool { return false }, true)},
	{"token-over-reopening", "tokens begin again when a handle is closed", func(t testing.TB) bend {
		var closed atomic.Bool
		b := counting(func(store.Record) bool { return closed.CompareAndSwap(true, false) }, false)(t)
		b.close = func(s *memstore.Store) error { closed.Store(true); return s.Close() }
		return b
	}},
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
	{"token-time", "the token of a name whose lease has ended is its last one + 1", countedOn(func(r store.Record) bool { return r.Holder != "" })},
	{"token-time", "the token of a name that was forgotten is its last one + 1", countedOn(func(r store.Record) bool { return r.Name == "" })},
	{"token-time", "the token of what is handed over is the last one + 1", func(testing.TB) bend {
		return bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
			before := look(s, c.Name).Token
			grant, after, err := s.Queue(ctx, c)
			grant.Token = before + 1
			return grant, after, err
		}}
	}},
	{"token-time", "the token of a new name that is chosen is 1", forgiving(always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		met := look(s, names[0])
		i, o := choose(s, names, c)
		if met.Name == "" {
			o.Grant.Token = 1
		}
		return i, o
	}}))},
	{"token-time", "the token of a name that is chosen is its last one + 1", forgiving(always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		met := look(s, names[0])
		i, o := choose(s, names, c)
		if met.Name != "" {
			o.Grant.Token = met.Token + 1
		}
		return i, o
	}}))},
	{"token-above", "Above is not looked at", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.Above = 0
		return acquire(s, c)
	}})},
	{"token-above", "a token may be equal to Above", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.Above = max(0, c.Above-1)
		return acquire(s, c)
	}})},
	{"token-above", "Above is not looked at for a new name", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if look(s, c.Name).Name == "" {
			c.Above = 0
		}
		return acquire(s, c)
	}})},
	{"token-above", "Above is not looked at for a name that was released", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if look(s, c.Name).Name != "" {
			c.Above = 0
		}
		return acquire(s, c)
	}})},
	{"token-above", "a claim with Above has no mark", answering(func(_ store.Record, c store.Claim, o *store.Outcome) {
		if c.Above != 0 {
			o.Grant.Mark = 0
		}
	})},
	{"token-above", "a claim with Above has no state", answering(func(_ store.Record, c store.Claim, o *store.Outcome) {
		if c.Above != 0 {
			o.Grant.State = nil
		}
	})},
	{"token-above", "a lower Above lowers the token", forgiving(answering(func(_ store.Record, c store.Claim, o *store.Outcome) {
		if c.Above == 5 {
			o.Grant.Token = 6
		}
	}))},
	{"token-above", "a raised token is forgotten by the next claim without Above", forgiving(answering(func(_ store.Record, c store.Claim, o *store.Outcome) {
		if c.Above == 0 {
			o.Grant.Token = min(o.Grant.Token, 1<<50)
		}
	}))},
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
	{"token-above-again", "another token is told", forgiving(answering(func(_ store.Record, c store.Claim, o *store.Outcome) {
		o.Grant.Token = max(o.Grant.Token, c.Above+1)
	}))},
	{"token-above-again", "a claim with Above takes the name from the one that has it", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Above > 0 && look(s, c.Name).Holder != c.Holder {
			return force(s, c)
		}
		return acquire(s, c)
	}})},
	{"token-above-again", "a lease that was asked for again with Above is lost", losing(func(met store.Record, c store.Claim, _ store.Outcome) bool {
		return c.Above > 0 && met.Holder != ""
	})},
	{"token-above-again", "a lease that was asked for again with Above is not released", func(t testing.TB) bend {
		b := losing(func(met store.Record, c store.Claim, _ store.Outcome) bool { return c.Above > 0 && met.Holder != "" })(t)
		b.extend = nil
		return b
	}},
	{"token-above-batch", "the first Above is that of all", always(bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			claims = slices.Clone(claims)
			for i := range claims {
				claims[i].Above = claims[0].Above
			}
			return s.Acquire(ctx, claims)
		},
	})},
	{"token-above-batch", "the last Above is that of all", always(bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			claims = slices.Clone(claims)
			for i := range claims {
				claims[i].Above = claims[len(claims)-1].Above
			}
			return s.Acquire(ctx, claims)
		},
	})},
	{"token-above-batch", "the least Above of all that have one is that of those", always(bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			claims = slices.Clone(claims)
			for i := range claims {
				claims[i].Above = min(claims[i].Above, 1<<52)
			}
			return s.Acquire(ctx, claims)
		},
	})},
	{"token-above-batch", "a token may be equal to the second Above", always(bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			claims = slices.Clone(claims)
			for i := range claims {
				if i > 0 && claims[i].Above > 0 {
					claims[i].Above--
				}
			}
			return s.Acquire(ctx, claims)
		},
	})},
	{"token-above-batch", "a name that was released is not granted beside new ones", always(bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			known := make([]bool, len(claims))
			for i, c := range claims {
				known[i] = len(claims) > 1 && look(s, c.Name).Name != ""
			}
			out, err := s.Acquire(ctx, claims)
			for i := range out {
				if known[i] {
					out[i].Err = store.ErrTokens
				}
			}
			return out, err
		},
	})},
	{"token-above-batch", "several with Above fail together", always(bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			if len(claims) > 1 {
				return nil, errors.New("syntax error")
			}
			return s.Acquire(ctx, claims)
		},
	})},
	{"token-above-batch", "one outcome is left out", always(bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			out, err := s.Acquire(ctx, claims)
			return out[:max(1, len(out)-1)], err
		},
	})},
	{"token-above-all", "the greatest number is as no Above", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Above == math.MaxInt64 {
			c.Above = 0
		}
		return acquire(s, c)
	}})},
	{"token-above-all", "the greatest number is as no Above for a new name", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Above == math.MaxInt64 && look(s, c.Name).Name == "" {
			c.Above = 0
		}
		return acquire(s, c)
	}})},
	{"token-above-all", "the greatest number is as no Above for a name that was released", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Above == math.MaxInt64 && look(s, c.Name).Name != "" {
			c.Above = 0
		}
		return acquire(s, c)
	}})},
	{"token-above-all", "after that the name is taken", func(testing.TB) bend {
		spent := map[string]bool{}
		return bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			spent[c.Name] = spent[c.Name] || c.Above == math.MaxInt64
			if spent[c.Name] {
				return store.Outcome{Err: store.ErrTokens}
			}
			return acquire(s, c)
		}}
	}},
	{"token-greatest", "a claim for the greatest token fails", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Above == math.MaxInt64-1 {
			return store.Outcome{Err: errors.New("out of range")}
		}
		return acquire(s, c)
	}})},
	{"token-greatest", "the greatest token has 32 bits", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Above > math.MaxInt32 {
			c.Above = 0
			o := acquire(s, c)
			o.Grant.Token = math.MaxInt32
			return o
		}
		return acquire(s, c)
	}})},
	{"token-greatest", "who can choose no other name is refused as if it were held", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		if errors.Is(o.Err, store.ErrTokens) {
			o.Err = &store.HeldError{Record: look(s, names[0])}
		}
		return i, o
	}})},
	{"token-greatest", "the index of what is chosen beside it is that of the name without tokens", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		if o.Err == nil {
			i = 0
		}
		return i, o
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

// countedOn is a store whose tokens of names of which a claim has met such a record are the last ones + 1.
func countedOn(when func(store.Record) bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		last := map[string]int64{}
		return bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			met := look(s, c.Name)
			o := acquire(s, c)
			if o.Err == nil && met.Free() {
				if when(met) && last[c.Name] > 0 {
					o.Grant.Token = last[c.Name] + 1
				}
				last[c.Name] = o.Grant.Token
			}
			return o
		}, release: releaseCurrent}
	}
}

// lastForgotten is a store that remembers the token of the one name that was forgotten last.
func lastForgotten(testing.TB) bend {
	counts, last := map[string]int64{}, ""
	return bend{
		release: releaseCurrent,
		acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			met := look(s, c.Name)
			o := acquire(s, c)
			if met.Name == "" && last != c.Name {
				counts[c.Name] = 0
			}
			counts[c.Name]++
			o.Grant.Token = counts[c.Name]
			return o
		},
		sweep: func(s *memstore.Store, limit int) int {
			before := list(s, "")
			n := sweep(s, limit)
			for _, r := range before {
				if look(s, r.Name).Name == "" {
					last = r.Name
				}
			}
			return n
		},
	}
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
