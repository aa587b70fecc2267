package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/storetest"
)

// A flaw is a store that is wrong in one way, and the law that must notice.
type flaw struct {
	law, wrong string
	bend       func(testing.TB) bend
}

// flaws holds at least one for every law. They are in the file of their subject.
var flaws = slices.Concat(leaseFlaws, tokenFlaws, recordFlaws, retainFlaws, fillFlaws, batchFlaws, textFlaws, callFlaws, failFlaws, waitFlaws, queueFlaws, corruptFlaws)

// A bend is what a wrong store does instead of what memstore does, of which it is given a handle. Nil is as memstore.
type bend struct {
	// One element at a time.
	acquire func(*memstore.Store, store.Claim) store.Outcome
	extend  func(*memstore.Store, store.Extension) error
	release func(*memstore.Store, store.Release) error

	// A batch at a time.
	claims     func(context.Context, *memstore.Store, []store.Claim) ([]store.Outcome, error)
	extensions func(context.Context, *memstore.Store, []store.Extension) ([]error, error)
	releases   func(context.Context, *memstore.Store, []store.Release) ([]error, error)

	list         func(s *memstore.Store, prefix string) []store.Record
	lists        func(ctx context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error]
	listAfter    func(s *memstore.Store, prefix, after string) iter.Seq2[store.Record, error]
	sweep        func(s *memstore.Store, limit int) int
	fill         func(*memstore.Store, store.Filling) bool
	fills        func(*memstore.Store, []store.Filling) ([]bool, error)
	watch        func(ctx context.Context, s *memstore.Store, names []string) (<-chan struct{}, error)
	queue        func(context.Context, *memstore.Store, store.Claim) (store.Grant, time.Duration, error)
	leave        func(s *memstore.Store, name, holder string) (bool, error)
	choose       func(*memstore.Store, []string, store.Claim) (int, store.Outcome)
	ping         func() error
	capabilities func() store.Capabilities
	close        func(*memstore.Store) error
	fails        func(fate storetest.Fate, do func() error) error

	writes  func() int64
	corrupt func(name string, way int) string
}

// A bent store is memstore with a bend.
type bent struct {
	*memstore.Store
	bend
}

func (b *bent) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	switch {
	case b.claims != nil:
		return b.claims(ctx, b.Store, claims)
	case b.acquire == nil:
		return b.Store.Acquire(ctx, claims)
	}
	out := make([]store.Outcome, len(claims))
	for i, c := range claims {
		out[i] = b.acquire(b.Store, c)
	}
	return out, nil
}

func (b *bent) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	switch {
	case b.extensions != nil:
		return b.extensions(ctx, b.Store, extensions)
	case b.extend == nil:
		return b.Store.Extend(ctx, extensions)
	}
	errs := make([]error, len(extensions))
	for i, e := range extensions {
		errs[i] = b.extend(b.Store, e)
	}
	return errs, nil
}

func (b *bent) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	switch {
	case b.releases != nil:
		return b.releases(ctx, b.Store, releases)
	case b.release == nil:
		return b.Store.Release(ctx, releases)
	}
	errs := make([]error, len(releases))
	for i, r := range releases {
		errs[i] = b.release(b.Store, r)
	}
	return errs, nil
}

func (b *bent) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	switch {
	case b.lists != nil:
		return b.lists(ctx, b.Store, prefix)
	case b.list == nil:
		return b.Store.List(ctx, prefix)
	}
	return func(yield func(store.Record, error) bool) {
		for _, r := range b.list(b.Store, prefix) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (b *bent) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	if b.listAfter == nil {
		return b.Store.ListAfter(ctx, prefix, after)
	}
	return b.listAfter(b.Store, prefix, after)
}

func (b *bent) Sweep(ctx context.Context, limit int) (int, error) {
	if b.sweep == nil {
		return b.Store.Sweep(ctx, limit)
	}
	return b.sweep(b.Store, limit), nil
}

func (b *bent) Fill(ctx context.Context, fillings []store.Filling) ([]bool, error) {
	switch {
	case b.fills != nil:
		return b.fills(b.Store, fillings)
	case b.fill == nil:
		return b.Store.Fill(ctx, fillings)
	}
	made := make([]bool, len(fillings))
	for i, f := range fillings {
		if err := f.Check(); err != nil {
			return nil, err
		}
		made[i] = b.fill(b.Store, f)
	}
	return made, nil
}

func (b *bent) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if b.watch == nil {
		return b.Store.Watch(ctx, names)
	}
	return b.watch(ctx, b.Store, names)
}

func (b *bent) Choose(ctx context.Context, names []string, c store.Claim) (int, store.Grant, error) {
	if b.choose == nil {
		return b.Store.Choose(ctx, names, c)
	}
	i, o := b.choose(b.Store, names, c)
	return i, o.Grant, o.Err
}

func (b *bent) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	if b.queue == nil {
		return b.Store.Queue(ctx, c)
	}
	return b.queue(ctx, b.Store, c)
}

func (b *bent) Leave(ctx context.Context, name, holder string) (bool, error) {
	if b.leave == nil {
		return b.Store.Leave(ctx, name, holder)
	}
	return b.leave(b.Store, name, holder)
}

func (b *bent) Ping(ctx context.Context) error {
	if b.ping == nil {
		return b.Store.Ping(ctx)
	}
	return b.ping()
}

func (b *bent) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if b.capabilities == nil {
		return b.Store.Capabilities(ctx)
	}
	return b.capabilities(), nil
}

func (b *bent) Close() error {
	if b.close == nil {
		return b.Store.Close()
	}
	return b.close(b.Store)
}

// The right store's steps on one element, for bends to build on. They ignore contexts.

func acquire(s *memstore.Store, c store.Claim) store.Outcome {
	out, err := s.Acquire(context.Background(), []store.Claim{c})
	if err != nil {
		return store.Outcome{Err: err}
	}
	return out[0]
}

func extend(s *memstore.Store, e store.Extension) error {
	errs, err := s.Extend(context.Background(), []store.Extension{e})
	return errors.Join(append(errs, err)...)
}

func release(s *memstore.Store, r store.Release) error {
	errs, err := s.Release(context.Background(), []store.Release{r})
	return errors.Join(append(errs, err)...)
}

func list(s *memstore.Store, prefix string) []store.Record {
	var records []store.Record
	for r, err := range s.List(context.Background(), prefix) {
		if err != nil {
			return records
		}
		records = append(records, r)
	}
	return records
}

// look returns the record of a name; one without a name if there is none.
func look(s *memstore.Store, name string) store.Record {
	for _, r := range list(s, name) {
		if r.Name == name {
			return r
		}
	}
	return store.Record{}
}

// force takes a name from the one that has it.
func force(s *memstore.Store, c store.Claim) store.Outcome {
	if r := look(s, c.Name); r.Holder != "" && !r.Free() {
		_ = release(s, store.Release{Name: c.Name, Holder: r.Holder, Token: r.Token})
	}
	return acquire(s, c)
}

func harness(bend bend) storetest.Harness {
	h := storetest.Harness{
		TimedTokens: true,
		Open:        func(testing.TB) store.Store { return &bent{memstore.New(), bend} },
		Reopen: func(_ testing.TB, s store.Store) store.Store {
			return &bent{s.(*bent).Share(), bend}
		},
	}
	h.Fail = func(_ testing.TB, s store.Store, fate func() storetest.Fate) store.Store {
		return &failing{&bent{s.(*bent).Share(), bend}, fate}
	}
	if bend.writes != nil {
		h.Writes = func(testing.TB, store.Store) int64 { return bend.writes() }
	}
	h.Corrupt = func(_ testing.TB, _ store.Store, name string, way int) string {
		if bend.corrupt == nil {
			return "" // nobody else writes into a map
		}
		return bend.corrupt(name, way)
	}
	return h
}

// TestEveryLawCanBeBroken shows of each law that it catches a wrong store, and that its failure says so.
func TestEveryLawCanBeBroken(t *testing.T) {
	broken := map[string]bool{}
	for _, f := range flaws {
		broken[f.law] = true
		t.Run(f.law+"/"+f.wrong, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := storetest.Check(t, f.law, harness(f.bend(t)))
				if err == nil {
					t.Fatalf("the law %s has not noticed that %s", f.law, f.wrong)
				}
				for _, part := range []string{"law " + f.law + " is broken: ", "\n  got:  ", "\n  want: "} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("the failure lacks %q: %v", part, err)
					}
				}
				t.Log(err)
			})
		})
	}
	for _, law := range storetest.Laws() {
		if !broken[law] {
			t.Errorf("no wrong store shows that the law %s can fail", law)
		}
	}
}

// TestNoBend shows that a flaw is caught for its bend, not for how the bent store is made, also with a TTL beside which the tolerance of an age is little.
func TestNoBend(t *testing.T) {
	for _, law := range storetest.Laws() {
		t.Run(law, func(t *testing.T) {
			for _, ttl := range []time.Duration{0, 20 * time.Second} {
				synctest.Test(t, func(t *testing.T) {
					h := harness(bend{})
					h.TTL = ttl
					if err := storetest.Check(t, law, h); err != nil {
						t.Errorf("TTL %v: %v", ttl, err)
					}
				})
			}
		})
	}
}

// plain is a store that can do nothing beyond store.Store.
type plain struct{ store.Store }

func TestSkips(t *testing.T) {
	h := storetest.Harness{Open: func(testing.TB) store.Store { return plain{memstore.New()} }}
	skipped := map[string]string{}
	for _, law := range []string{"watch-wakes", "choose-again", "sweep-limit", "ping", "capabilities", "handles-share"} {
		err := storetest.Check(t, law, h)
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v; want an error that is ErrUnsupported", law, err)
		}
		skipped[law] = fmt.Sprint(err)
	}
	if want := "store.Watcher"; !strings.Contains(skipped["watch-wakes"], want) {
		t.Errorf("%q does not say %q", skipped["watch-wakes"], want)
	}
	if err := storetest.Check(t, "release-frees", h); err != nil {
		t.Error(err)
	}
}

// wrapper is a store that loses nothing of what the wrapped store can do.
type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }

// intercepting is a wrapper that sees each call, and so has methods for what the wrapped store may be unable to do.
type intercepting struct{ wrapper }

func (i intercepting) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if w, ok := store.As[store.Watcher](i.Store); ok {
		return w.Watch(ctx, names)
	}
	return nil, errors.ErrUnsupported
}

func (i intercepting) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if c, ok := store.As[store.Chooser](i.Store); ok {
		return c.Choose(ctx, names, claim)
	}
	return 0, store.Grant{}, errors.ErrUnsupported
}

func (i intercepting) Sweep(ctx context.Context, limit int) (int, error) {
	if s, ok := store.As[store.Sweeper](i.Store); ok {
		return s.Sweep(ctx, limit)
	}
	return 0, errors.ErrUnsupported
}

// TestWrappedStores shows that a wrapped store is checked for all that it can do, and for nothing else.
func TestWrappedStores(t *testing.T) {
	able := func(testing.TB) store.Store { return intercepting{wrapper{wrapper{memstore.New()}}} }
	unable := func(testing.TB) store.Store { return intercepting{wrapper{plain{memstore.New()}}} }
	for _, law := range storetest.Laws() {
		synctest.Test(t, func(t *testing.T) {
			err := storetest.Check(t, law, storetest.Harness{Open: able})
			of := strings.SplitN(law, "-", 2)[0]
			if errors.Is(err, errors.ErrUnsupported) != strings.Contains(fmt.Sprint(err), "the harness") || err != nil && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s of a store that is wrapped: %v", law, err)
			}
			err = storetest.Check(t, law, storetest.Harness{Open: unable})
			beyond := slices.Contains([]string{"watch", "choose", "sweep", "queue", "ping", "capabilities"}, of)
			if err != nil && !errors.Is(err, errors.ErrUnsupported) || err == nil && beyond {
				t.Errorf("%s of a store that is wrapped and can do nothing beyond store.Store: %v", law, err)
			}
		})
	}
}

// TestBatches shows that a flaw of several at once is seen when the suite is run in batches, by laws that make claims one by one.
func TestBatches(t *testing.T) {
	for what, bent := range map[string]bend{
		"what is released beside others keeps its state": {releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
			if len(releases) > 1 {
				releases[0].State = nil
			}
			return s.Release(ctx, releases)
		}},
		"what is claimed last is granted": {claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			out, err := s.Acquire(ctx, claims)
			if len(claims) > 1 {
				out[1] = store.Outcome{Grant: store.Grant{Token: 1}}
			}
			return out, err
		}},
		"what is released last counts as released": {releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
			errs, err := s.Release(ctx, releases)
			if len(releases) > 1 {
				errs[1] = nil
			}
			return errs, err
		}},
	} {
		h := harness(bent)
		for _, batches := range []bool{false, true} {
			h.Batches = batches
			if err := storetest.Check(t, "state-is-left", h); (err != nil) != batches {
				t.Errorf("%s, batches %t: %v", what, batches, err)
			}
		}
	}
}

func TestCloseErrorIsTold(t *testing.T) {
	full := errors.New("disk is full")
	err := storetest.Check(t, "release-frees", harness(bend{close: func(*memstore.Store) error { return full }}))
	if !errors.Is(err, full) {
		t.Errorf("%v; want it to be %v", err, full)
	}
}

func TestUnknownLaw(t *testing.T) {
	if err := storetest.Check(t, "no such law", harness(bend{})); err == nil {
		t.Error("no error for a law that is not there")
	}
}
