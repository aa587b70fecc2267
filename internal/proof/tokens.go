package proof

import (
	"cmp"
	"fmt"
	"slices"
)

// tokens finds grants of one name whose tokens do not grow: the same token for two holders, or a token that is not greater than
// that of a grant which had been answered before this one was asked for.
func (f *facts) tokens() []Violation {
	var found []Violation
	var grants []*Event
	for i := range f.History {
		if e := &f.History[i]; e.Kind == Acquire && e.Result == Granted {
			grants = append(grants, e)
		}
	}
	names, groups := byName(grants)
	for _, name := range names {
		if v, bad := tokensOf(name, groups[name]); bad {
			found = append(found, v)
		}
	}
	return found
}

// tokensOf judges the grants of one name, in the order in which they were asked for.
func tokensOf(name string, grants []*Event) (Violation, bool) {
	holders := map[int64]*Event{}
	answered := slices.Clone(grants)
	slices.SortStableFunc(answered, func(a, b *Event) int { return cmp.Compare(returned(a), returned(b)) })
	greatest := &Event{} // of those answered before the one in hand was asked for
	next := 0
	for _, g := range grants {
		for ; next < len(answered) && returned(answered[next]) < g.At; next++ {
			if answered[next].Token > greatest.Token {
				greatest = answered[next]
			}
		}
		before, again := holders[g.Token]
		holders[g.Token] = g
		switch {
		case g.Token <= 0:
			return Violation{TokenOrder, name, "a token that is not greater than 0", History{*g}}, true
		case again && before.Holder != g.Holder:
			return Violation{TokenOrder, name, fmt.Sprintf("token %d was granted to two holders", g.Token), History{*before, *g}}, true
		case g.Token < greatest.Token:
			return Violation{TokenOrder, name, fmt.Sprintf("token %d after %d", g.Token, greatest.Token), History{*greatest, *g}}, true
		}
	}
	return Violation{}, false
}

// fences finds writes that a guarded resource accepted after one with a greater token.
func (f *facts) fences() []Violation {
	var found []Violation
	names, groups := f.of(Write).names()
	for _, name := range names {
		greatest := &Event{}
		for _, w := range groups[name] {
			switch {
			case w.Result == Okay && w.Token < greatest.Token:
				found = append(found, Violation{FencedResource, name, fmt.Sprintf("token %d was let in after %d", w.Token, greatest.Token), History{*greatest, *w}})
			case w.Result == Okay:
				greatest = w
			case w.Result == Stale && w.Token >= greatest.Token && greatest.Token > 0:
				found = append(found, Violation{FencedResource, name, fmt.Sprintf("token %d was refused as stale, after %d", w.Token, greatest.Token), History{*greatest, *w}})
			}
		}
	}
	return found
}
