package storetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// always makes the bend of a flaw that has no memory.
func always(b bend) func(testing.TB) bend { return func(testing.TB) bend { return b } }

// isLease reports whether a record is of the lease that a verb names, live or not.
func isLease(r store.Record, holder string, token int64) bool {
	return r.Holder == holder && r.Token == token
}

// answering bends the outcomes of claims. met is the record that a claim has met.
func answering(f func(met store.Record, c store.Claim, o *store.Outcome)) func(testing.TB) bend {
	return always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		met := look(s, c.Name)
		o := acquire(s, c)
		f(met, c, &o)
		return o
	}})
}

// granting bends the grants of names that nobody has, expired or not.
func granting(f func(met store.Record, g *store.Grant)) func(testing.TB) bend {
	return answering(func(met store.Record, _ store.Claim, o *store.Outcome) {
		if o.Err == nil && met.Free() {
			f(met, &o.Grant)
		}
	})
}

// grantingAgain bends the grants to those who have the name.
func grantingAgain(f func(g *store.Grant)) func(testing.TB) bend {
	return answering(func(met store.Record, _ store.Claim, o *store.Outcome) {
		if o.Err == nil && !met.Free() {
			f(&o.Grant)
		}
	})
}

// refusing bends the records of claims that are refused because the name is taken.
func refusing(f func(*store.Record)) func(testing.TB) bend {
	return answering(func(_ store.Record, _ store.Claim, o *store.Outcome) {
		if held := (*store.HeldError)(nil); errors.As(o.Err, &held) {
			f(&held.Record)
		}
	})
}

// reading bends the records of claims that are refused because of the mark.
func reading(f func(*store.Record)) func(testing.TB) bend {
	return answering(func(_ store.Record, _ store.Claim, o *store.Outcome) {
		if done := (*store.DoneError)(nil); errors.As(o.Err, &done) {
			f(&done.Record)
		}
	})
}

// showing bends the records that are listed.
func showing(f func(*store.Record)) func(testing.TB) bend {
	return listing(func(records []store.Record) []store.Record {
		for i := range records {
			f(&records[i])
		}
		return records
	})
}

// forgiving makes a store that passes over the tokens of extensions and releases, for one that grants tokens which are not memstore's.
func forgiving(of func(testing.TB) bend) func(testing.TB) bend {
	return func(t testing.TB) bend {
		b := of(t)
		b.release = releaseCurrent
		b.extend = func(s *memstore.Store, e store.Extension) error {
			e.Token = look(s, e.Name).Token
			return extend(s, e)
		}
		return b
	}
}

// losing is a store in which the leases of a name can be neither extended nor released any more after a claim of it, if a function says so.
func losing(once func(met store.Record, c store.Claim, o store.Outcome) bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		lost := map[string]bool{}
		return bend{
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				met := look(s, c.Name)
				o := acquire(s, c)
				lost[c.Name] = lost[c.Name] || once(met, c, o)
				return o
			},
			extend: func(s *memstore.Store, e store.Extension) error {
				if lost[e.Name] {
					return store.ErrLost
				}
				return extend(s, e)
			},
			release: func(s *memstore.Store, r store.Release) error {
				if lost[r.Name] {
					return store.ErrLost
				}
				return release(s, r)
			},
		}
	}
}

// extendedBefore counts the good extensions of a lease before each, and lets a function do those of leases that are live.
func extendedBefore(f func(s *memstore.Store, e store.Extension, before int) error) func(testing.TB) bend {
	return func(testing.TB) bend {
		count := map[int64]int{}
		return bend{extend: func(s *memstore.Store, e store.Extension) error {
			r := look(s, e.Name)
			if !isLease(r, e.Holder, e.Token) || r.Free() {
				return extend(s, e)
			}
			count[e.Token]++
			return f(s, e, count[e.Token]-1)
		}}
	}
}

// endsAgain is a store whose answers about who has a name tell an end that its holder has set by asking again: f of the end that is told and of the TTL.
func endsAgain(f func(left, ttl time.Duration) time.Duration) func(testing.TB) bend {
	return func(testing.TB) bend {
		asked := map[string]time.Duration{}
		return bend{
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				if r := look(s, c.Name); r.Holder == c.Holder && !r.Free() {
					asked[c.Name] = c.TTL
				}
				return acquire(s, c)
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					if ttl, ok := asked[r.Name]; ok && !r.Free() {
						records[i].Left = f(r.Left, ttl)
					}
				}
				return records
			},
		}
	}
}

// shownAfterLost is a store that lists what a function makes of the record of which an extension or a release was lost.
func shownAfterLost(f func(r *store.Record, state []byte)) func(testing.TB) bend {
	return func(testing.TB) bend {
		states := map[string][]byte{}
		return bend{
			extend: func(s *memstore.Store, e store.Extension) error {
				err := extend(s, e)
				if err != nil {
					states[e.Name] = e.State
				}
				return err
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					if state, lost := states[r.Name]; lost {
						f(&records[i], state)
					}
				}
				return records
			},
		}
	}
}

var leaseFlaws = []flaw{
	{"exclusion", "the last claim wins", always(bend{acquire: force})},
	{"exclusion", "a refusal does not say how long", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if held := (*store.HeldError)(nil); errors.As(o.Err, &held) {
			held.Record.Left = 0
		}
		return o
	}})},
	{"exclusion", "a refusal is about another name", refusing(func(r *store.Record) { r.Name += "x" })},
	{"exclusion", "a refusal is about another holder", refusing(func(r *store.Record) { r.Holder = "x" })},
	{"exclusion", "a refusal has another token", refusing(func(r *store.Record) { r.Token++ })},
	{"exclusion", "a refusal says twice as long", refusing(func(r *store.Record) { r.Left *= 2 })},
	{"exclusion", "a refusal comes with a state", refusing(func(r *store.Record) { r.State = []byte{} })},
	{"exclusion", "who has one name keeps all others", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		for _, r := range list(s, "") {
			if !r.Free() && r.Holder != c.Holder {
				return store.Outcome{Err: &store.HeldError{Record: store.Record{Name: c.Name, Holder: r.Holder, Token: r.Token, Left: r.Left}}}
			}
		}
		return acquire(s, c)
	}})},
	{"exclusion", "a lease refuses one claim only", func(testing.TB) bend {
		refused := map[string]bool{}
		return bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			if refused[c.Name] {
				return force(s, c)
			}
			o := acquire(s, c)
			refused[c.Name] = o.Err != nil
			return o
		}}
	}},
	{"expiry-frees", "a lease lives until it is released", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.TTL = store.MaxTTL
		return acquire(s, c)
	}})},
	{"expiry-frees", "a lease that has ended has to be removed", answering(func(met store.Record, c store.Claim, o *store.Outcome) {
		if met.Holder != "" && met.Free() && met.Holder != c.Holder {
			o.Err = errors.New("conflict")
		}
	})},
	{"expiry-frees", "a claim of a name that is held fails as a whole", always(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
		out, err := s.Acquire(ctx, claims)
		if err == nil && errors.Is(out[0].Err, store.ErrHeld) {
			return out, out[0].Err
		}
		return out, err
	}})},
	{"expiry-frees", "the token is that of the lease that has ended", forgiving(granting(func(met store.Record, g *store.Grant) {
		if met.Holder != "" {
			g.Token = met.Token
		}
	}))},
	{"expiry-frees", "a lease after one that has ended is lost", losing(func(met store.Record, _ store.Claim, o store.Outcome) bool {
		return o.Grant.ExpiredAge > 0
	})},
	{"expiry-not-early", "a lease lives for a quarter of its TTL", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.TTL /= 4
		return acquire(s, c)
	}})},
	{"expiry-not-early", "a lease lives for 3/4 of its TTL", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.TTL = c.TTL / 4 * 3
		return acquire(s, c)
	}})},
	{"expiry-abandons", "an expiry is not told", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		o.Grant.ExpiredAge = 0
		return o
	}})},
	{"expiry-abandons", "a release counts as an expiry", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		r := look(s, c.Name)
		o := acquire(s, c)
		if r.Name != "" && r.Token != o.Grant.Token {
			o.Grant.ExpiredAge = max(1, r.Age)
		}
		return o
	}})},
	{"expiry-abandons", "the lease's end is told, not its beginning", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		o.Grant.ExpiredAge = min(o.Grant.ExpiredAge, 1)
		return o
	}})},
	{"expiry-abandons", "the first grant reports an expiry", granting(func(met store.Record, g *store.Grant) {
		if met.Name == "" {
			g.ExpiredAge = 1
		}
	})},
	{"expiry-abandons", "the expiry is reported to the holder that asks again", func(testing.TB) bend {
		ages := map[int64]time.Duration{}
		return answering(func(_ store.Record, _ store.Claim, o *store.Outcome) {
			ages[o.Grant.Token] = max(ages[o.Grant.Token], o.Grant.ExpiredAge)
			o.Grant.ExpiredAge = ages[o.Grant.Token]
		})(nil)
	}},
	{"expiry-abandons", "the lease is said to be far older", granting(func(_ store.Record, g *store.Grant) { g.ExpiredAge *= 20 })},
	{"reask-same-grant", "asking again is a new grant", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); r.Holder == c.Holder {
			return force(s, c)
		}
		return acquire(s, c)
	}})},
	{"reask-same-grant", "asking again is refused as held", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); !r.Free() {
			return store.Outcome{Err: &store.HeldError{Record: r}}
		}
		return acquire(s, c)
	}})},
	{"reask-same-grant", "asking again has another token", forgiving(grantingAgain(func(g *store.Grant) { g.Token++ }))},
	{"reask-same-grant", "asking again comes without the mark", grantingAgain(func(g *store.Grant) { g.Mark = 0 })},
	{"reask-same-grant", "asking again comes without the state", grantingAgain(func(g *store.Grant) { g.State = nil })},
	{"reask-same-grant", "who asks again loses the lease", losing(func(met store.Record, c store.Claim, _ store.Outcome) bool {
		return met.Holder == c.Holder && !met.Free()
	})},
	{"reask-keeps-deadline", "asking again prolongs", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if o.Err == nil {
			_ = extend(s, store.Extension{Name: c.Name, Holder: c.Holder, Token: o.Grant.Token, TTL: c.TTL})
		}
		return o
	}})},
	{"reask-keeps-deadline", "asking again in time, for no longer, prolongs", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if o.Err == nil && c.TTL < time.Minute {
			_ = extend(s, store.Extension{Name: c.Name, Holder: c.Holder, Token: o.Grant.Token, TTL: c.TTL})
		}
		return o
	}})},
	{"reask-keeps-deadline", "asking again for longer seems to prolong", endsAgain(func(left, ttl time.Duration) time.Duration { return max(left, ttl) })},
	{"reask-keeps-deadline", "asking again for less seems to shorten", endsAgain(func(left, ttl time.Duration) time.Duration { return min(left, ttl) })},
	{"reask-after-expiry", "asking again revives the lease that has ended", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); r.Holder == c.Holder {
			return store.Outcome{Grant: store.Grant{Token: r.Token, Mark: r.Mark, State: r.State}}
		}
		return acquire(s, c)
	}})},
	{"reask-after-expiry", "asking again has the token of the lease that has ended", forgiving(granting(func(met store.Record, g *store.Grant) {
		if met.Holder != "" {
			g.Token = met.Token
		}
	}))},
	{"reask-after-expiry", "asking again has a token that is less", func(testing.TB) bend {
		var less int64 // how much less the token is than memstore's
		return bend{
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				o := acquire(s, c)
				if o.Grant.ExpiredAge > 0 {
					less = time.Hour.Microseconds()
				}
				o.Grant.Token -= less
				return o
			},
			extend: func(s *memstore.Store, e store.Extension) error {
				e.Token += less
				return extend(s, e)
			},
		}
	}},
	{"reask-after-expiry", "the lease of who asks again refuses nobody", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); r.Holder == "a" && r.Left > time.Minute {
			c.Name += "x"
		}
		return acquire(s, c)
	}})},
	{"reask-after-expiry", "the lease before is extended by its token", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if now := look(s, e.Name); now.Holder == e.Holder {
			e.Token = max(e.Token, now.Token)
		}
		return extend(s, e)
	}})},
	{"reask-after-expiry", "the lease of who asks again is lost", losing(func(_ store.Record, _ store.Claim, o store.Outcome) bool {
		return o.Grant.ExpiredAge > 0
	})},
	{"extend-prolongs", "an extension only checks the lease", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		e.TTL = store.MinTTL
		return extend(s, e)
	}})},
	{"extend-prolongs", "an extension adds to the end", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		e.TTL += 2 * time.Hour
		return extend(s, e)
	}})},
	{"extend-prolongs", "the first extension is lost", extendedBefore(func(s *memstore.Store, e store.Extension, before int) error {
		if before == 0 {
			return store.ErrLost
		}
		return extend(s, e)
	})},
	{"extend-prolongs", "an extension is done, and answered with an error", extendedBefore(func(s *memstore.Store, e store.Extension, _ int) error {
		_ = extend(s, e)
		return store.ErrLost
	})},
	{"extend-prolongs", "an extension is told, and not done", func(testing.TB) bend {
		told := map[string]time.Duration{}
		b := refusing(func(r *store.Record) { r.Left = max(r.Left, told[r.Name]) })(nil)
		b.extend = extendedBefore(func(s *memstore.Store, e store.Extension, _ int) error {
			told[e.Name] = e.TTL
			return nil
		})(nil).extend
		return b
	}},
	{"extend-prolongs", "a lease can be extended once", extendedBefore(func(s *memstore.Store, e store.Extension, before int) error {
		if before > 0 {
			return store.ErrLost
		}
		return extend(s, e)
	})},
	{"extend-prolongs", "an extension lasts for 9/10 of its TTL", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		e.TTL = e.TTL / 10 * 9
		return extend(s, e)
	}})},
	{"extend-prolongs", "an extension is for the end, not for now: it counts from there", extendedBefore(func(s *memstore.Store, e store.Extension, _ int) error {
		e.TTL += look(s, e.Name).Left + 5*time.Minute
		return extend(s, e)
	})},
	{"extend-never-shortens", "an extension by the shortest TTL ends the lease", extendedBefore(func(s *memstore.Store, e store.Extension, _ int) error {
		if e.TTL == store.MinTTL {
			return release(s, store.Release{Name: e.Name, Holder: e.Holder, Token: e.Token})
		}
		return extend(s, e)
	})},
	{"extend-never-shortens", "an extension by less than a minute sets the end", extensionSetsEndIf(func(e store.Extension) bool {
		return e.TTL < time.Minute && e.TTL > store.MinTTL
	})},
	{"extend-never-shortens", "an extension by more than a minute sets the end", extensionSetsEndIf(func(e store.Extension) bool { return e.TTL > time.Minute })},
	{"extend-never-shortens", "an extension adds to what is left", extendedBefore(func(s *memstore.Store, e store.Extension, before int) error {
		if before < 2 {
			e.TTL += look(s, e.Name).Left + time.Minute
		}
		return extend(s, e)
	})},
	{"extend-never-shortens", "a later extension adds to what is left", extendedBefore(func(s *memstore.Store, e store.Extension, before int) error {
		if before >= 2 {
			e.TTL += look(s, e.Name).Left
		}
		return extend(s, e)
	})},
	{"release-frees", "a released name lingers for a minute", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = max(r.Linger, time.Minute)
		return release(s, r)
	}})},
	{"release-frees", "a released name is listed as taken", showing(func(r *store.Record) {
		if r.Holder == "" {
			r.Left = time.Second
		}
	})},
	{"release-frees", "a released name is listed with its last holder", showing(func(r *store.Record) { r.Holder = "a" })},
	{"release-frees", "a released name is listed without its token", showing(func(r *store.Record) { r.Token = 0 })},
	{"release-frees", "who has released a name gets it back from its successor", answeredByForce(func(met store.Record, c store.Claim) bool { return c.Holder == "a" })},
	{"release-frees", "the second release of a name is lost", func(testing.TB) bend {
		released := map[string]bool{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			if released[r.Name] {
				return store.ErrLost
			}
			released[r.Name] = true
			return release(s, r)
		}}
	}},
	{"release-frees", "who has released a name cannot have it again", func(testing.TB) bend {
		had := map[string]bool{}
		return bend{
			release: func(s *memstore.Store, r store.Release) error { had[r.Name+r.Holder] = true; return release(s, r) },
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				if r := look(s, c.Name); had[c.Name+c.Holder] && r.Free() {
					return store.Outcome{Err: &store.HeldError{Record: r}}
				}
				return acquire(s, c)
			},
		}
	}},
	{"release-again", "a release that is repeated is lost", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if look(s, r.Name).Holder == "" {
			return store.ErrLost
		}
		return release(s, r)
	}})},
	{"release-again", "a release that is repeated is done again", func(testing.TB) bend {
		states := map[string][]byte{}
		return bend{
			release: func(s *memstore.Store, r store.Release) error {
				states[r.Name] = r.State
				return release(s, r)
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					records[i].State = states[r.Name]
				}
				return records
			},
		}
	}},
	{"release-again", "a release that is repeated prolongs the linger", func(testing.TB) bend {
		lingers := map[string]time.Duration{}
		return bend{
			release: func(s *memstore.Store, r store.Release) error {
				lingers[r.Name] = max(lingers[r.Name], r.Linger)
				return release(s, r)
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					if r.Left > 0 && r.Holder == "" {
						records[i].Left = max(r.Left, lingers[r.Name])
					}
				}
				return records
			},
		}
	}},
	{"release-again", "a release that is repeated ends the linger", func(testing.TB) bend {
		lingers := map[string]time.Duration{}
		return bend{
			release: func(s *memstore.Store, r store.Release) error {
				if linger, again := lingers[r.Name]; !again || r.Linger < linger {
					lingers[r.Name] = r.Linger
				}
				return release(s, r)
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					if r.Holder == "" {
						records[i].Left = min(r.Left, lingers[r.Name])
					}
				}
				return records
			},
		}
	}},
	{"release-again-after-successor", "a release frees the one that has the name", always(bend{release: blindRelease})},
	{"release-again-after-successor", "every release is good", always(bend{release: func(s *memstore.Store, r store.Release) error {
		_ = release(s, r)
		return nil
	}})},
	{"release-again-after-successor", "a release that is lost frees the name, and says so", always(bend{release: func(s *memstore.Store, r store.Release) error {
		err := release(s, r)
		if now := look(s, r.Name); err != nil && now.Holder != "" {
			_ = release(s, store.Release{Name: r.Name, Holder: now.Holder, Token: now.Token})
		}
		return err
	}})},
	{"release-again-after-successor", "after a release that was lost the successor cannot release", func(testing.TB) bend {
		lost := map[string]bool{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			if lost[r.Name] {
				return store.ErrLost
			}
			err := release(s, r)
			lost[r.Name] = err != nil
			return err
		}}
	}},
	{"release-again-after-successor", "every release of a name that was released is good", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if look(s, r.Name).Holder == "" {
			return nil
		}
		return release(s, r)
	}})},
	{"release-again-higher-mark", "a mark that comes too late is passed over", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if look(s, r.Name).Holder == "" {
			return nil
		}
		return release(s, r)
	}})},

	{"release-again-higher-mark", "a mark that comes too late is passed over while the name lingers", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if now := look(s, r.Name); now.Holder == "" && now.Left > 0 {
			return nil
		}
		return release(s, r)
	}})},
	{"release-again-higher-mark", "a mark that comes too late is lost, and yet written", func(testing.TB) bend {
		marks := map[string]int64{}
		return bend{
			release: func(s *memstore.Store, r store.Release) error {
				marks[r.Name] = max(marks[r.Name], r.Mark)
				return release(s, r)
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					records[i].Mark = max(r.Mark, marks[r.Name])
				}
				return records
			},
		}
	}},
	{"release-again-higher-mark", "a release is not repeated with its own mark after one that was lost", func(testing.TB) bend {
		lost := map[string]bool{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			if lost[r.Name] {
				return store.ErrLost
			}
			err := release(s, r)
			lost[r.Name] = err != nil
			return err
		}}
	}},
	{"stale-after-expiry", "an expired lease can be released", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if isLease(look(s, r.Name), r.Holder, r.Token) {
			_ = release(s, r)
			return nil
		}
		return release(s, r)
	}})},
	{"stale-after-expiry", "an expired lease can be extended", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if isLease(look(s, e.Name), e.Holder, e.Token) {
			_ = extend(s, e)
			return nil
		}
		return extend(s, e)
	}})},
	{"stale-after-expiry", "an extension that is lost is listed with its state", shownAfterLost(func(r *store.Record, state []byte) { r.State = state })},
	{"stale-after-expiry", "a release that is lost is listed with its mark", shownAfterLostRelease(func(r *store.Record, lost store.Release) {
		r.Mark = lost.Mark
	})},
	{"stale-after-expiry", "a release that is lost is listed with its linger", shownAfterLostRelease(func(r *store.Record, lost store.Release) {
		r.Left = lost.Linger
	})},
	{"stale-never-revives", "an extension that is lost takes the name anew", always(bend{extend: revive})},
	{"stale-never-revives", "an extension that is lost is listed as a lease", shownAfterLost(func(r *store.Record, _ []byte) {
		if r.Holder == "a" {
			r.Left = time.Minute
		}
	})},
	{"stale-never-revives", "the token is that of the lease that has ended", granting(func(met store.Record, g *store.Grant) {
		if met.Holder != "" {
			g.Token = met.Token
		}
	})},
	{"stale-after-successor", "a release frees the one that has the name", always(bend{release: blindRelease})},
	{"stale-after-successor", "the state is written before the lease is looked at", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		err := extend(s, e)
		if r := look(s, e.Name); err != nil && r.Holder != "" {
			_ = extend(s, store.Extension{Name: e.Name, Holder: r.Holder, Token: r.Token, TTL: store.MinTTL, State: e.State})
		}
		return err
	}})},
	{"stale-after-successor", "a stale extension prolongs the successor's lease", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		err := extend(s, e)
		if r := look(s, e.Name); err != nil && r.Holder != "" {
			_ = extend(s, store.Extension{Name: e.Name, Holder: r.Holder, Token: r.Token, TTL: 2 * time.Hour})
		}
		return err
	}})},
	{"stale-after-successor", "a stale extension is good until its successor has extended its own", staleGood(func(r store.Record) bool {
		return r.Holder != "" && r.Mark == 0
	})},
	{"stale-after-successor", "a stale extension is good once its successor has extended its own", staleGood(func(r store.Record) bool {
		return r.Holder == "b" && r.Mark != 0
	})},
	{"stale-after-successor", "a stale extension is good once its successor has released", staleGood(func(r store.Record) bool { return r.Holder == "" })},
	{"stale-after-successor", "a stale extension is good after two successors", staleGood(func(r store.Record) bool { return r.Holder == "c" })},
	{"stale-after-successor", "a stale release is listed as the end of the lease", shownAfterLostRelease(func(r *store.Record, _ store.Release) {
		r.Left = min(r.Left, time.Minute)
	})},
	{"stale-after-successor", "a grant comes without the mark of the lease before", granting(func(_ store.Record, g *store.Grant) { g.Mark = 0 })},
	{"stale-after-successor", "a grant comes without the state of the lease before", granting(func(_ store.Record, g *store.Grant) { g.State = nil })},
	{"stale-after-release", "an extension after the release takes the name anew", always(bend{extend: revive})},
	{"stale-after-release", "an extension after the release is good", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if r := look(s, e.Name); r.Holder == "" && r.Token == e.Token {
			return nil
		}
		return extend(s, e)
	}})},
	{"stale-after-release", "an extension is good while the name lingers", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if r := look(s, e.Name); r.Holder == "" && r.Left > 0 {
			return nil
		}
		return extend(s, e)
	}})},
	{"stale-after-release", "an extension that is lost is listed with its state", shownAfterLost(func(r *store.Record, state []byte) { r.State = state })},
	{"stale-after-release", "an extension that is lost is listed with its end", shownAfterLost(func(r *store.Record, _ []byte) { r.Left = 2 * time.Hour })},
	{"stale-holder-and-token", "the token alone names a lease", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if now := look(s, r.Name); now.Token == r.Token && now.Holder != "" {
			r.Holder = now.Holder
		}
		return release(s, r)
	}})},
	{"stale-holder-and-token", "the holder alone names a lease", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if now := look(s, e.Name); now.Holder == e.Holder {
			e.Token = now.Token
		}
		return extend(s, e)
	}})},
	{"stale-holder-and-token", "any token up to the record's names a lease", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if now := look(s, r.Name); now.Holder == r.Holder {
			r.Token = max(r.Token, now.Token)
		}
		return release(s, r)
	}})},
	{"stale-holder-and-token", "a holder is compared without case", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if now := look(s, r.Name); now.Holder == strings.ToLower(r.Holder) {
			r.Holder = now.Holder
		}
		return release(s, r)
	}})},
	{"stale-holder-and-token", "after one that is refused the lease is not extended", func(testing.TB) bend {
		refused := map[string]bool{}
		return bend{extend: func(s *memstore.Store, e store.Extension) error {
			err := extend(s, e)
			refused[e.Name] = refused[e.Name] || err != nil
			if refused[e.Name] {
				return store.ErrLost
			}
			return err
		}}
	}},
	{"stale-holder-and-token", "after one that is refused the lease is not released", func(testing.TB) bend {
		refused := map[string]bool{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			err := release(s, r)
			refused[r.Name] = refused[r.Name] || err != nil
			if refused[r.Name] {
				return store.ErrLost
			}
			return err
		}}
	}},
	{"stale-no-record", "a release of what is not there is good", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if look(s, r.Name).Name == "" {
			return nil
		}
		return release(s, r)
	}})},
	{"stale-no-record", "an extension inserts what is not there", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		err := extend(s, e)
		if look(s, e.Name).Name == "" {
			acquire(s, store.Claim{Name: e.Name, Holder: e.Holder, TTL: e.TTL})
		}
		return err
	}})},

	{"stale-no-record", "a record of another name is made", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		err := extend(s, e)
		if err != nil {
			acquire(s, store.Claim{Name: e.Name + "x", Holder: e.Holder, TTL: e.TTL})
		}
		return err
	}})},
	{"linger-holds", "a linger is passed over", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = 0
		return release(s, r)
	}})},
	{"linger-holds", "the holder that released a name is not kept out by its linger", lingerLetsBack},
	{"linger-holds", "a refusal is about the last holder", refusing(func(r *store.Record) { r.Holder = "a" })},
	{"linger-holds", "a refusal comes without the token", refusing(func(r *store.Record) { r.Token = 0 })},
	{"linger-holds", "a refusal says half as long", refusing(func(r *store.Record) { r.Left /= 2 })},
	{"linger-holds", "a refusal says twice as long", refusing(func(r *store.Record) { r.Left *= 2 })},
	{"linger-holds", "a linger ends with the lease that was released", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = min(r.Linger, look(s, r.Name).Left)
		return release(s, r)
	}})},
	{"linger-holds", "a name that lingers is listed with its last holder", showing(func(r *store.Record) { r.Holder = "a" })},
	{"linger-holds", "a name that lingers is listed as free", showing(func(r *store.Record) { r.Left = 0 })},
	{"linger-ends", "a linger lasts for the hour", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if r.Linger > 0 {
			r.Linger = time.Hour
		}
		return release(s, r)
	}})},
	{"linger-ends", "the longest linger is that of all", func(testing.TB) bend {
		longest := time.Duration(0)
		return bend{release: func(s *memstore.Store, r store.Release) error {
			longest = max(longest, r.Linger)
			r.Linger = longest
			return release(s, r)
		}}
	}},
	{"linger-ends", "a claim of a name that lingers fails", answering(func(met store.Record, _ store.Claim, o *store.Outcome) {
		if met.Holder == "" && met.Left > 0 {
			o.Err = errors.New("conflict")
		}
	})},
	{"linger-ends", "a linger lasts for 3/4 of its time", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = r.Linger / 4 * 3
		return release(s, r)
	}})},
}

// answeredByForce is a store in which some claims take the name from the one that has it.
func answeredByForce(which func(met store.Record, c store.Claim) bool) func(testing.TB) bend {
	return always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if which(look(s, c.Name), c) {
			return force(s, c)
		}
		return acquire(s, c)
	}})
}

// staleGood is a store that returns nil to the extension of an earlier lease, and does nothing, when the record of the name is such.
func staleGood(when func(store.Record) bool) func(testing.TB) bend {
	return always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if r := look(s, e.Name); r.Token > e.Token && when(r) {
			return nil
		}
		return extend(s, e)
	}})
}

// shownAfterLostRelease is a store that lists what a function makes of the record of which a release was lost.
func shownAfterLostRelease(f func(*store.Record, store.Release)) func(testing.TB) bend {
	return func(testing.TB) bend {
		lost := map[string]store.Release{}
		b := showing(func(r *store.Record) {
			if release, ok := lost[r.Name]; ok {
				f(r, release)
			}
		})(nil)
		b.release = func(s *memstore.Store, r store.Release) error {
			err := release(s, r)
			if err != nil {
				lost[r.Name] = r
			}
			return err
		}
		return b
	}
}

func blindRelease(s *memstore.Store, r store.Release) error {
	err := release(s, r)
	if now := look(s, r.Name); err != nil && now.Holder != "" {
		r.Holder, r.Token = now.Holder, now.Token
		return release(s, r)
	}
	return err
}

// revive returns ErrLost, and yet takes the name for the holder that has lost it.
func revive(s *memstore.Store, e store.Extension) error {
	err := extend(s, e)
	if r := look(s, e.Name); err != nil && r.Token == e.Token && (r.Holder == e.Holder || r.Holder == "") {
		acquire(s, store.Claim{Name: e.Name, Holder: e.Holder, TTL: e.TTL})
	}
	return err
}

// extensionSetsEndIf is a store that lists the end that an extension has set, which may be earlier than the one before.
func extensionSetsEndIf(which func(store.Extension) bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		left := map[string]time.Duration{}
		return bend{
			extend: func(s *memstore.Store, e store.Extension) error {
				delete(left, e.Name)
				if which(e) {
					left[e.Name] = e.TTL
				}
				return extend(s, e)
			},
			list: func(s *memstore.Store, prefix string) []store.Record {
				records := list(s, prefix)
				for i, r := range records {
					if set, ok := left[r.Name]; ok {
						records[i].Left = set
					}
				}
				return records
			},
		}
	}
}

func lingerLetsBack(testing.TB) bend {
	last := map[string]string{}
	return bend{
		release: func(s *memstore.Store, r store.Release) error {
			last[r.Name] = r.Holder
			return release(s, r)
		},
		acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			o := acquire(s, c)
			if errors.Is(o.Err, store.ErrHeld) && last[c.Name] == c.Holder {
				return store.Outcome{Grant: store.Grant{Token: look(s, c.Name).Token + 1}}
			}
			return o
		},
	}
}
