package storetest_test

import (
	"context"
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
	{"fill-retains", "a record is kept forever", filling(func(s *memstore.Store, f store.Filling) bool { f.Retain = store.Forever; return made(s, f) })},
	{"fill-retains", "no record is retained", filling(func(s *memstore.Store, f store.Filling) bool { f.Retain = 0; return made(s, f) })},
	{"fill-retains", "forever is not kept", filling(func(s *memstore.Store, f store.Filling) bool {
		if f.Retain == store.Forever {
			f.Retain = 0
		}
		return made(s, f)
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
