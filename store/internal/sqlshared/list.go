package sqlshared

import (
	"errors"
	"iter"

	"github.com/soloist-dev/soloist/store"
)

// PageSize is how many records are read at a time, each with a state of up to 64 KiB.
const PageSize = 128

// List yields the records whose names begin with prefix and come after the text after, all if that is empty. It keeps nothing locked or open while it yields.
//
// page reads at most PageSize rows in the order of their names, from first on and below last. read makes a record of a row; its error concerns that
// row alone, and the record then has no more than its name. Such errors are yielded together at the end, as a *store.UnreadableError, as wrap returns it.
func List[R any](
	prefix, after string, page func(first, last string) ([]R, error), read func(R) (store.Record, error), wrap func(error) error,
) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		var unreadable []error
		first, last := prefix, above(prefix)
		if after >= prefix {
			first = after + "\x00" // the next text there is
		}
		for {
			rows, err := page(first, last)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for _, row := range rows {
				r, err := read(row)
				if err != nil {
					unreadable = append(unreadable, err)
				} else if !yield(r, nil) {
					return
				}
				first = r.Name + "\x00"
			}
			if len(rows) < PageSize {
				break
			}
		}
		if len(unreadable) > 0 {
			yield(store.Record{}, wrap(&store.UnreadableError{Err: errors.Join(unreadable...)}))
		}
	}
}

// above returns the least text above every name that begins with prefix, in the order of bytes.
func above(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return "\xff" // no name has this byte
}
