package move

import (
	"context"
	"errors"
	"iter"

	"github.com/soloist-dev/soloist/store"
)

// pairs yields the names of both stores that begin with prefix and come after a text, in their order. If a list fails, the names that could be read are yielded, and
// then the error.
// open opens a list.
func (b *both) pairs(ctx context.Context, prefix, after string, open func(iter.Seq2[store.Record, error]) *reader) iter.Seq2[twins, error] {
	return func(yield func(twins, error) bool) {
		truth, shadow := open(store.ListAfter(ctx, b.truth, prefix, after)), open(store.ListAfter(ctx, b.shadow, prefix, after))
		defer truth.stop()
		defer shadow.stop()
		truth.next()
		shadow.next()
		for truth.more || shadow.more {
			p := twins{name: truth.Name}
			if !truth.more || shadow.more && shadow.Name < truth.Name {
				p.name = shadow.Name
			}
			inTruth, inShadow := truth.more && truth.Name == p.name, shadow.more && shadow.Name == p.name
			if p.inBoth = inTruth && inShadow; inTruth {
				p.truth = truth.Record
				truth.next()
			}
			if inShadow {
				p.shadow = shadow.Record
				shadow.next()
			}
			if !yield(p, nil) {
				return
			}
		}
		if err := errors.Join(truth.err, shadow.err); err != nil {
			yield(twins{}, err)
		}
	}
}

// A reader reads a list.
type reader struct {
	store.Record       // the current one, if there is more
	more         bool  // false after the last record, or after the error
	err          error // which ended the list

	pull func() (store.Record, error, bool)
	stop func()
}

func read(list iter.Seq2[store.Record, error]) *reader {
	pull, stop := iter.Pull2(list)
	return &reader{pull: pull, stop: stop}
}

// How many records are read ahead, and how many are handed over together.
const (
	aheadRecords = 32
	aheadChunks  = 16
)

// ahead reads a list ahead, in the background: so both stores are asked at once, and while the names before are copied.
func ahead(list iter.Seq2[store.Record, error]) *reader {
	chunks, quit, ended := make(chan []store.Record, aheadChunks), make(chan struct{}), make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		defer close(chunks)
		var chunk []store.Record
		hand := func() bool {
			select {
			case chunks <- chunk:
				chunk = nil
				return true
			case <-quit:
				return false
			}
		}
		for record, err := range list {
			if failed = err; err != nil {
				break
			}
			if chunk = append(chunk, record); len(chunk) == aheadRecords && !hand() {
				return
			}
		}
		if len(chunk) > 0 {
			hand()
		}
	}()
	var now []store.Record
	pull := func() (store.Record, error, bool) {
		for len(now) == 0 {
			chunk, open := <-chunks
			if !open {
				return store.Record{}, failed, failed != nil
			}
			now = chunk
		}
		record := now[0]
		now = now[1:]
		return record, nil, true
	}
	return &reader{pull: pull, stop: func() { close(quit); <-ended }}
}

func (r *reader) next() {
	record, err, more := r.pull()
	r.Record, r.err, r.more = record, err, more && err == nil
}

// List implements store.Store. It yields the records of the store that decides. A name is taken for as long as it is taken in one of the stores: so
// one that seems free is not refused. A name that only the other store has is left out: nobody has been granted it in this phase.
func (b *both) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return b.ListAfter(ctx, prefix, "")
}

// ListAfter implements store.Pager.
func (b *both) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for p, err := range b.pairs(ctx, prefix, after, read) {
			if err == nil && p.truth.Name == "" {
				continue
			}
			p.truth.Left = max(p.truth.Left, p.shadow.Left)
			if !yield(p.truth, err) {
				return
			}
		}
	}
}
