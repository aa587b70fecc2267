package store

import (
	"context"
	"errors"
	"iter"
)

// ListAfter yields the records of s whose names begin with prefix and come after the text after, as List does. If s is not a [Pager], it reads the
// records before them too.
func ListAfter(ctx context.Context, s Store, prefix, after string) iter.Seq2[Record, error] {
	pager, is := As[Pager](s)
	if after == "" || !is {
		return skip(s.List(ctx, prefix), after)
	}
	return func(yield func(Record, error) bool) {
		for r, err := range pager.ListAfter(ctx, prefix, after) {
			if errors.Is(err, errors.ErrUnsupported) {
				skip(s.List(ctx, prefix), after)(yield)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// skip yields a list without the records at or before after.
func skip(all iter.Seq2[Record, error], after string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r, err := range all {
			if (err != nil || r.Name > after) && !yield(r, err) {
				return
			}
		}
	}
}
