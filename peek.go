package soloist

import (
	"context"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

// peek reads records by claims that are always refused and so never write.
func (c *core) peek(ctx context.Context, names []string) ([]store.Record, error) {
	records, errs, err := c.peekEach(ctx, names)
	if err == nil {
		err = errors.Join(errs...)
	}
	if err != nil {
		return nil, err
	}
	return records, nil
}

// peekEach is like peek, but returns an error for each record that cannot be read. err is the error of the whole
// request.
func (c *core) peekEach(ctx context.Context, names []string) (records []store.Record, errs []error, err error) {
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = peeking(name)
	}
	readable := len(names) == 0
	for len(claims) > 0 {
		n := min(len(claims), batchLimit)
		outs, err := c.acquires.ask(ctx, claims[:n])
		if err != nil {
			return nil, nil, err
		}
		for i, out := range outs {
			r, err := peeked(out)
			if err != nil {
				err = fmt.Errorf("reading %q: %w", claims[i].Name, err)
			}
			readable = readable || err == nil
			records, errs = append(records, r), append(errs, err)
		}
		claims = claims[n:]
	}
	if !readable {
		return nil, nil, errs[0]
	}
	return records, errs, nil
}

func peeking(name string) store.Claim {
	return store.Claim{Name: name, Holder: "-", TTL: store.MinTTL, Mark: -1}
}

func peeked(out store.Outcome) (store.Record, error) {
	if done, ok := errors.AsType[*store.DoneError](out.Err); ok {
		return done.Record, nil
	}
	return store.Record{}, out.Err
}
