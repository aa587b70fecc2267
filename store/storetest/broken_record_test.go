package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
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
	{"mark-only-grows", "the last mark stays", lastMark},
	{"mark-only-grows", "a release does not raise the mark", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Mark = 0
		return release(s, r)
	}})},
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
	{"mark-before-held", "who has the name is decided first", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); !r.Free() && r.Holder != c.Holder {
			c.Mark = 0
		}
		return acquire(s, c)
	}})},
	{"mark-after-own-lease", "a holder that asks again gets its own mark", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); c.Mark != 0 && r.Mark >= c.Mark {
			return store.Outcome{Err: &store.DoneError{Record: r}}
		}
		return acquire(s, c)
	}})},
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
	{"state-nil-leaves", "nil clears the state", leaving(func(state []byte) []byte { return append([]byte{}, state...) })},
	{"state-empty-clears", "empty leaves the state", leaving(func(state []byte) []byte {
		if len(state) == 0 {
			return nil
		}
		return state
	})},
	{"state-survives-expiry", "an expiry loses what was left", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if o.Grant.ExpiredAge > 0 {
			o.Grant.Mark, o.Grant.State = 0, nil
		}
		return o
	}})},
	{"state-round-trip", "a state is text", leaving(func(state []byte) []byte { return bytes.ToValidUTF8(state, []byte("\ufffd")) })},
	{"state-round-trip", "a state ends at its first NUL", leaving(func(state []byte) []byte {
		head, _, _ := bytes.Cut(state, []byte{0})
		return head
	})},
	{"state-round-trip", "a state is cut at 65,535 bytes", leaving(func(state []byte) []byte { return state[:min(len(state), 65535)] })},
	{"state-round-trip", "a state loses the spaces at its end", leaving(func(state []byte) []byte { return bytes.TrimRight(state, " \r\n") })},
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
