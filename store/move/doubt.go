package move

import (
	"errors"

	"github.com/soloist-dev/soloist/store"
)

// A doubt is what is known of a claim whose outcome is unknown. The shadow may have granted it, and does not say twice how the lease before ended.
type doubt struct {
	unheard    bool  // a request to the shadow was not answered: it may have granted the claim then, or does so later
	token      int64 // of the shadow's last grant that was heard of; 0 without one
	unreleased bool  // that was of a name which nobody had released
}

// learn notes what the shadow has answered to a claim whose outcome is unknown.
func (b *both) learn(c *claiming) {
	d := b.doubtOf(c.claim)
	switch {
	case c.first.Err == nil && d.token != c.first.Grant.Token:
		d.token, d.unreleased = c.first.Grant.Token, c.first.Grant.ExpiredAge > 0
	case c.first.Err != nil && !errors.Is(c.first.Err, store.ErrHeld) && !errors.Is(c.first.Err, store.ErrDone):
		d.unheard = true
	}
	b.doubted.put(c.claim, d)
}

// doubtOf returns what is known of a claim from earlier requests.
func (b *both) doubtOf(c store.Claim) doubt {
	if r := b.doubted.get(c); r != nil {
		return r.what
	}
	return doubt{}
}

// halfOf returns what the shadow has granted to a claim that the store that decides has not.
func (b *both) halfOf(c store.Claim, g store.Grant) half {
	h := half{name: c.Name, holder: c.Holder, grant: g, unreleased: g.ExpiredAge > 0}
	if d := b.doubtOf(c); !h.unreleased {
		h.unreleased, h.unsure = d.token == g.Token && d.unreleased, d.unheard
	}
	return h
}
