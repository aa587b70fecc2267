package hazelcaststore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store/casstore"
)

// TestWalkOfNames: a walk has each name once that was there when it began, on however many pages, and leaves out what is gone. What is no name is reported once. A list is the
// same.
func TestWalkOfNames(t *testing.T) {
	odd, lost := errors.New("a key that is no text"), errors.New("no reply")
	var asked, failing int
	all := []string{"a", "b", "c", "d", "e"}
	r := &reader{
		namesOf: func(_ context.Context, prefix string) ([]string, error, error) {
			if asked++; failing == 1 {
				return nil, nil, lost
			}
			return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.HasPrefix(name, prefix) }), odd, nil
		},
		read: func(_ context.Context, names []string) ([]casstore.Item, error) {
			items := make([]casstore.Item, len(names))
			for i, name := range names {
				if items[i] = (casstore.Item{Name: name, Version: "v"}); name == "b" {
					items[i].Version = "" // it is gone
				}
			}
			if failing == 2 {
				return nil, lost
			}
			return items, nil
		},
	}
	told := func(items []casstore.Item) string {
		var texts []string
		for _, item := range items {
			if texts = append(texts, item.Name); item.Err != nil {
				texts = append(texts, item.Err.Error())
			}
		}
		return strings.Join(texts, " ")
	}
	walk := func(n int) (pages []string) {
		for cursor := ""; ; {
			items, next, err := r.Walk(t.Context(), cursor, n)
			if err != nil {
				return append(pages, err.Error())
			}
			if pages = append(pages, told(items)+">"+next); next == "" || len(pages) > len(all) {
				return pages
			}
			cursor = next
		}
	}
	for n, want := range map[int][]string{
		2: {"a  " + odd.Error() + ">b", "c d>d", "e>"},
		3: {"a c  " + odd.Error() + ">c", "d e>"},
		5: {"a c d e  " + odd.Error() + ">"},
		9: {"a c d e  " + odd.Error() + ">"},
	} {
		asked = 0
		if got := walk(n); !slices.Equal(got, want) || asked != 1 {
			t.Errorf("in pages of %d: %q, want %q; the names were listed %d times", n, got, want, asked)
		}
	}
	// The cursor of a walk that another process has begun: its name may be gone, and the names are listed anew.
	if items, next, err := r.Walk(t.Context(), "bb", 2); told(items) != "c d  "+odd.Error() || next != "d" || err != nil {
		t.Errorf("after a name that is gone: %q, %q, %v", told(items), next, err)
	}
	r.names = nil
	if items, next, err := r.Walk(t.Context(), "z", 2); told(items) != " "+odd.Error() || next != "" || err != nil {
		t.Errorf("after the last name: %q, %q, %v", told(items), next, err)
	}
	list := func(prefix string) (texts []string) {
		for item, err := range r.List(t.Context(), prefix) {
			if err != nil {
				texts = append(texts, err.Error())
				continue
			}
			texts = append(texts, told([]casstore.Item{item}))
		}
		return texts
	}
	if got := list(""); !slices.Equal(got, []string{"a", "c", "d", "e", " " + odd.Error()}) {
		t.Errorf("the list is %q", got)
	}
	for failing = 1; failing <= 2; failing++ {
		if got := walk(2); !slices.Equal(got, []string{lost.Error()}) {
			t.Errorf("a walk that fails: %q", got)
		}
		if got := list("a"); !slices.Equal(got, []string{lost.Error()}) {
			t.Errorf("a list that fails: %q", got)
		}
	}
}
