package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// recordFlaws are about marks, states and List.
var recordFlaws = slices.Concat(markFlaws, stateFlaws, listFlaws)

var markFlaws = []flaw{
	{"mark-refuses", "a mark that is reached exactly is not done", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Mark > 0 {
			c.Mark++
		}
		return acquire(s, c)
	}})},
	{"mark-refuses", "claiming a mark sets it", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if o.Err == nil {
			o.Grant.Mark = max(o.Grant.Mark, c.Mark)
			_ = extend(s, store.Extension{Name: c.Name, Holder: c.Holder, Token: o.Grant.Token, TTL: c.TTL, Mark: max(0, c.Mark)})
		}
		return o
	}})},
	{"mark-refuses", "a DoneError comes without the state", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if done := (*store.DoneError)(nil); errors.As(o.Err, &done) {
			done.Record.State = nil
		}
		return o
	}})},
	{"mark-refuses", "a DoneError is about another name", reading(func(r *store.Record) { r.Name += "x" })},
	{"mark-refuses", "a DoneError has the mark that was claimed", answering(func(_ store.Record, c store.Claim, o *store.Outcome) {
		if done := (*store.DoneError)(nil); errors.As(o.Err, &done) {
			done.Record.Mark = c.Mark
		}
	})},
	{"mark-refuses", "a DoneError has the last holder", reading(func(r *store.Record) { r.Holder = "a" })},
	{"mark-refuses", "a DoneError says that the name is taken", reading(func(r *store.Record) { r.Left = time.Second })},
	{"mark-refuses", "a grant has the mark that was claimed", answering(func(_ store.Record, c store.Claim, o *store.Outcome) {
		o.Grant.Mark = max(o.Grant.Mark, c.Mark)
	})},
	{"mark-refuses", "a claim without a mark is refused where there is one", answering(func(met store.Record, c store.Claim, o *store.Outcome) {
		if c.Mark == 0 && met.Mark > 0 {
			o.Err = &store.DoneError{Record: met}
		}
	})},
	{"mark-only-grows", "the last mark stays", lastMark},
	{"mark-only-grows", "a release does not raise the mark", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Mark = 0
		return release(s, r)
	}})},
	{"mark-only-grows", "the last mark of an extension is listed", markListed(true)},
	{"mark-only-grows", "the last mark of a release is listed", markListed(false)},
	{"mark-only-grows", "a mark is listed as a number of double precision", showing(func(r *store.Record) {
		r.Mark = min(r.Mark, 1<<53)
	})},
	{"mark-only-grows", "a mark is granted as a number of double precision", granting(func(_ store.Record, g *store.Grant) {
		g.Mark = min(g.Mark, 1<<53)
	})},
	{"mark-negative-reads", "a claim makes the record before it looks", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if look(s, c.Name).Name == "" {
			o := acquire(s, store.Claim{Name: c.Name, Holder: c.Holder, TTL: c.TTL})
			_ = release(s, store.Release{Name: c.Name, Holder: c.Holder, Token: o.Grant.Token, Retain: store.Forever})
		}
		return acquire(s, c)
	}})},
	{"mark-negative-reads", "a negative mark is granted where there is no record", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if look(s, c.Name).Name == "" {
			c.Mark = 0
		}
		return acquire(s, c)
	}})},
	{"mark-negative-reads", "a DoneError about no record has no name", readingNone(func(r *store.Record) { r.Name = "" })},
	{"mark-negative-reads", "a DoneError about no record has a mark", readingNone(func(r *store.Record) { r.Mark = -1 })},
	{"mark-negative-reads", "a DoneError about no record has the holder that has asked", readingNone(func(r *store.Record) { r.Holder = "a" })},
	{"mark-negative-reads", "a DoneError about no record says that the name is taken", readingNone(func(r *store.Record) { r.Left = 1 })},
	{"mark-negative-reads", "a DoneError about no record has a token", readingNone(func(r *store.Record) { r.Token = 1 })},
	{"mark-negative-reads", "a claim makes the record after it has looked", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if o.Err != nil && look(s, c.Name).Name == "" {
			made := acquire(s, store.Claim{Name: c.Name + "x", Holder: c.Holder, TTL: c.TTL})
			_ = release(s, store.Release{Name: c.Name + "x", Holder: c.Holder, Token: made.Grant.Token, Retain: store.Forever})
		}
		return o
	}})},
	{"mark-negative-reads", "the smallest mark is as no mark", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Mark == math.MinInt64 {
			c.Mark = 0
		}
		return acquire(s, c)
	}})},
	{"mark-negative-reads", "a DoneError about a free name has no state", readingFree(func(r *store.Record) { r.State = nil })},
	{"mark-negative-reads", "a DoneError about a free name says that it is taken", readingFree(func(r *store.Record) { r.Left = 1 })},
	{"mark-negative-reads", "a DoneError about a lease has no holder", readingLease(func(r *store.Record) { r.Holder = "" })},
	{"mark-negative-reads", "a DoneError about a lease has no token", readingLease(func(r *store.Record) { r.Token = 0 })},
	{"mark-negative-reads", "a DoneError about a lease has no state", readingLease(func(r *store.Record) { r.State = nil })},
	{"mark-negative-reads", "a DoneError about a lease says half as long", readingLease(func(r *store.Record) { r.Left /= 2 })},
	{"mark-negative-reads", "a DoneError about a lease says twice as long", readingLease(func(r *store.Record) { r.Left *= 2 })},
	{"mark-before-held", "who has the name is decided first", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); !r.Free() && r.Holder != c.Holder {
			c.Mark = 0
		}
		return acquire(s, c)
	}})},
	{"mark-before-held", "a DoneError about a lease has no holder", readingLease(func(r *store.Record) { r.Holder = "" })},
	{"mark-before-held", "a DoneError about a lease has another mark", readingLease(func(r *store.Record) { r.Mark++ })},
	{"mark-before-held", "any mark is refused as done while the name is held", answering(func(met store.Record, c store.Claim, o *store.Outcome) {
		if met.Holder != "" && c.Mark > 0 && errors.Is(o.Err, store.ErrHeld) {
			o.Err = &store.DoneError{Record: met}
		}
	})},
	{"mark-before-held", "a claim without a mark is refused as done while the name is held", answering(func(met store.Record, c store.Claim, o *store.Outcome) {
		if met.Mark > 0 && c.Mark == 0 && errors.Is(o.Err, store.ErrHeld) {
			o.Err = &store.DoneError{Record: met}
		}
	})},
	{"mark-before-held", "whether the name lingers is decided first", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); r.Holder == "" && !r.Free() {
			c.Mark = 0
		}
		return acquire(s, c)
	}})},
	{"mark-before-held", "any mark is refused as done while the name lingers", answering(func(met store.Record, c store.Claim, o *store.Outcome) {
		if met.Holder == "" && c.Mark > 0 && errors.Is(o.Err, store.ErrHeld) {
			o.Err = &store.DoneError{Record: met}
		}
	})},
	{"mark-after-own-lease", "asking again with a mark has another token", forgiving(answering(func(met store.Record, c store.Claim, o *store.Outcome) {
		if met.Holder == c.Holder && c.Mark != 0 {
			o.Grant.Token++
		}
	}))},
	{"mark-after-own-lease", "asking again with a mark has that mark", answering(func(met store.Record, c store.Claim, o *store.Outcome) {
		if met.Holder == c.Holder {
			o.Grant.Mark = c.Mark
		}
	})},
	{"mark-after-own-lease", "who had the name last is not refused for its mark", func(testing.TB) bend {
		last := map[string]string{}
		return bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			if last[c.Name] == c.Holder {
				c.Mark = 0
			}
			o := acquire(s, c)
			if o.Err == nil {
				last[c.Name] = c.Holder
			}
			return o
		}}
	}},
	{"mark-after-own-lease", "a holder that asks again gets its own mark", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); c.Mark != 0 && r.Mark >= c.Mark {
			return store.Outcome{Err: &store.DoneError{Record: r}}
		}
		return acquire(s, c)
	}})},
}

// readingNone bends the records of DoneErrors about names without a record.
func readingNone(f func(*store.Record)) func(testing.TB) bend {
	return readingIf(func(met store.Record) bool { return met.Name == "" }, f)
}

// readingFree bends the records of DoneErrors about names that are free.
func readingFree(f func(*store.Record)) func(testing.TB) bend {
	return readingIf(func(met store.Record) bool { return met.Name != "" && met.Free() }, f)
}

// readingLease bends the records of DoneErrors about names that are held.
func readingLease(f func(*store.Record)) func(testing.TB) bend {
	return readingIf(func(met store.Record) bool { return met.Holder != "" && !met.Free() }, f)
}

func readingIf(which func(met store.Record) bool, f func(*store.Record)) func(testing.TB) bend {
	return answering(func(met store.Record, _ store.Claim, o *store.Outcome) {
		if done := (*store.DoneError)(nil); errors.As(o.Err, &done) && which(met) {
			f(&done.Record)
		}
	})
}

// markListed is a store that lists the last mark of the extensions, or else of the releases, although a greater one is granted.
func markListed(ofExtensions bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		marks := map[string]int64{}
		note := func(name string, mark int64, extension bool) {
			if delete(marks, name); extension == ofExtensions && mark != 0 {
				marks[name] = mark
			}
		}
		return bend{
			extend:  func(s *memstore.Store, e store.Extension) error { note(e.Name, e.Mark, true); return extend(s, e) },
			release: func(s *memstore.Store, r store.Release) error { note(r.Name, r.Mark, false); return release(s, r) },
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					if mark, ok := marks[r.Name]; ok {
						records[i].Mark = mark
					}
				}
				return records
			},
		}
	}
}

func lastMark(testing.TB) bend {
	marks := map[string]int64{}
	return bend{
		extend: func(s *memstore.Store, e store.Extension) error {
			if e.Mark != 0 {
				marks[e.Name] = e.Mark
			}
			return extend(s, e)
		},
		list: func(s *memstore.Store, prefix string) []store.Record {
			records := list(s, prefix)
			for i, r := range records {
				records[i].Mark = marks[r.Name]
			}
			return records
		},
	}
}

// leaving bends the state that both verbs leave.
func leaving(f func([]byte) []byte) func(testing.TB) bend {
	return always(bend{
		extend: func(s *memstore.Store, e store.Extension) error {
			e.State = f(e.State)
			return extend(s, e)
		},
		release: func(s *memstore.Store, r store.Release) error {
			r.State = f(r.State)
			return release(s, r)
		},
	})
}

var stateFlaws = []flaw{
	{"state-is-left", "a grant comes without the state", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		o.Grant.State = nil
		return o
	}})},
	{"state-is-left", "an extension leaves no state", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		e.State = nil
		return extend(s, e)
	}})},
	{"state-is-left", "the first grant has the state of another name", granting(func(met store.Record, g *store.Grant) {
		if met.Name == "" {
			g.State = []byte("of another")
		}
	})},
	{"state-is-left", "the state of a lease is not listed", showing(func(r *store.Record) {
		if r.Holder != "" {
			r.State = nil
		}
	})},
	{"state-is-left", "the state of a free name is not listed", showing(func(r *store.Record) {
		if r.Holder == "" {
			r.State = nil
		}
	})},
	{"state-nil-leaves", "nil clears the state", leaving(func(state []byte) []byte { return append([]byte{}, state...) })},
	{"state-nil-leaves", "nil clears the state that is listed", leftOver(func(state, _ []byte) []byte { return state }, true)},
	{"state-nil-leaves", "a grant comes without the state", granting(func(_ store.Record, g *store.Grant) { g.State = nil })},
	{"state-empty-clears", "empty leaves the state", leaving(func(state []byte) []byte {
		if len(state) == 0 {
			return nil
		}
		return state
	})},
	{"state-empty-clears", "empty leaves the state that is listed", leftOver(func(state, before []byte) []byte {
		if len(state) == 0 {
			return before
		}
		return state
	}, true)},
	{"state-empty-clears", "a state that was cleared is granted", leftOver(func(state, before []byte) []byte {
		if len(state) == 0 {
			return before
		}
		return state
	}, false)},
	{"state-survives-expiry", "an expiry loses what was left", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if o.Grant.ExpiredAge > 0 {
			o.Grant.Mark, o.Grant.State = 0, nil
		}
		return o
	}})},
	{"state-survives-expiry", "an expiry loses the mark", granting(func(_ store.Record, g *store.Grant) {
		if g.ExpiredAge > 0 {
			g.Mark = 0
		}
	})},
	{"state-survives-expiry", "an expiry loses the state", granting(func(_ store.Record, g *store.Grant) {
		if g.ExpiredAge > 0 {
			g.State = nil
		}
	})},
	{"state-round-trip", "a state is text", leaving(func(state []byte) []byte { return bytes.ToValidUTF8(state, []byte("\ufffd")) })},
	{"state-round-trip", "a state ends at its first NUL", leaving(func(state []byte) []byte {
		head, _, _ := bytes.Cut(state, []byte{0})
		return head
	})},
	{"state-round-trip", "a state is cut at 65,535 bytes", leaving(func(state []byte) []byte { return state[:min(len(state), 65535)] })},
	{"state-round-trip", "a state loses the spaces at its end", leaving(func(state []byte) []byte { return bytes.TrimRight(state, " \r\n") })},
	{"state-round-trip", "a state is listed as text", showing(func(r *store.Record) { r.State = bytes.ToValidUTF8(r.State, []byte("\ufffd")) })},
	{"state-round-trip", "a state is granted as text", granting(func(_ store.Record, g *store.Grant) { g.State = bytes.ToValidUTF8(g.State, []byte("\ufffd")) })},
	{"state-round-trip", "a state in a DoneError is text", reading(func(r *store.Record) { r.State = bytes.ToValidUTF8(r.State, []byte("\ufffd")) })},
	{"state-not-aliased", "the slice of a release is kept", keptSlice(func(s *sliceKept) { s.release = true })},
	{"state-not-aliased", "List hands out the slice that is kept", keptSlice(func(s *sliceKept) { s.list = true })},
	{"state-not-aliased", "a DoneError hands out the slice that is kept", keptSlice(func(s *sliceKept) { s.done = true })},
	{"state-not-aliased", "a grant hands out the slice that is kept, and List shows it", keptSlice(func(s *sliceKept) { s.grant = true })},
	{"state-not-aliased", "the caller's slice is kept", keptSlices},
	{"state-not-aliased", "a grant hands out the slice that is kept", func(testing.TB) bend {
		slices := map[string][]byte{}
		return bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			o := acquire(s, c)
			if o.Err != nil {
				return o
			}
			if slices[c.Name] == nil {
				slices[c.Name] = o.Grant.State
			}
			o.Grant.State = slices[c.Name]
			return o
		}}
	}},
}

// leftOver is a store that lists, or else grants, another state than was left: f of what the last verb has left and of what the one before has.
func leftOver(f func(state, before []byte) []byte, listed bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		states := map[string][]byte{}
		b := bend{
			extend: func(s *memstore.Store, e store.Extension) error {
				states[e.Name] = f(e.State, states[e.Name])
				return extend(s, e)
			},
			release: func(s *memstore.Store, r store.Release) error {
				states[r.Name] = f(r.State, states[r.Name])
				return release(s, r)
			},
		}
		if listed {
			b.list = showing(func(r *store.Record) { r.State = states[r.Name] })(nil).list
		} else {
			b.acquire = granting(func(met store.Record, g *store.Grant) { g.State = states[met.Name] })(nil).acquire
		}
		return b
	}
}

// A sliceKept says where a store takes or hands out the one slice that it keeps of a name.
type sliceKept struct{ release, list, done, grant bool }

func keptSlice(where func(*sliceKept)) func(testing.TB) bend {
	return func(testing.TB) bend {
		var at sliceKept
		where(&at)
		states := map[string][]byte{}
		of := func(name string, handedOut bool, state []byte) []byte {
			if states[name] == nil {
				states[name] = state
			}
			if handedOut {
				return states[name]
			}
			return bytes.Clone(states[name])
		}
		return bend{
			release: func(s *memstore.Store, r store.Release) error {
				states[r.Name] = r.State
				if !at.release {
					states[r.Name] = bytes.Clone(r.State)
				}
				return release(s, r)
			},
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				o := acquire(s, c)
				if done := (*store.DoneError)(nil); errors.As(o.Err, &done) {
					done.Record.State = of(c.Name, at.done, done.Record.State)
				}
				if len(o.Grant.State) > 0 {
					o.Grant.State = of(c.Name, at.grant, o.Grant.State)
				}
				return o
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					if r.Holder == "" || at.grant {
						records[i].State = of(r.Name, at.list, r.State)
					}
				}
				return records
			},
		}
	}
}

func keptSlices(testing.TB) bend {
	states := map[string][]byte{}
	return bend{
		extend: func(s *memstore.Store, e store.Extension) error {
			states[e.Name] = e.State
			return extend(s, e)
		},
		list: func(s *memstore.Store, prefix string) []store.Record {
			records := list(s, prefix)
			for i, r := range records {
				records[i].State = states[r.Name]
			}
			return records
		},
	}
}

// listing bends the records that List yields.
func listing(f func([]store.Record) []store.Record) func(testing.TB) bend {
	return always(bend{list: func(s *memstore.Store, prefix string) []store.Record { return f(list(s, prefix)) }})
}

// like is what SQL's LIKE takes for a match: % is any text and _ any character.
func like(pattern, s []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(s) == 0
	case pattern[0] == '%':
		return like(pattern[1:], s) || len(s) > 0 && like(pattern, s[1:])
	}
	return len(s) > 0 && (pattern[0] == '_' || pattern[0] == s[0]) && like(pattern[1:], s[1:])
}

func matching(match func(name, prefix string) bool) func(testing.TB) bend {
	return always(bend{list: func(s *memstore.Store, prefix string) []store.Record {
		return slices.DeleteFunc(list(s, ""), func(r store.Record) bool { return !match(r.Name, prefix) })
	}})
}

var listFlaws = []flaw{
	{"list-after", "the text itself is listed", always(bend{listAfter: func(s *memstore.Store, prefix, after string) iter.Seq2[store.Record, error] {
		return s.ListAfter(context.Background(), prefix, after[:max(0, len(after)-1)])
	}})},
	{"list-after", "the text itself is listed if it is the prefix", always(bend{listAfter: func(s *memstore.Store, prefix, after string) iter.Seq2[store.Record, error] {
		if after == prefix {
			after = ""
		}
		return s.ListAfter(context.Background(), prefix, after)
	}})},
	{"list-after", "the text is not compared by bytes", always(bend{listAfter: func(s *memstore.Store, prefix, after string) iter.Seq2[store.Record, error] {
		return s.ListAfter(context.Background(), prefix, strings.ToValidUTF8(after, ""))
	}})},
	{"list-after", "the prefix is forgotten", always(bend{listAfter: func(s *memstore.Store, _, after string) iter.Seq2[store.Record, error] {
		return s.ListAfter(context.Background(), "", after)
	}})},
	{"list-after", "a text before the prefix replaces it", always(bend{listAfter: func(s *memstore.Store, prefix, after string) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			if after >= prefix {
				s.ListAfter(context.Background(), prefix, after)(yield)
			}
		}
	}})},
	{"list-after", "only a first page is listed", always(bend{listAfter: func(s *memstore.Store, prefix, after string) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			n := 0
			for r, err := range s.ListAfter(context.Background(), prefix, after) {
				if n++; n > 1000 || !yield(r, err) {
					return
				}
			}
		}
	}})},
	{"list-order", "the order is that of UTF-16", listing(func(records []store.Record) []store.Record {
		slices.SortFunc(records, func(a, b store.Record) int {
			return slices.Compare(utf16.Encode([]rune(a.Name)), utf16.Encode([]rune(b.Name)))
		})
		return records
	})},
	{"list-order", "the order passes over case", listing(func(records []store.Record) []store.Record {
		slices.SortFunc(records, func(a, b store.Record) int {
			return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		})
		return records
	})},
	{"list-order", "only a first page is listed", listing(func(records []store.Record) []store.Record { return records[:min(len(records), 1000)] })},
	{"list-order", "the first of each page is listed twice", listing(func(records []store.Record) []store.Record {
		if len(records) <= 1000 {
			return records
		}
		return slices.Insert(records, 1000, records[999])
	})},
	{"list-prefix", "a prefix is a pattern of LIKE", matching(func(name, prefix string) bool {
		return strings.HasPrefix(name, prefix) || len(prefix) < 9 && like([]rune(prefix+"%"), []rune(name))
	})},
	{"list-prefix", "a prefix passes over case", matching(func(name, prefix string) bool {
		return strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix))
	})},
	{"list-prefix", "a prefix matches anywhere", matching(strings.Contains)},
	{"list-prefix", "a prefix ends before U+FFFF", matching(func(name, prefix string) bool {
		return name >= prefix && name < prefix+"\uffff"
	})},
	{"list-tells", "free names are left out", listing(func(records []store.Record) []store.Record {
		return slices.DeleteFunc(records, func(r store.Record) bool { return r.Free() && r.Holder == "" })
	})},
	{"list-tells", "an expired lease is nobody's", listing(func(records []store.Record) []store.Record {
		for i, r := range records {
			if r.Free() {
				records[i].Holder = ""
			}
		}
		return records
	})},
	{"list-tells", "a lease has no holder", showing(func(r *store.Record) { r.Holder = "" })},
	{"list-tells", "what lingers has its last holder", showing(func(r *store.Record) {
		if r.Holder == "" && r.Left > 0 {
			r.Holder = "c"
		}
	})},
	{"list-tells", "what is free has no token", showing(func(r *store.Record) {
		if r.Left == 0 {
			r.Token = 0
		}
	})},
	{"list-tells", "what is free has no mark", showing(func(r *store.Record) {
		if r.Left == 0 {
			r.Mark = 0
		}
	})},
	{"list-tells", "what is free has no state", showing(func(r *store.Record) {
		if r.Left == 0 {
			r.State = nil
		}
	})},
	{"list-tells", "the time left is that of the grant", showing(func(r *store.Record) { r.Left = min(r.Left, time.Hour) })},
	{"list-tells", "the time left is twice as long", showing(func(r *store.Record) { r.Left *= 2 })},
	{"list-tells", "the time left of what is free is negative", showing(func(r *store.Record) {
		if r.Left == 0 {
			r.Left = -1
		}
	})},
	{"list-tells", "what is free has a moment left", showing(func(r *store.Record) {
		if r.Left == 0 && r.Holder == "" {
			r.Left = 1
		}
	})},
	{"list-ages", "a release makes the lease young", func(testing.TB) bend {
		released := map[string]time.Time{}
		b := showing(func(r *store.Record) {
			if at, ok := released[r.Name]; ok && r.Holder == "" {
				r.Age = time.Since(at)
			}
		})(nil)
		b.release = func(s *memstore.Store, r store.Release) error { released[r.Name] = time.Now(); return release(s, r) }
		return b
	}},
	{"list-ages", "asking again makes the lease young", func(testing.TB) bend {
		asked := map[string]time.Time{}
		b := showing(func(r *store.Record) {
			if at, ok := asked[r.Name]; ok {
				r.Age = time.Since(at)
			}
		})(nil)
		b.acquire = func(s *memstore.Store, c store.Claim) store.Outcome {
			if r := look(s, c.Name); r.Holder == c.Holder && !r.Free() {
				asked[c.Name] = time.Now()
			}
			return acquire(s, c)
		}
		return b
	}},
	{"list-ages", "the age is that of the record", func(testing.TB) bend {
		made := map[string]time.Time{}
		b := showing(func(r *store.Record) { r.Age = time.Since(made[r.Name]) })(nil)
		b.acquire = func(s *memstore.Store, c store.Claim) store.Outcome {
			if look(s, c.Name).Name == "" {
				made[c.Name] = time.Now()
			}
			return acquire(s, c)
		}
		return b
	}},
	{"list-ages", "the age is told twice as long", showing(func(r *store.Record) { r.Age *= 2 })},
	{"list-ages", "an extension makes the lease young", youngAgain},
	{"list-ages", "the age is not told", listing(func(records []store.Record) []store.Record {
		for i := range records {
			records[i].Age = 0
		}
		return records
	})},
}

// youngAgain is a store in which an extension makes its lease young, but no other one of the name.
func youngAgain(testing.TB) bend {
	type lease struct {
		name  string
		token int64
	}
	extended := map[lease]time.Time{}
	return bend{
		extend: func(s *memstore.Store, e store.Extension) error {
			extended[lease{e.Name, e.Token}] = time.Now()
			return extend(s, e)
		},
		list: func(s *memstore.Store, prefix string) []store.Record {
			records := list(s, prefix)
			for i, r := range records {
				if at, ok := extended[lease{r.Name, r.Token}]; ok {
					records[i].Age = time.Since(at)
				}
			}
			return records
		},
	}
}
