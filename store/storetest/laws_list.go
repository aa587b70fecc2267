package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/soloist-dev/soloist/store"
)

var listLaws = []law{
	{name: "list-order", check: listOrder,
		rule: "List yields each record once, in ascending byte order of the names."},
	{name: "list-prefix", check: listPrefix,
		rule: "List yields the records whose names begin with the bytes of the prefix, and no others."},
	{name: "list-tells", check: listTells,
		rule: "A record has its holder (empty after a release), token, mark, state and the time left; free names are listed too."},
	{name: "list-ages", check: listAges,
		rule: "The age of a record is the time since its last grant, and neither asking again nor extending makes it younger."},
	{name: "list-after", check: listAfter, needs: []need{pages},
		rule: "ListAfter yields what List yields without the names at or before a text, which can be any, and a caller can stop it early."},
	{name: "list-stops", check: listStops,
		rule: "A caller can stop a List early, and the store continues to work."},
}

// takeAll takes names in batches. What is unknown, as a slow backend may answer to many at once, is asked again.
func (s *subject) takeAll(names []string) {
	for batch := range slices.Chunk(names, 100) {
		claims := make([]store.Claim, len(batch))
		for i, name := range batch {
			claims[i] = claim(name, "a", hour)
		}
		s.until("a batch is granted", func() bool {
			known := true
			for _, o := range s.claims(claims...) {
				if errors.Is(o.Err, store.ErrUnknown) {
					known = false
					continue
				}
				s.answers([]error{o.Err}, nil)
			}
			return known
		})
	}
}

// lists checks what List yields for a prefix.
func (s *subject) lists(prefix string, want []string) {
	var got []string
	for _, r := range s.records(prefix) {
		got = append(got, r.Name)
	}
	if !slices.Equal(got, want) {
		s.fail(fmt.Sprintf("%d names, %.400q", len(got), got), "List %q yields %d names, %.400q", prefix, len(want), want)
	}
}

func listOrder(s *subject) {
	s.lists("", nil)
	names := append(texts(), scattered(1200)...) // more than fit a page of most backends
	s.takeAll(names)
	slices.Sort(names)
	s.lists("", names)
}

func listPrefix(s *subject) {
	names := texts()
	s.takeAll(names)
	slices.Sort(names)
	prefixes := map[string]bool{"%": true, "_%": true, "a[": true, "zz": true, "\U0010ffff\U0010ffff": true, "\\%": true}
	for _, name := range names {
		_, first := utf8.DecodeRuneInString(name)
		prefixes[name[:first]], prefixes[name] = true, true
	}
	for prefix := range prefixes {
		want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		s.lists(prefix, want)
	}
}

func listTells(s *subject) {
	live, free, lingers, expired := s.name(), s.name(), s.name(), s.name()
	l := s.take(live, "a", hour)
	e := l.extension(2 * hour)
	e.Mark, e.State = 4, []byte("at work")
	s.extended(e)
	f := s.take(free, "b", hour)
	s.released(f.leaving(5, []byte("done")))
	g := s.take(lingers, "c", hour)
	r := g.ending()
	r.Linger = 3 * hour
	s.released(r)
	x := s.abandoned(expired, "d")
	for _, want := range []store.Record{
		{Name: live, Holder: "a", Token: l.Token, Mark: 4, State: []byte("at work"), Left: 2 * hour},
		{Name: free, Token: f.Token, Mark: 5, State: []byte("done")},
		{Name: lingers, Token: g.Token, Left: 3 * hour},
		{Name: expired, Holder: "d", Token: x.Token, Mark: 4, State: []byte("left by the dead")},
	} {
		got := s.record(want.Name)
		s.same(want, got)
		off := got.Left - want.Left
		if got.Left < 0 || off > minute || off < -minute || want.Left == 0 && off != 0 {
			s.fail(fmt.Sprintf("left %v of %q", got.Left, got.Name), "about %v, and 0 for a free name", want.Left)
		}
	}
}

func listAges(s *subject) {
	name := s.name()
	start := time.Now()
	l := s.take(name, "a", hour)
	taken := time.Now()
	s.aged(name, start, taken)
	time.Sleep(2 * s.h.TTL)
	s.aged(name, start, taken)
	s.take(name, "a", hour)
	s.extended(l.extension(hour))
	s.aged(name, start, taken)
	s.released(l.ending())
	s.aged(name, start, taken)

	start = time.Now()
	s.take(name, "a", hour)
	s.aged(name, start, time.Now())
}

// aged checks the age of a record whose name was granted between two instants, give or take a clock's resolution.
func (s *subject) aged(name string, from, to time.Time) {
	slack := s.h.TTL / 4
	least := time.Since(to) - slack
	age := s.record(name).Age
	most := time.Since(from) + slack
	if age < least || age > most {
		s.fail(fmt.Sprintf("age %v", age), "between %v and %v", max(0, least), most)
	}
}

func listAfter(s *subject) {
	names := append(texts(), scattered(1200)...) // more than fit a page of most backends
	s.takeAll(names)
	slices.Sort(names)
	afters := []string{"", "\x00", "many/", "many/8", "many/80000000\x00", "many0", "\x80", "\xf0\x9f", "\xff", strings.Repeat("x", 2*store.MaxName)}
	for _, after := range afters {
		s.listsAfter("many/", after, names)
		s.listsAfter("a", after, names)
	}
	for _, after := range append(afters, texts()...) {
		s.listsAfter("", after, names)
	}
	for _, name := range texts() {
		s.listsAfter(name, name, names) // what the prefix alone is comes first, and is not after itself
	}
}

// listsAfter checks what ListAfter yields, of names in their order: the first few, or with the prefix "many/" all.
func (s *subject) listsAfter(prefix, after string, names []string) {
	most := 3
	if prefix == "many/" {
		most = len(names)
	}
	var want, got []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && name > after && len(want) < most {
			want = append(want, name)
		}
	}
	for r, err := range as[store.Pager](s).ListAfter(s.ctx, prefix, after) {
		if err != nil {
			s.did("ListAfter %.80q after %.80q", prefix, after)
			s.fail(err, "records and no error")
		}
		if got = append(got, r.Name); len(got) == most {
			break
		}
	}
	if !slices.Equal(got, want) {
		s.fail(fmt.Sprintf("%d names, %.400q", len(got), got), "ListAfter %.80q after %.80q yields %d names, %.400q", prefix, after, len(want), want)
	}
}

func listStops(s *subject) {
	names := scattered(50)
	s.takeAll(names)
	for range 20 {
		for _, err := range s.List(s.ctx, "") {
			if err != nil {
				s.fail(err, "records and no error")
			}
			break
		}
	}
	s.did("began List 20 times and stopped after the first record")
	s.lists("", slices.Sorted(slices.Values(names)))
	s.released(s.take(s.name(), "a", hour).ending())
}
