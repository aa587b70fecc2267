package move

import (
	"context"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

// seen is what was seen of the shadow: the token of its last grant when a lease was looked up, and then that of the holder's lease, 0 without one.
type seen struct{ before, now int64 }

// An ending is a release that was sent.
type ending struct {
	shadow    int64 // the token of the shadow's last grant then
	confirmed bool  // the release has returned nil
}

// sending returns what is known of earlier releases of the same leases, nil where there was none, and notes the others as sent.
func (b *both) sending(releases []store.Release) []*remembered[ending] {
	before := make([]*remembered[ending], len(releases))
	for i, r := range releases {
		before[i] = b.released.get(releasing(r))
	}
	for i, r := range releases {
		if before[i] == nil {
			b.released.put(releasing(r), ending{})
		}
	}
	return before
}

// sent makes releases that are lost unknown if an earlier request may have released the lease. A claim of a replica in the other middle phase
// is granted by the store that decides here first. If the other store refuses it, nobody else has had the name; but a release that is repeated after that is lost
// in the store that decides, as if somebody had. The tokens of both stores show that nobody has, or not whether somebody has.
func (b *both) sent(ctx context.Context, releases []store.Release, before []*remembered[ending], looks []seen, errs []error) {
	var doubtful []int // indexes in releases
	for i, r := range releases {
		c := releasing(r)
		switch {
		case errs[i] == nil:
			b.released.put(c, ending{max(looks[i].before, looks[i].now), true})
		case !errors.Is(errs[i], store.ErrLost) || errors.Is(errs[i], store.ErrUnknown):
		case before[i] == nil:
			b.released.remove(c)
		case !before[i].what.confirmed || before[i].what.shadow == looks[i].before || min(before[i].what.shadow, looks[i].before) == 0: // 0: it was not seen
			b.released.put(c, ending{max(looks[i].before, looks[i].now), before[i].what.confirmed})
			doubtful = append(doubtful, i)
		}
	}
	if len(doubtful) == 0 {
		return
	}
	reads := make([]store.Claim, len(doubtful))
	for n, i := range doubtful {
		reads[n] = releasing(releases[i])
		reads[n].TTL, reads[n].Mark = store.MinTTL, -1
	}
	for n, out := range claimEach(ctx, b.truth, reads) {
		r := releases[doubtful[n]]
		var done *store.DoneError
		if errors.As(out.Err, &done) && done.Record.Token == r.Token {
			continue // nobody has been granted the name since: it expired, or the release has a mark that was not recorded
		}
		errs[doubtful[n]] = store.AsUnknown(fmt.Errorf("move: %q was released by an earlier request, or was lost: the stores do not show which", r.Name))
	}
}
