package move

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/soloist-dev/soloist/store"
)

// A half is a lease of the shadow whose holder does not have the name in the store that decides.
type half struct {
	name, holder string
	grant        store.Grant  // of the shadow
	unreleased   bool         // nobody had released the shadow when it was granted
	unsure       bool         // nobody knows whether somebody had
	truth        store.Record // what the store that decides has
	known        bool         // whether truth was found out
}

// errWhole is the error for a lease that is no half: its holder has the name, with another token than it said.
var errWhole = errors.New("move: the holder has the name in both stores")

// errOpen is the error for a half that is left to expire.
var errOpen = fmt.Errorf("%w: move: the stores have different states, and nobody knows which is the newer one", store.ErrUnknown)

// leave releases halves, and returns the error of each. A release frees a name as one whose last holder has left all in order. So an unreleased shadow first
// gets what the store that decides has of the name: its holder, or the one before whose lease expired, may have written that to the store that decides alone,
// and a replica in the other middle phase would go on without it. What cannot be read is not released, and expires. A shadow that was released before it
// was granted to the half is left as it is: a holder in the other middle phase, which writes here first, may be about to write the same to the other store. If
// nobody knows whether it was released, and the stores have different states, nobody knows which is the newer one either: then it is not released.
func (b *both) leave(ctx context.Context, halves []half) []error {
	var unread []int
	var reads []store.Claim
	for i, h := range halves {
		if (h.unreleased || h.unsure) && !h.known {
			unread, reads = append(unread, i), append(reads, store.Claim{Name: h.name, Holder: h.holder, TTL: store.MinTTL, Mark: -1})
		}
	}
	errs := make([]error, len(halves))
	if len(reads) > 0 {
		for n, out := range claimEach(ctx, b.truth, reads) {
			var done *store.DoneError
			switch {
			case errors.As(out.Err, &done):
				halves[unread[n]].truth = done.Record
			case out.Err == nil:
				errs[unread[n]] = errWhole
			default:
				errs[unread[n]] = errors.Join(out.Err, store.ErrUnknown)
			}
		}
	}
	var releases []store.Release
	var of []int // their indexes in halves
	for i, h := range halves {
		if errs[i] == nil && h.open() {
			errs[i] = errOpen
		}
		if errs[i] == nil {
			releases, of = append(releases, h.release()), append(of, i)
		}
	}
	for n, err := range apply(ctx, releases, b.shadow.Release) {
		errs[of[n]] = err
	}
	return errs
}

// open reports whether nobody can say what the record is to be.
func (h half) open() bool {
	return h.unsure && h.truth.Token != 0 && h.truth.Mark == h.grant.Mark && !slices.Equal(h.truth.State, h.grant.State)
}

func (h half) release() store.Release {
	r := store.Release{Name: h.name, Holder: h.holder, Token: h.grant.Token, Retain: store.Forever}
	if newer := h.truth.Mark > h.grant.Mark; newer || h.unreleased && h.truth.Token != 0 && h.truth.Mark == h.grant.Mark {
		r.Mark, r.State = h.truth.Mark, written(h.truth.State)
	}
	return r
}
