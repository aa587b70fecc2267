package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

const listPage = 128 // records read at a time, each with a state of up to 64 KiB

// List is as in store.Store. It reads a page at a time and keeps nothing locked or open while it yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter is as in store.Pager.
func (s *Store) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		whole, last := wholeRunes(prefix), wholeRunes(after) // the server takes no half of one
		var unreadable []error
		for {
			page, err := look(ctx, s, s.sql.list, []any{last, whole, above(whole), int64(listPage)}, scanListed)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for _, r := range page {
				switch {
				case !strings.HasPrefix(r.Name, prefix) || r.Name <= after:
				case r.wrong != nil:
					unreadable = append(unreadable, r.wrong)
				case !yield(r.Record, nil):
					return
				}
			}
			if len(page) < listPage {
				break
			}
			last = page[len(page)-1].Name
		}
		if len(unreadable) > 0 {
			yield(store.Record{}, s.explain(&store.UnreadableError{Err: errors.Join(unreadable...)}, false))
		}
	}
}

// A listed is a record, or its name and why it cannot be.
type listed struct {
	store.Record
	wrong error
}

func scanListed(rows pgx.Rows) (l listed, err error) {
	there := true
	f := fields{there: &there}
	if err := rows.Scan(append([]any{&l.Name}, f.listed()...)...); err != nil {
		return listed{}, err
	}
	r, wrong := f.record()
	if wrong != "" {
		l.wrong = fmt.Errorf("the record of %s cannot be: %s", shown(l.Name), wrong)
		return l, nil
	}
	l.Record = r.Whole(l.Name)
	return l, nil
}

// wholeRunes returns the longest beginning of prefix that a name can have: PostgreSQL's texts are valid UTF-8 without NUL.
func wholeRunes(prefix string) string {
	for i, r := range prefix {
		if size := utf8.RuneLen(r); r == 0 || r == utf8.RuneError && !strings.HasPrefix(prefix[i:], "\ufffd") || size < 0 {
			return prefix[:i]
		}
	}
	return prefix
}

// above is the least text above every name that begins with prefix, in the order of bytes, which is that of code points; nil if there
// is none.
func above(prefix string) *string {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if r++; r == 0xd800 {
			r = 0xe000 // those between are no characters
		}
		if r <= utf8.MaxRune {
			next := prefix + string(r)
			return &next
		}
	}
	return nil
}
