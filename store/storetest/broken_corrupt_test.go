package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/storetest"
)

// spoiling is memstore with records that cannot be read, and bears them. change makes it wrong.
func spoiling(change func(b *bend, bad func(name string) error)) func(testing.TB) bend {
	return func(testing.TB) bend {
		spoiled := map[string]bool{}
		bad := func(name string) error {
			if spoiled[name] {
				return fmt.Errorf("the record of %q cannot be read", name)
			}
			return nil
		}
		b := bend{
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				if err := bad(c.Name); err != nil {
					return store.Outcome{Err: err}
				}
				return acquire(s, c)
			},
			extend: func(s *memstore.Store, e store.Extension) error {
				if err := bad(e.Name); err != nil {
					return err
				}
				return extend(s, e)
			},
			release: func(s *memstore.Store, r store.Release) error {
				if err := bad(r.Name); err != nil {
					return err
				}
				return release(s, r)
			},
			lists: func(_ context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
				return func(yield func(store.Record, error) bool) {
					var last error
					for _, r := range list(s, prefix) {
						if err := bad(r.Name); err != nil {
							last = err
						} else if !yield(r, nil) {
							return
						}
					}
					if last != nil {
						yield(store.Record{}, &store.UnreadableError{Err: last})
					}
				}
			},
			choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
				for i, name := range names {
					if bad(name) == nil {
						c.Name = name
						return i, acquire(s, c)
					}
				}
				return 0, store.Outcome{Err: bad(names[0])}
			},
			queue: func(_ context.Context, _ *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
				return store.Grant{}, 0, bad(c.Name)
			},
			corrupt: func(name string, way int) string {
				if way > 0 {
					return ""
				}
				spoiled[name] = true
				return "overwritten"
			},
		}
		if change != nil {
			change(&b, bad)
		}
		return b
	}
}

var errWhole = errors.New("a record cannot be read")

var corruptFlaws = []flaw{
	{"corrupt-harms-its-name", "claims fail together", spoiling(func(b *bend, bad func(string) error) {
		b.claims = func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			for _, c := range claims {
				if bad(c.Name) != nil {
					return nil, errWhole
				}
			}
			return s.Acquire(ctx, claims)
		}
	})},
	{"corrupt-harms-its-name", "extensions fail together", spoiling(func(b *bend, bad func(string) error) {
		b.extensions = func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
			for _, e := range extensions {
				if bad(e.Name) != nil {
					return nil, errWhole
				}
			}
			return s.Extend(ctx, extensions)
		}
	})},
	{"corrupt-harms-its-name", "what comes after it in a batch of releases is lost", spoiling(func(b *bend, bad func(string) error) {
		b.releases = func(_ context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
			errs := make([]error, len(releases))
			var failed error
			for i, r := range releases {
				if failed == nil {
					failed = bad(r.Name)
				}
				if errs[i] = failed; failed == nil {
					errs[i] = release(s, r)
				}
			}
			return errs, nil
		}
	})},
	{"corrupt-harms-its-name", "it is granted to the one that asks", spoiling(func(b *bend, bad func(string) error) {
		b.acquire = func(s *memstore.Store, c store.Claim) store.Outcome {
			if bad(c.Name) != nil {
				return store.Outcome{Grant: store.Grant{Token: 1}}
			}
			return acquire(s, c)
		}
	})},
	{"corrupt-harms-its-name", "a list ends at it", spoiling(func(b *bend, bad func(string) error) {
		b.lists = func(_ context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for _, r := range list(s, prefix) {
					if err := bad(r.Name); !yield(r, err) || err != nil {
						return
					}
				}
			}
		}
	})},
	{"corrupt-harms-its-name", "a list ends with an error after which there may be more", spoiling(func(b *bend, _ func(string) error) {
		lists := b.lists
		b.lists = func(ctx context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range lists(ctx, s, prefix) {
					if err != nil {
						err = errors.Unwrap(err)
					}
					if !yield(r, err) {
						return
					}
				}
			}
		}
	})},
	{"corrupt-harms-its-name", "a list is silent about it", spoiling(func(b *bend, bad func(string) error) {
		b.lists = nil
		b.list = func(s *memstore.Store, prefix string) []store.Record {
			var good []store.Record
			for _, r := range list(s, prefix) {
				if bad(r.Name) == nil {
					good = append(good, r)
				}
			}
			return good
		}
	})},
	{"corrupt-harms-its-name", "nothing can be chosen beside it", spoiling(func(b *bend, bad func(string) error) {
		b.choose = func(_ *memstore.Store, names []string, _ store.Claim) (int, store.Outcome) {
			return 0, store.Outcome{Err: bad(names[0])}
		}
	})},
	{"corrupt-harms-its-name", "a sweep stops at it", spoiling(func(b *bend, _ func(string) error) {
		b.sweep = func(*memstore.Store, int) int { return 0 }
	})},
	{"corrupt-harms-its-name", "it is handed to who waits", spoiling(func(b *bend, _ func(string) error) {
		b.queue = func(context.Context, *memstore.Store, store.Claim) (store.Grant, time.Duration, error) {
			return store.Grant{Token: 1}, 0, nil
		}
	})},
}

func TestCorruptRecordsAreBorne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := storetest.Check(t, "corrupt-harms-its-name", harness(spoiling(nil)(t))); err != nil {
			t.Error(err)
		}
	})
}
