package soloist

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// An Admin looks at what all clients of a store and namespace do, and changes it: it is for people and their tools. It is safe for use by many
// goroutines at once.
//
// Each list is an iterator in the order of the names. It yields all that can be read. An error comes last and names what could not be read; the
// value beside it is zero. A list is a view and not a snapshot.
type Admin struct{ client *Client }

// Admin returns the administration of the store and namespace of c.
func (c *Client) Admin() *Admin { return &Admin{c} }

// view yields what of makes of the records whose names begin with prefix; of gets the rest of the name. What it cannot read it returns an error
// for, beside what it can show all the same.
func view[T any](ctx context.Context, c *core, what, prefix string, of func(name string, r store.Record) (info T, show bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var bad faults
		for r, err := range c.list(ctx, prefix) {
			if err != nil {
				bad.add(err)
				break
			}
			info, show, err := of(strings.TrimPrefix(r.Name, prefix), r)
			bad.add(err)
			if show && !yield(info, nil) {
				return
			}
		}
		if err := bad.err(); err != nil {
			var none T
			yield(none, fmt.Errorf("listing %s: %w", what, err))
		}
	}
}

// faults are the errors about single records of a list.
type faults struct {
	first []error
	more  int
}

// mostFaults is how many faults are named.
const mostFaults = 10

func (f *faults) add(err error) {
	switch {
	case err == nil:
	case len(f.first) < mostFaults:
		f.first = append(f.first, err)
	default:
		f.more++
	}
}

func (f *faults) err() error {
	if f.more > 0 {
		return errors.Join(append(f.first, fmt.Errorf("and %d more", f.more))...)
	}
	return errors.Join(f.first...)
}
