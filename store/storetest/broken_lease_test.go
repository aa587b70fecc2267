package storetest_test

import (
	"errors"
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

var leaseFlaws = []flaw{
	{"exclusion", "the last claim wins", always(bend{acquire: force})},
	{"exclusion", "a refusal does not say how long", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if held := (*store.HeldError)(nil); errors.As(o.Err, &held) {
			held.Record.Left = 0
		}
		return o
	}})},
	{"expiry-frees", "a lease lives until it is released", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.TTL = store.MaxTTL
		return acquire(s, c)
	}})},
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
	{"reask-after-expiry", "asking again revives the lease that has ended", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if r := look(s, c.Name); r.Holder == c.Holder {
			return store.Outcome{Grant: store.Grant{Token: r.Token, Mark: r.Mark, State: r.State}}
		}
		return acquire(s, c)
	}})},
	{"extend-prolongs", "an extension only checks the lease", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		e.TTL = store.MinTTL
		return extend(s, e)
	}})},
	{"extend-prolongs", "an extension adds to the end", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		e.TTL += 2 * time.Hour
		return extend(s, e)
	}})},
	{"extend-never-shortens", "an extension sets the end", extensionSetsEnd},
	{"release-frees", "a released name lingers for a minute", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = max(r.Linger, time.Minute)
		return release(s, r)
	}})},
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
				lingers[r.Name] = r.Linger
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
	{"release-again-after-successor", "a release frees the one that has the name", always(bend{release: blindRelease})},
	{"release-again-after-successor", "every release is good", always(bend{release: func(s *memstore.Store, r store.Release) error {
		_ = release(s, r)
		return nil
	}})},
	{"release-again-higher-mark", "a mark that comes too late is passed over", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if look(s, r.Name).Holder == "" {
			return nil
		}
		return release(s, r)
	}})},

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
	{"stale-never-revives", "an extension that is lost takes the name anew", always(bend{extend: revive})},
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
	{"stale-after-release", "an extension after the release takes the name anew", always(bend{extend: revive})},
	{"stale-after-release", "an extension after the release is good", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		if r := look(s, e.Name); r.Holder == "" && r.Token == e.Token {
			return nil
		}
		return extend(s, e)
	}})},
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

	{"linger-holds", "a linger is passed over", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = 0
		return release(s, r)
	}})},
	{"linger-holds", "the holder that released a name is not kept out by its linger", lingerLetsBack},
	{"linger-ends", "a linger lasts for the hour", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if r.Linger > 0 {
			r.Linger = time.Hour
		}
		return release(s, r)
	}})},
	{"linger-ends", "a linger lasts for 3/4 of its time", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = r.Linger / 4 * 3
		return release(s, r)
	}})},
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

func extensionSetsEnd(testing.TB) bend {
	left := map[string]time.Duration{}
	return bend{
		extend: func(s *memstore.Store, e store.Extension) error {
			left[e.Name] = e.TTL
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
