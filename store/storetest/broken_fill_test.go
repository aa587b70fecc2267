package storetest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// filling bends one filling.
func filling(f func(*memstore.Store, store.Filling) bool) func(testing.TB) bend {
	return always(bend{fill: f})
}

// made fills a name as a right store does.
func made(s *memstore.Store, f store.Filling) bool {
	answers, err := s.Fill(context.Background(), []store.Filling{f})
	return err == nil && answers[0]
}

// fillingOver returns that it has made no record of what is such, and ends its lease or its linger.
func fillingOver(which func(store.Record) bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		over := map[string]bool{}
		b := showing(func(r *store.Record) {
			if over[r.Name] {
				r.Holder, r.Left = "", 0
			}
		})(nil)
		b.fill = func(s *memstore.Store, f store.Filling) bool {
			over[f.Name] = which(look(s, f.Name))
			return made(s, f)
		}
		return b
	}
}

// taken takes a name, and releases it as r says.
func taken(s *memstore.Store, r store.Release) bool {
	o := acquire(s, store.Claim{Name: r.Name, Holder: "filling", TTL: store.MinTTL})
	r.Holder, r.Token = "filling", o.Grant.Token
	return o.Err == nil && release(s, r) == nil
}

var fillFlaws = []flaw{
	{"fill-makes", "the mark is left out", filling(func(s *memstore.Store, f store.Filling) bool { f.Mark = 0; return made(s, f) })},
	{"fill-makes", "the state is left out", filling(func(s *memstore.Store, f store.Filling) bool { f.State = nil; return made(s, f) })},
	{"fill-makes", "the name lingers", filling(func(s *memstore.Store, f store.Filling) bool {
		return taken(s, store.Release{Name: f.Name, Mark: f.Mark, State: f.State, Retain: f.Retain, Linger: store.MaxTTL})
	})},
	{"fill-makes", "the name is not released", filling(func(s *memstore.Store, f store.Filling) bool {
		return acquire(s, store.Claim{Name: f.Name, Holder: "filling", TTL: store.MinTTL}).Err == nil
	})},
	{"fill-makes", "the record has a holder", showing(func(r *store.Record) { r.Holder = "filling" })},
	{"fill-makes", "the record has no token", showing(func(r *store.Record) { r.Token = 0 })},
	{"fill-makes", "the record is listed without its mark", showing(func(r *store.Record) { r.Mark = 0 })},
	{"fill-makes", "the record is listed without its state", showing(func(r *store.Record) { r.State = nil })},
	{"fill-makes", "the record is listed as taken", showing(func(r *store.Record) { r.Left = 1 })},
	{"fill-makes", "a record with neither has a mark", filling(func(s *memstore.Store, f store.Filling) bool { f.Mark = max(1, f.Mark); return made(s, f) })},
	{"fill-makes", "the grant has the token of the record", forgiving(granting(func(met store.Record, g *store.Grant) { g.Token = max(1, met.Token) }))},
	{"fill-makes", "the grant has no mark", granting(func(_ store.Record, g *store.Grant) { g.Mark = 0 })},
	{"fill-makes", "the grant has no state", granting(func(_ store.Record, g *store.Grant) { g.State = nil })},
	{"fill-makes", "the grant reports an expiry", granting(func(_ store.Record, g *store.Grant) { g.ExpiredAge = 1 })},
	{"fill-makes", "a negative mark is granted", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Mark < 0 {
			c.Mark = 0
		}
		return acquire(s, c)
	}})},
	{"fill-makes", "what was granted can be claimed", answeredByForce(func(_ store.Record, c store.Claim) bool { return c.Holder == "b" && c.Mark == 0 })},
	{"fill-makes", "the mark refuses no claim", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.Mark = min(c.Mark, 0)
		return acquire(s, c)
	}})},
	{"fill-leaves", "what is free is written over", filling(func(s *memstore.Store, f store.Filling) bool {
		return taken(s, store.Release{Name: f.Name, Mark: f.Mark, State: f.State, Retain: f.Retain})
	})},
	{"fill-leaves", "what was released without a mark and a state is written over", filling(func(s *memstore.Store, f store.Filling) bool {
		if r := look(s, f.Name); r.Name != "" && r.Free() && r.Holder == "" && r.Mark == 0 && len(r.State) == 0 {
			return taken(s, store.Release{Name: f.Name, Mark: f.Mark, State: f.State, Retain: f.Retain})
		}
		return made(s, f)
	})},
	{"fill-leaves", "it says that it has made what was there", filling(func(s *memstore.Store, f store.Filling) bool { made(s, f); return true })},
	{"fill-leaves", "what is held is freed", fillingOver(func(r store.Record) bool { return r.Holder != "" && !r.Free() })},
	{"fill-leaves", "what lingers is freed", fillingOver(func(r store.Record) bool { return r.Holder == "" && !r.Free() })},
	{"fill-leaves", "the linger of what lingers begins again", func(testing.TB) bend {
		filled := map[string]bool{}
		b := showing(func(r *store.Record) {
			if filled[r.Name] {
				r.Left += time.Hour
			}
		})(nil)
		b.fill = func(s *memstore.Store, f store.Filling) bool {
			r := look(s, f.Name)
			filled[f.Name] = r.Holder == "" && !r.Free()
			return made(s, f)
		}
		return b
	}},
	{"fill-leaves", "what was abandoned is released", fillingOver(func(r store.Record) bool { return r.Holder != "" && r.Free() })},
	{"fill-leaves", "an expiry is not told after a filling", granting(func(_ store.Record, g *store.Grant) { g.ExpiredAge = 0 })},
	{"fill-leaves", "what is held can be claimed after a filling", answeredByForce(func(met store.Record, c store.Claim) bool { return met.Holder == "a" && c.Holder == "b" })},
	{"fill-leaves", "what lingers can be claimed after a filling", answering(func(met store.Record, c store.Claim, o *store.Outcome) {
		if met.Holder == "" && !met.Free() {
			*o = store.Outcome{Grant: store.Grant{Token: met.Token + 1}}
		}
	})},
	{"fill-leaves", "what is held is not released after a filling", func(testing.TB) bend {
		filled := map[string]bool{}
		return bend{
			fill: func(s *memstore.Store, f store.Filling) bool { filled[f.Name] = true; return made(s, f) },
			release: func(s *memstore.Store, r store.Release) error {
				if filled[r.Name] {
					return store.ErrLost
				}
				return release(s, r)
			},
		}
	}},
	{"fill-retains", "a record is kept forever", filling(func(s *memstore.Store, f store.Filling) bool { f.Retain = store.Forever; return made(s, f) })},
	{"fill-retains", "no record is retained", filling(func(s *memstore.Store, f store.Filling) bool { f.Retain = 0; return made(s, f) })},
	{"fill-retains", "forever is not kept", filling(func(s *memstore.Store, f store.Filling) bool {
		if f.Retain == store.Forever {
			f.Retain = 0
		}
		return made(s, f)
	})},
	{"fill-retains", "an hour is not kept", filling(func(s *memstore.Store, f store.Filling) bool {
		if f.Retain == time.Hour {
			f.Retain = 0
		}
		return made(s, f)
	})},
	{"fill-retains", "a forgotten mark comes back", granting(func(met store.Record, g *store.Grant) {
		if met.Name == "" {
			g.Mark = 5
		}
	})},
	{"fill-retains", "a forgotten state comes back", granting(func(met store.Record, g *store.Grant) {
		if met.Name == "" {
			g.State = []byte("state")
		}
	})},
	{"fill-tokens", "the grant has the token of the record", granting(func(met store.Record, g *store.Grant) {
		if met.Name != "" {
			g.Token = met.Token
		}
	})},
	{"fill-tokens", "the token begins again", func(testing.TB) bend {
		tokens := map[string]int64{}
		return bend{
			fill: func(s *memstore.Store, f store.Filling) bool {
				ok := made(s, f)
				if ok {
					tokens[f.Name] = 1
				}
				return ok
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					if tokens[r.Name] != 0 {
						records[i].Token = tokens[r.Name]
					}
				}
				return records
			},
		}
	}},
	{"fill-batch", "the first decides for all", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		answers, err := s.Fill(context.Background(), all)
		for i := range answers {
			answers[i] = answers[0]
		}
		return answers, err
	}})},
	{"fill-batch", "the last of a name decides", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		turned := slices.Clone(all)
		slices.Reverse(turned)
		answers, err := s.Fill(context.Background(), turned)
		slices.Reverse(answers)
		return answers, err
	}})},
	{"fill-batch", "the marks are those of the neighbors", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		moved := slices.Clone(all)
		for i := range moved {
			moved[i].Mark = all[(i+1)%len(all)].Mark
		}
		return s.Fill(context.Background(), moved)
	}})},
	{"fill-batch", "no fillings are answered once", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		if len(all) == 0 {
			return make([]bool, 1), nil
		}
		return s.Fill(context.Background(), all)
	}})},
	{"fill-batch", "the states are those of the neighbors", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		moved := slices.Clone(all)
		for i := range moved {
			moved[i].State = all[(i+1)%len(all)].State
		}
		return s.Fill(context.Background(), moved)
	}})},
	{"fill-batch", "what was there is written over, and told as it was", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		answers, err := s.Fill(context.Background(), all)
		for i, f := range all {
			if r := look(s, f.Name); !answers[i] && r.Holder != "" {
				_ = extend(s, store.Extension{Name: f.Name, Holder: r.Holder, Token: r.Token, TTL: store.MinTTL, Mark: f.Mark})
			}
		}
		return answers, err
	}})},
	{"fill-batch", "what was there is listed with another token", showing(func(r *store.Record) {
		if r.Holder != "" {
			r.Token++
		}
	})},
	{"fill-batch", "what was there is listed as free", showing(func(r *store.Record) { r.Left = 0 })},
	{"fill-checks", "what is invalid has another error", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		answers, err := s.Fill(context.Background(), all)
		if errors.Is(err, store.ErrInvalid) {
			err = errNone
		}
		return answers, err
	}})},
	{"fill-checks", "each is answered beside the error", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		_, err := s.Fill(context.Background(), all)
		return make([]bool, len(all)), err
	}})},
	{"fill-checks", "the longest state is too long", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		if len(all) > 0 && len(all[0].State) == store.MaxState {
			return nil, errNone
		}
		return s.Fill(context.Background(), all)
	}})},
	{"fill-checks", "the good ones before an invalid one are made", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		for i, f := range all {
			if err := f.Check(); err != nil {
				_, _ = s.Fill(context.Background(), all[:i])
				return nil, err
			}
		}
		return s.Fill(context.Background(), all)
	}})},
	{"fill-checks", "an invalid one is passed over", always(bend{fills: func(s *memstore.Store, all []store.Filling) ([]bool, error) {
		answers := make([]bool, len(all))
		for i, f := range all {
			answers[i] = f.Check() == nil && made(s, f)
		}
		return answers, nil
	}})},
	{"fill-crowd", "whether there is a record is asked first", filling(func(s *memstore.Store, f store.Filling) bool {
		if look(s, f.Name).Name != "" {
			return false
		}
		time.Sleep(time.Millisecond)
		return taken(s, store.Release{Name: f.Name, Mark: f.Mark, State: f.State, Retain: f.Retain})
	})},
}
