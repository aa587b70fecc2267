package soloist

import (
	"context"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// releaseOrphans releases, in the background, the grants that abandoned claims may have got. before is when they were
// first requested. It reads the records without claiming them, and gives up after their TTL, for the last request may have
// been granted just now. The store may grant a claim, or commit that, after its record was read, and grant another request of it after
// the first grant was given back: a record is read again until that TTL is over. A client that closes is content with the first.
func (c *core) releaseOrphans(claims []store.Claim, before time.Time) {
	c.releaseOrphansUntil(context.Background(), claims, before)
}

// releaseOrphansUntil is releaseOrphans that ends with a context.
func (c *core) releaseOrphansUntil(bound context.Context, claims []store.Claim, before time.Time) {
	if len(claims) == 0 {
		return
	}
	asked := c.instant(before)
	ttl := time.Duration(0)
	for _, claim := range claims {
		ttl = max(ttl, claim.TTL)
	}
	c.background(func() {
		ctx, cancel := c.cleanupContext(bound, ttl)
		defer cancel()
		for wait := (&backoff{min(ttl/64, c.cfg.RequestTimeout/16), ttl / 4}); ; { // a commit is over soon, an outage may last
			names := make([]string, len(claims))
			for i, claim := range claims {
				names[i] = claim.Name
			}
			records, errs, err := c.peekEach(ctx, names)
			var releases []store.Release
			var open []store.Claim
			for i, r := range records {
				granted := errs[i] == nil && !r.Free() && r.Holder == claims[i].Holder
				if granted {
					releases = append(releases, c.releaseOfGrant(claims[i], store.Grant{Token: r.Token, Mark: r.Mark, State: r.State}, asked))
				}
				if !granted || c.ctx.Err() == nil {
					open = append(open, claims[i])
				}
			}
			for len(releases) > 0 {
				n := min(len(releases), batchLimit)
				_ = c.releaseBatch(releases[:n])
				releases, wait.next = releases[n:], wait.longest // another request is rarely under way
			}
			if err == nil {
				claims = open
			}
			if len(claims) == 0 || !wait.sleep(ctx) {
				return
			}
		}
	})
}

// cleanupContext returns a context for cleaning up after a caller that no longer waits. It ends with bound, after d, or when Close
// has waited for a RequestTimeout.
func (c *core) cleanupContext(bound context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(bound, d)
	stop := context.AfterFunc(c.ctx, func() {
		sleep(ctx, c.cfg.RequestTimeout)
		cancel()
	})
	return ctx, func() { stop(); cancel() }
}

// instant returns what the wall clock showed at an instant of c.clock, whose times are ahead of it by the sum of the suspends.
func (c *core) instant(before time.Time) time.Time {
	return time.Now().Add(-c.clock.latest().Sub(before))
}

// untilNow returns the trip that began at an instant, zero if that is not known, and has ended just now.
func untilNow(asked time.Time) trip {
	if asked.IsZero() {
		return trip{}
	}
	return trip{asked, time.Now(), 0}
}

// releaseOutcomes releases the grants of a batch that was asked for at an instant and arrived after its caller had given up. It makes one
// request, because a store that is late should not get more work than needed.
func (c *core) releaseOutcomes(claims []store.Claim, outs []store.Outcome, asked time.Time) {
	var releases []store.Release
	for i, out := range outs {
		if out.Err == nil {
			releases = append(releases, c.releaseOfGrant(claims[i], out.Grant, asked))
		}
	}
	if len(releases) > 0 {
		_ = c.releaseBatch(releases)
	}
}

// releaseGrant releases a grant that was asked for at an instant, and has arrived just now, and leaves its record as it was. The record of a job gets a note about the time
// that was claimed, and in that of an element the attempt of a holder that has died is counted.
func (c *core) releaseGrant(claim store.Claim, g store.Grant, asked time.Time) error {
	return c.releaseBatch([]store.Release{c.releaseOfGrant(claim, g, asked)})[0]
}

func (c *core) releaseOfGrant(claim store.Claim, g store.Grant, asked time.Time) store.Release {
	rel := store.Release{Name: claim.Name, Holder: claim.Holder, Token: g.Token, Retain: c.retainFor(claim.Name, g.Mark, g.State)}
	switch {
	case strings.HasPrefix(claim.Name, c.names.prefix+kindJob):
		rel.State = claimedInVain(claim, g, untilNow(asked))
	case strings.HasPrefix(claim.Name, c.names.prefix+kindElement) && g.ExpiredAge > 0: // no later grant reports that crash
		if state := crashedInVain(g, claim.Holder); state != nil {
			rel.State, rel.Retain = state, Forever
		}
	}
	return rel
}
