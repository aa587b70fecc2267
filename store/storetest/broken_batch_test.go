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
	{"batch-empty", "no claims are an error", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		if claims == nil {
			return nil, errNone
		}
		return s.Acquire(ctx, claims)
	}})},
	{"batch-empty", "an empty slice of claims is an error", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		if claims != nil && len(claims) == 0 {
			return nil, errNone
		}
		return s.Acquire(ctx, claims)
	}})},
	{"batch-empty", "no extensions are an error", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		if extensions == nil {
			return nil, errNone
		}
		return s.Extend(ctx, extensions)
	}})},
	{"batch-empty", "an empty slice of extensions is an error", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		if extensions != nil && len(extensions) == 0 {
			return nil, errNone
		}
		return s.Extend(ctx, extensions)
	}})},
	{"batch-empty", "no releases are an error", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		if releases == nil {
			return nil, errNone
		}
		return s.Release(ctx, releases)
	}})},
	{"batch-empty", "an empty slice of releases is answered once", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		if releases != nil && len(releases) == 0 {
			return make([]error, 1), nil
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
	{"batch-mixed", "two refusals are exchanged", beside(func(_ []store.Record, _ []store.Claim, out []store.Outcome) {
		out[0].Err, out[1].Err = out[1].Err, out[0].Err
	})},
	{"batch-mixed", "who has a name gets another token", beside(func(met []store.Record, claims []store.Claim, out []store.Outcome) {
		for i, r := range met {
			if r.Holder == claims[i].Holder {
				out[i].Grant.Token++
			}
		}
	})},
	{"batch-mixed", "grants come without a mark", beside(func(_ []store.Record, _ []store.Claim, out []store.Outcome) {
		for i := range out {
			out[i].Grant.Mark = 0
		}
	})},
	{"batch-mixed", "an extension beside others leaves no mark", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		extensions = slices.Clone(extensions)
		for i := range extensions[1:] {
			extensions[i+1].Mark = 0
		}
		return s.Extend(ctx, extensions)
	}})},
	{"batch-mixed", "the first release of several leaves no mark", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		if releases = slices.Clone(releases); len(releases) > 1 {
			releases[0].Mark = 0
		}
		return s.Release(ctx, releases)
	}})},
	{"batch-mixed", "the first release of several alone leaves a mark", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		releases = slices.Clone(releases)
		for i := range releases[1:] {
			releases[i+1].Mark = 0
		}
		return s.Release(ctx, releases)
	}})},
	{"batch-mixed", "a release that is lost beside others frees the name", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		errs, err := s.Release(ctx, releases)
		for i, r := range releases {
			if len(releases) > 1 && errs[i] != nil {
				_ = blindRelease(s, r)
			}
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
	{"batch-repeats-claims", "the first holder gets another token", grantingAgain(func(g *store.Grant) { g.Token++ })},
	{"batch-repeats-claims", "a refusal is about another name", refusing(func(r *store.Record) { r.Name += "x" })},
	{"batch-repeats-claims", "a refusal is about who asks", refusing(func(r *store.Record) { r.Holder = "b" })},
	{"batch-repeats-claims", "a refusal comes without a token", refusing(func(r *store.Record) { r.Token = 0 })},
	{"batch-repeats-claims", "the last holder is listed", showing(func(r *store.Record) { r.Holder = "b" })},
	{"batch-repeats-claims", "another token is listed", showing(func(r *store.Record) { r.Token++ })},
	{"batch-repeats-claims", "the longest TTL is listed", endsAgain(func(left, ttl time.Duration) time.Duration { return max(left, ttl) })},
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
	{"batch-repeats-extensions", "the last mark is listed", markListed(true)},
	{"batch-repeats-extensions", "the first state is listed", leftOver(func(state, before []byte) []byte {
		if before != nil {
			return before
		}
		return state
	}, true)},
	{"batch-repeats-extensions", "the last end is listed", extensionSetsEndIf(func(store.Extension) bool { return true })},
	{"batch-repeats-extensions", "the ends add up", extendedBefore(func(s *memstore.Store, e store.Extension, _ int) error {
		e.TTL += look(s, e.Name).Left
		return extend(s, e)
	})},
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
	{"batch-repeats-releases", "the last mark is listed", markListed(false)},
	{"batch-repeats-releases", "the last state is listed", leftOver(func(state, _ []byte) []byte { return state }, true)},
	{"batch-repeats-releases", "a released name is listed as taken", showing(func(r *store.Record) {
		if r.Holder == "" {
			r.Left = 1
		}
	})},
	{"batch-repeats-releases", "after one that is lost those that repeat the release are lost", always(bend{releases: func(_ context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		errs := make([]error, len(releases))
		for i, r := range releases {
			errs[i] = release(s, r)
			for k, before := range releases[:i] {
				if errs[k] != nil && before.Token == r.Token && before.Holder == r.Holder {
					errs[i] = store.ErrLost
				}
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
	{"batch-invalid-alone", "an empty name has another error", invalidAs(func(c store.Claim) bool { return c.Name == "" }, errNone)},
	{"batch-invalid-alone", "a control character has another error", invalidAs(func(c store.Claim) bool { return c.Name == "\x00" }, errNone)},
	{"batch-invalid-alone", "a TTL of 0 has another error", invalidAs(func(c store.Claim) bool { return c.TTL == 0 }, errNone)},
	{"batch-invalid-alone", "it is not said what is invalid", invalidAs(func(store.Claim) bool { return true }, &store.InvalidError{Rule: "must be right"})},
	{"batch-invalid-alone", "it is not said what would be right", invalidAs(func(store.Claim) bool { return true }, &store.InvalidError{What: "name"})},
	{"batch-invalid-alone", "a claim after an invalid one is refused", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		out, err := s.Acquire(ctx, claims)
		for i := range out {
			if i > 0 && claims[i-1].Check() != nil && out[i].Err == nil {
				out[i].Err = store.ErrHeld
			}
		}
		return out, err
	}})},
	{"batch-invalid-alone", "an extension with a negative mark has another error", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if e.Check() != nil {
			return errNone
		}
		return extend(s, e)
	}})},
	{"batch-invalid-alone", "what cannot be a name gets a record of another name", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if c.Name == "" {
			made := acquire(s, store.Claim{Name: "x", Holder: c.Holder, TTL: c.TTL})
			_ = release(s, store.Release{Name: "x", Holder: c.Holder, Token: made.Grant.Token, Retain: store.Forever})
		}
		return o
	}})},
	{"batch-invalid-alone", "an extension beside an invalid one is done, and refused", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		errs, err := s.Extend(ctx, extensions)
		if len(errs) > 1 && errs[1] != nil {
			errs[0] = store.ErrLost
		}
		return errs, err
	}})},
	{"batch-invalid-alone", "a release beside an invalid one is done, and refused", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		errs, err := s.Release(ctx, releases)
		if len(errs) > 1 && errs[0] != nil {
			errs[1] = store.ErrLost
		}
		return errs, err
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
	{"batch-many", "the token of one of thousands is 0", forgiving(beside(func(_ []store.Record, _ []store.Claim, out []store.Outcome) {
		if len(out) > 2000 && out[2000].Err == nil {
			out[2000].Grant.Token = 0
		}
	}))},
	{"batch-many", "one of hundreds is granted, and told as held", beside(func(_ []store.Record, claims []store.Claim, out []store.Outcome) {
		if claims[0].Holder == "other" {
			out[500].Err = store.ErrHeld
		}
	})},
	{"batch-many", "one of thousands is held, and told as granted", beside(func(met []store.Record, claims []store.Claim, out []store.Outcome) {
		if claims[0].Holder == "a" && met[2005].Holder == "other" {
			out[2005] = store.Outcome{Grant: store.Grant{Token: 1}}
		}
	})},
	{"batch-many", "the mark of one of thousands is that of another", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		if len(extensions) > 2000 {
			extensions[2001].Mark, extensions[2000].Mark = extensions[2000].Mark, extensions[2001].Mark
		}
		return s.Extend(ctx, extensions)
	}})},
	{"batch-many", "one of thousands is not extended, and is confirmed", always(bend{extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
		if len(extensions) > 2000 {
			extensions[2000].Holder = "x"
			errs, err := s.Extend(ctx, extensions)
			errs[2000] = nil
			return errs, err
		}
		return s.Extend(ctx, extensions)
	}})},
	{"batch-many", "one of thousands is not listed", listing(func(records []store.Record) []store.Record {
		return slices.Delete(records, min(2000, len(records)), min(2001, len(records)))
	})},
	{"batch-many", "one of thousands is not released, and is confirmed", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		if len(releases) > 2000 {
			releases[2000].Holder = "x"
			errs, err := s.Release(ctx, releases)
			errs[2000] = nil
			return errs, err
		}
		return s.Release(ctx, releases)
	}})},
	{"batch-many", "the state of one of thousands is that of another", always(bend{releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
		if len(releases) > 2000 {
			releases[2001].State, releases[2000].State = releases[2000].State, releases[2001].State
		}
		return s.Release(ctx, releases)
	}})},
	{"batch-many", "the mark of one of thousands is not granted", beside(func(met []store.Record, _ []store.Claim, out []store.Outcome) {
		if len(out) > 2000 && out[2000].Err == nil && met[2000].Name != "" {
			out[2000].Grant.Mark = 0
		}
	})},
	{"batch-many", "the token of one of thousands is that which it had before", beside(func(met []store.Record, _ []store.Claim, out []store.Outcome) {
		if len(out) > 2000 && out[2000].Err == nil && met[2000].Name != "" {
			out[2000].Grant.Token = met[2000].Token
		}
	})},
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
	{"choose-first-free", "a new name has a mark", choosing(func(met store.Record, _ *int, o *store.Outcome) {
		if met.Name == "" {
			o.Grant.Mark = 1
		}
	})},
	{"choose-first-free", "a new name has a state", choosing(func(met store.Record, _ *int, o *store.Outcome) {
		if met.Name == "" {
			o.Grant.State = []byte("x")
		}
	})},
	{"choose-first-free", "a new name has expired", choosing(func(met store.Record, _ *int, o *store.Outcome) {
		if met.Name == "" {
			o.Grant.ExpiredAge = 1
		}
	})},
	{"choose-first-free", "the index is counted from 1", choosing(func(_ store.Record, i *int, _ *store.Outcome) { *i++ })},
	{"choose-first-free", "what was chosen can be claimed", answeredByForce(func(_ store.Record, c store.Claim) bool { return c.Holder == "z" })},
	{"choose-first-free", "the claim's name is taken too", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		_ = acquire(s, c)
		return choose(s, names, c)
	}})},
	{"choose-first-free", "what was chosen once cannot be claimed", func(testing.TB) bend {
		chosen := map[string]bool{}
		return bend{
			choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
				i, o := choose(s, names, c)
				chosen[names[i]] = true
				return i, o
			},
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				if chosen[c.Name] {
					return store.Outcome{Err: &store.HeldError{Record: look(s, c.Name)}}
				}
				return acquire(s, c)
			},
		}
	}},
	{"choose-first-free", "only the first two names are looked at", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		return choose(s, names[:min(len(names), 2)], c)
	}})},
	{"choose-first-free", "the name that was released first is chosen", func(testing.TB) bend {
		var released []string
		return bend{
			release: func(s *memstore.Store, r store.Release) error {
				released = append(released, r.Name)
				return release(s, r)
			},
			choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
				for _, name := range released {
					if i := slices.Index(names, name); i >= 0 && look(s, name).Free() {
						_, o := choose(s, []string{name}, c)
						return i, o
					}
				}
				return choose(s, names, c)
			},
		}
	}},
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
	{"choose-again", "the grant has another token", choosing(func(met store.Record, _ *int, o *store.Outcome) {
		if met.Holder == "b" {
			o.Grant.Token++
		}
	})},
	{"choose-again", "asking again prolongs", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		_ = extend(s, store.Extension{Name: names[i], Holder: c.Holder, Token: max(1, o.Grant.Token), TTL: c.TTL})
		return i, o
	}})},
	{"choose-again", "who asks again for longer is told another index", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		if c.TTL > time.Hour {
			i = 0
		}
		return i, o
	}})},
	{"choose-again", "who asks again for longer is refused", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		if c.TTL > time.Hour {
			o.Err = &store.HeldError{Record: look(s, names[i])}
		}
		return i, o
	}})},
	{"choose-again", "who has a name is refused another one", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		for _, r := range list(s, "") {
			if r.Holder == c.Holder && !r.Free() && !slices.Contains(names, r.Name) && len(names) == 1 {
				return 0, store.Outcome{Err: &store.HeldError{Record: r}}
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
	{"choose-all-taken", "the index is that of the first name", choosing(func(_ store.Record, i *int, o *store.Outcome) {
		if o.Err != nil {
			*i = 0
		}
	})},
	{"choose-all-taken", "there is no index", choosing(func(_ store.Record, i *int, o *store.Outcome) {
		if o.Err != nil {
			*i = -1
		}
	})},
	{"choose-all-taken", "that all are taken is another error", choosing(func(_ store.Record, _ *int, o *store.Outcome) {
		if o.Err != nil {
			o.Err = errors.New("all are taken")
		}
	})},
	{"choose-all-taken", "the refusal is about the claim's name", refusingChoice(func(r *store.Record) { r.Name = "ignored" })},
	{"choose-all-taken", "the refusal is about nobody", refusingChoice(func(r *store.Record) { r.Holder = "" })},
	{"choose-all-taken", "the refusal says half as long", refusingChoice(func(r *store.Record) { r.Left /= 2 })},
	{"choose-all-taken", "the refusal says twice as long", refusingChoice(func(r *store.Record) { r.Left *= 2 })},
	{"choose-all-taken", "what lingers is passed over", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		held := slices.DeleteFunc(slices.Clone(names), func(name string) bool { r := look(s, name); return r.Holder == "" && !r.Free() })
		i, o := choose(s, held, c)
		return slices.Index(names, held[i]), o
	}})},
	{"choose-grants", "the grant comes without mark and state", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		o.Grant.Mark, o.Grant.State = 0, nil
		return i, o
	}})},
	{"choose-grants", "the token is that of the lease before", func(testing.TB) bend {
		tokens := map[string]int64{}
		b := choosing(func(met store.Record, _ *int, o *store.Outcome) {
			o.Grant.Token = max(met.Token, 1)
			tokens[met.Name] = o.Grant.Token
		})(nil)
		b.list = showing(func(r *store.Record) {
			if tokens[r.Name] > 0 {
				r.Token = tokens[r.Name]
			}
		})(nil).list
		return forgiving(always(b))(nil)
	}},
	{"choose-grants", "the grant comes without the mark", choosing(func(_ store.Record, _ *int, o *store.Outcome) { o.Grant.Mark = 0 })},
	{"choose-grants", "the grant comes without the state", choosing(func(_ store.Record, _ *int, o *store.Outcome) { o.Grant.State = nil })},
	{"choose-grants", "the lease is listed as another's", showing(func(r *store.Record) { r.Holder = "a" })},
	{"choose-grants", "the lease is listed with another token", showing(func(r *store.Record) { r.Token-- })},
	{"choose-grants", "the lease lives for half of its TTL", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		c.TTL /= 2
		return choose(s, names, c)
	}})},
	{"choose-grants", "the lease lives for twice its TTL", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		c.TTL *= 2
		return choose(s, names, c)
	}})},
	{"choose-grants", "what was chosen cannot be extended", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if e.Holder == "b" {
			return store.ErrLost
		}
		return extend(s, e)
	}})},
	{"choose-grants", "what was chosen cannot be released", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if r.Holder == "b" {
			return store.ErrLost
		}
		return release(s, r)
	}})},
	{"choose-grants", "an expiry is not told", choosing(func(_ store.Record, _ *int, o *store.Outcome) { o.Grant.ExpiredAge = 0 })},
	{"choose-checks", "a mark is passed over", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		c.Mark = 0
		return choose(s, names, c)
	}})},
	{"choose-checks", "the names up to an invalid one are tried", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		return choose(s, names[:min(len(names), 1)], c)
	}})},
	{"choose-checks", "of no names none is chosen", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		if len(names) == 0 {
			return 0, store.Outcome{Err: store.ErrHeld}
		}
		return choose(s, names, c)
	}})},
	{"choose-checks", "an empty holder is one like others", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		if c.Holder == "" {
			return 0, store.Outcome{}
		}
		return choose(s, names, c)
	}})},
	{"choose-checks", "a TTL of 0 is the shortest", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		c.TTL = max(c.TTL, store.MinTTL)
		return choose(s, names, c)
	}})},
	{"choose-checks", "a choice that is refused for its mark takes the name", always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		i, o := choose(s, names, c)
		if c.Mark != 0 {
			c.Mark = 0
			_, _ = choose(s, names, c)
		}
		return i, o
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
	{"choose-crowd", "the last name is told with the index of the first", choosing(func(_ store.Record, i *int, _ *store.Outcome) { *i %= 4 })},
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

var errNone = errors.New("syntax error")

// beside bends the outcomes of several claims. met are the records that the batch has met.
func beside(f func(met []store.Record, claims []store.Claim, out []store.Outcome)) func(testing.TB) bend {
	return always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		if len(claims) < 2 {
			return s.Acquire(ctx, claims)
		}
		byName := map[string]store.Record{}
		for _, r := range list(s, "") {
			byName[r.Name] = r
		}
		met := make([]store.Record, len(claims))
		for i, c := range claims {
			met[i] = byName[c.Name]
		}
		out, err := s.Acquire(ctx, claims)
		if err == nil {
			f(met, claims, out)
		}
		return out, err
	}})
}

// invalidAs refuses some of the claims that are not valid with another error.
func invalidAs(which func(store.Claim) bool, err error) func(testing.TB) bend {
	return always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.Check() != nil && which(c) {
			return store.Outcome{Err: err}
		}
		return acquire(s, c)
	}})
}

// choosing bends the answers of Choose. met is the record of the name that it is about.
func choosing(f func(met store.Record, i *int, o *store.Outcome)) func(testing.TB) bend {
	return always(bend{choose: func(s *memstore.Store, names []string, c store.Claim) (int, store.Outcome) {
		before := list(s, "")
		i, o := choose(s, names, c)
		met := store.Record{}
		if at := slices.IndexFunc(before, func(r store.Record) bool { return r.Name == names[i] }); at >= 0 {
			met = before[at]
		}
		f(met, &i, &o)
		return i, o
	}})
}

// refusingChoice bends the records of choices that are refused because all names are taken.
func refusingChoice(f func(*store.Record)) func(testing.TB) bend {
	return choosing(func(_ store.Record, _ *int, o *store.Outcome) {
		if held := (*store.HeldError)(nil); errors.As(o.Err, &held) {
			f(&held.Record)
		}
	})
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
