package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

var batchFlaws = []flaw{
	{"batch-empty", "an empty batch is an error", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		if len(claims) == 0 {
			return nil, errors.New("syntax error: VALUES ()")
		}
		return s.Acquire(ctx, claims)
	}})},
	{"batch-empty", "an empty batch of releases releases all", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		if len(releases) == 0 {
			for _, r := range list(s, "") {
				_ = release(s, store.Release{Name: r.Name, Holder: r.Holder, Token: r.Token})
			}
		}
		return s.Release(ctx, releases)
	}})},
	{"batch-mixed", "a batch ends at its first refusal", always(bend{claims: func(_ context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		out := make([]store.Outcome, len(claims))
		for i, c := range claims {
			if i > 0 && out[i-1].Err != nil {
				out[i] = out[i-1]
				continue
			}
			out[i] = acquire(s, c)
		}
		return out, nil
	}})},
	{"batch-mixed", "what is only asked about is taken beside what is claimed", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		out, err := s.Acquire(ctx, claims)
		for _, c := range claims {
			if c.Mark < 0 && len(claims) > 1 {
				c.Mark = 0
				_ = acquire(s, c)
			}
		}
		return out, err
	}})},
	{"batch-mixed", "extensions are all or nothing", always(bend{extensions: func(_ context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		errs := make([]error, len(extensions))
		for i, e := range extensions {
			if errs[i] = extend(s, e); errs[i] != nil {
				return slices.Repeat([]error{store.ErrLost}, len(extensions)), nil
			}
		}
		return errs, nil
	}})},
	{"batch-mixed", "only the refusals are answered", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		errs, err := s.Release(ctx, releases)
		if len(errs) > 1 {
			errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
		}
		return errs, err
	}})},
	{"batch-repeats-claims", "a name has one answer for the batch", always(bend{claims: func(_ context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		byName := map[string]store.Outcome{}
		out := make([]store.Outcome, len(claims))
		for i, c := range claims {
			if o, ok := byName[c.Name]; ok {
				out[i] = o
				continue
			}
			out[i] = acquire(s, c)
			byName[c.Name] = out[i]
		}
		return out, nil
	}})},
	{"batch-repeats-claims", "the last of those that repeat a name gets it", always(bend{claims: func(_ context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		out := make([]store.Outcome, len(claims))
		for i := len(claims) - 1; i >= 0; i-- {
			out[i] = acquire(s, claims[i])
		}
		return out, nil
	}})},
	{"batch-repeats-extensions", "one of those that repeat a lease is done", always(bend{extensions: func(_ context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		seen := map[string]bool{}
		errs := make([]error, len(extensions))
		for i, e := range extensions {
			if key := e.Name + "\x00" + e.Holder; !seen[key] {
				seen[key] = true
				errs[i] = extend(s, e)
			}
		}
		return errs, nil
	}})},
	{"batch-repeats-releases", "a release that repeats another of its batch is lost", always(bend{releases: func(_ context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		seen := map[string]bool{}
		errs := make([]error, len(releases))
		for i, r := range releases {
			key := r.Name + "\x00" + r.Holder
			if errs[i] = store.ErrLost; !seen[key] {
				seen[key] = true
				errs[i] = release(s, r)
			}
		}
		return errs, nil
	}})},
	{"batch-repeats-releases", "a release that repeats another of its batch may have any token", always(bend{releases: func(_ context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		ended := map[string]int64{}
		errs := make([]error, len(releases))
		for i, r := range releases {
			key := r.Name + "\x00" + r.Holder
			if token, again := ended[key]; again {
				r.Token = token
			}
			if errs[i] = release(s, r); errs[i] == nil {
				ended[key] = r.Token
			}
		}
		return errs, nil
	}})},
	{"batch-invalid-alone", "one invalid claim fails the call", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		for _, c := range claims {
			if err := c.Check(); err != nil {
				return nil, err
			}
		}
		return s.Acquire(ctx, claims)
	}})},
	{"batch-invalid-alone", "an invalid release is passed over", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if r.Check() != nil {
			return nil
		}
		return release(s, r)
	}})},
	{"batch-invalid-alone", "an invalid release ends its batch, and all of it is confirmed", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		for i, r := range releases {
			if err := r.Check(); err != nil {
				errs, failed := s.Release(ctx, releases[:i])
				return append(append(errs, err), make([]error, len(releases)-i-1)...), failed
			}
		}
		return s.Release(ctx, releases)
	}})},
	{"batch-invalid-alone", "an invalid extension ends its batch, and all of it is confirmed", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		for i, e := range extensions {
			if err := e.Check(); err != nil {
				errs, failed := s.Extend(ctx, extensions[:i])
				return append(append(errs, err), make([]error, len(extensions)-i-1)...), failed
			}
		}
		return s.Extend(ctx, extensions)
	}})},
	{"batch-many", "a batch has at most 999 elements", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		if len(claims) > 999 {
			return nil, errors.New("too many parameters")
		}
		return s.Acquire(ctx, claims)
	}})},
	{"batch-many", "the answers are in the order of the names", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		claims = slices.Clone(claims)
		slices.SortStableFunc(claims, func(a, b store.Claim) int { return strings.Compare(a.Name, b.Name) })
		return s.Acquire(ctx, claims)
	}})},
	{"batch-many", "the second part of a long batch is done over the first", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		errs, err := s.Extend(ctx, extensions[:min(len(extensions), 3000)])
		return append(errs, make([]error, max(0, len(extensions)-3000))...), err
	}})},
	{"batch-crossing", "batches that meet are a deadlock", func(testing.TB) bend {
		var busy atomic.Bool
		return bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			if !busy.CompareAndSwap(false, true) {
				return nil, errors.New("deadlock detected")
			}
			defer busy.Store(false)
			time.Sleep(time.Millisecond)
			return s.Acquire(ctx, claims)
		}}
	}},

	{"crowd-excludes", "a claim looks first and takes later", always(bend{acquire: lookThenTake})},
	{"crowd-excludes", "a token is given before the turn", func(testing.TB) bend {
		var tickets atomic.Int64
		return bend{release: releaseCurrent, acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			ticket := 1_000_000 - tickets.Add(1)
			o := acquire(s, c)
			o.Grant.Token = ticket
			return o
		}}
	}},
	{"crowd-excludes", "everybody is let in", func(testing.TB) bend {
		var tokens atomic.Int64
		return bend{
			acquire: func(*memstore.Store, store.Claim) store.Outcome {
				return store.Outcome{Grant: store.Grant{Token: tokens.Add(1)}}
			},
			release: func(*memstore.Store, store.Release) error { return nil },
		}
	}},
	{"crowd-excludes", "a claim whose outcome was unknown is granted when it is made again", func(testing.TB) bend {
		return bend{release: releaseCurrent, acquire: grantAfterUnknown()}
	}},
	{"crowd-one-winner", "a claim looks first and takes later", always(bend{acquire: lookThenTake})},
	{"crowd-one-winner", "a claim whose outcome was unknown is granted when it is made again", func(testing.TB) bend {
		return bend{acquire: grantAfterUnknown()}
	}},
	{"crowd-one-winner", "the tokens of a name that was released begin again", func(testing.TB) bend {
		return bend{release: releaseCurrent, acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			o := acquire(s, c)
			o.Grant.Token = min(o.Grant.Token, 1)
			return o
		}}
	}},
	{"handles-share", "a lease is of the handle that took it", func(testing.TB) bend {
		takers := map[string]*memstore.Store{}
		return bend{
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				o := acquire(s, c)
				if o.Err == nil && takers[c.Name] == nil {
					takers[c.Name] = s
				}
				return o
			},
			release: func(s *memstore.Store, r store.Release) error {
				if takers[r.Name] != s {
					return store.ErrLost
				}
				return release(s, r)
			},
		}
	}},
	{"handles-share", "each handle has its own records", func(testing.TB) bend {
		own := map[*memstore.Store]*memstore.Store{}
		return bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			if own[s] == nil {
				own[s] = memstore.New()
			}
			return acquire(own[s], c)
		}}
	}},
	{"handles-look-again", "a linger is not for other handles", leftByTheFirst(func(r *store.Release) { r.Linger = 0 })},
	{"handles-look-again", "a mark is not for other handles", leftByTheFirst(func(r *store.Release) { r.Mark = 0 })},
	{"handles-look-again", "a state is not for other handles", leftByTheFirst(func(r *store.Release) { r.State = nil })},
	{"handles-look-again", "a grant has the state that its handle remembers", func(testing.TB) bend {
		remembered := map[*memstore.Store]map[string][]byte{}
		return bend{
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				o := acquire(s, c)
				if state, ok := remembered[s][c.Name]; ok && o.Err == nil {
					o.Grant.State = state
				}
				return o
			},
			release: func(s *memstore.Store, r store.Release) error {
				if remembered[s] == nil {
					remembered[s] = map[string][]byte{}
				}
				remembered[s][r.Name] = r.State
				return release(s, r)
			},
		}
	}},

	{"choose-first-free", "the last free is chosen", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		names = slices.Clone(names)
		slices.Reverse(names)
		i, o := choose(s, names, c)
		return len(names) - 1 - i, o
	}})},
	{"choose-first-free", "the first in the order of names is chosen", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		sorted := slices.Sorted(slices.Values(names))
		i, o := choose(s, sorted, c)
		return slices.Index(names, sorted[i]), o
	}})},
	{"choose-first-free", "a name that was released goes before one that nobody has had", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		for i, name := range names {
			if r := look(s, name); r.Name != "" && r.Free() {
				_, o := choose(s, []string{name}, c)
				return i, o
			}
		}
		return choose(s, names, c)
	}})},
	{"choose-first-free", "a name that nobody has had goes before one that was released", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		for i, name := range names {
			if look(s, name).Name == "" {
				_, o := choose(s, []string{name}, c)
				return i, o
			}
		}
		return choose(s, names, c)
	}})},
	{"choose-again", "a free name goes before one's own", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		for i, name := range names {
			c.Name = name
			if o := acquire(s, c); o.Err == nil {
				return i, o
			}
		}
		return choose(s, names, c)
	}})},
	{"choose-again", "a name that lingers is the holder's", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		for i, name := range names {
			if r := look(s, name); r.Holder == "" && r.Left > 0 {
				return i, store.Outcome{Err: &store.HeldError{Record: r}}
			}
		}
		return choose(s, names, c)
	}})},
	{"choose-again", "a lease that has ended is the holder's", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		for i, name := range names {
			if r := look(s, name); r.Holder == c.Holder && r.Left <= 0 {
				return i, store.Outcome{Err: &store.HeldError{Record: r}}
			}
		}
		return choose(s, names, c)
	}})},
	{"choose-all-taken", "the refusal is of the first name", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		if o.Err != nil {
			i, o.Err = 0, &store.HeldError{Record: look(s, names[0])}
		}
		return i, o
	}})},
	{"choose-grants", "the grant comes without mark and state", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		o.Grant.Mark, o.Grant.State = 0, nil
		return i, o
	}})},
	{"choose-checks", "a mark is passed over", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		c.Mark = 0
		return choose(s, names, c)
	}})},
	{"choose-checks", "the names up to an invalid one are tried", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		return choose(s, names[:min(len(names), 1)], c)
	}})},
	{"choose-crowd", "a choice looks first and takes later", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		for i, name := range names {
			if look(s, name).Free() {
				time.Sleep(100 * time.Microsecond)
				c.Name = name
				return i, force(s, c)
			}
		}
		return choose(s, names, c)
	}})},
	{"choose-crowd", "a holder that loses the first free name is refused", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		for i, name := range names {
			if look(s, name).Free() {
				time.Sleep(100 * time.Microsecond)
				c.Name = name
				return i, acquire(s, c)
			}
		}
		return choose(s, names, c)
	}})},

	{"ping", "a ping fails", always(bend{ping: func() error { return errors.New("no answer") }})},
	{"capabilities", "no reason is given", always(bend{capabilities: func() store.Capabilities {
		return store.Capabilities{Backend: "a backend", Scope: store.ScopeFleet, Fencing: store.Promise{Answer: store.Yes}}
	}})},
	{"capabilities", "there is no such scope", always(bend{capabilities: func() store.Capabilities {
		why := store.Promise{Why: "because"}
		return store.Capabilities{Backend: "a backend", Scope: "galaxy", Fencing: why, Durable: why, Waiting: why}
	}})},
}

// grantAfterUnknown returns a claim of which the first of each holder is unknown and without effect, and the second takes the name from the one that has it.
func grantAfterUnknown() func(*memstore.Store, store.Claim) store.Outcome {
	var mu sync.Mutex
	asked := map[string]bool{}
	return func(s *memstore.Store, c store.Claim) store.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if key := c.Name + " " + c.Holder; !asked[key] {
			asked[key] = true
			return store.Outcome{Err: store.ErrUnknown}
		}
		return force(s, c)
	}
}

func lookThenTake(s *memstore.Store, c store.Claim) store.Outcome {
	if !look(s, c.Name).Free() {
		return acquire(s, c)
	}
	time.Sleep(100 * time.Microsecond)
	return force(s, c)
}

func choose(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
	i, grant, err := s.Choose(context.Background(), names, c)
	return i, store.Outcome{Grant: grant, Err: err}
}

// leftByTheFirst leaves out of the releases of all handles but the first what a function removes.
func leftByTheFirst(without func(*store.Release)) func(testing.TB) bend {
	return func(testing.TB) bend {
		var first *memstore.Store
		return bend{
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				if first == nil {
					first = s
				}
				return acquire(s, c)
			},
			release: func(s *memstore.Store, r store.Release) error {
				if s != first {
					without(&r)
				}
				return release(s, r)
			},
		}
	}
}
