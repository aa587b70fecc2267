package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// copyTTL is the TTL of the leases under which records are copied.
const copyTTL = 10 * time.Second

// copy does a task for names. It returns those that changed meanwhile. Once it has begun, it goes on when ctx ends: else the names would be taken until
// its leases end.
func (b *both) copy(ctx context.Context, todo task, batch []twins, o Options, r *Report) (again []twins, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTTL)
	defer cancel()
	if todo == fill {
		return b.fill(ctx, batch, o, r)
	}
	if !o.Abandoned { // a holder may have come and died since the name was listed
		if batch, again, err = b.unchanged(ctx, batch); err != nil || len(batch) == 0 {
			return again, err
		}
	}
	do := b.touch
	if todo == raise {
		do = b.raise
	}
	more, err := do(ctx, batch, o, r)
	return append(again, more...), err
}

// unchanged reads names in the store that decides, and returns those that are free there and still have the grant that was listed, and the others to be looked at again.
func (b *both) unchanged(ctx context.Context, batch []twins) (same, again []twins, err error) {
	for i, out := range claimEach(ctx, b.truth, readsOf(batch)) {
		var read *store.DoneError
		switch p := batch[i]; {
		case !errors.As(out.Err, &read):
			err = errors.Join(err, fmt.Errorf("move: reading %q: %w", p.name, out.Err))
		case read.Record.Token != p.truth.Token || !read.Record.Free():
			again = append(again, twins{name: p.name, truth: read.Record})
		default:
			same = append(same, p)
		}
	}
	return same, again, err
}

// copierClaims returns the claims under which names are copied.
func copierClaims(batch []twins) []store.Claim {
	claims := make([]store.Claim, len(batch))
	for i, p := range batch {
		claims[i] = store.Claim{Name: p.name, Holder: copier(p.name), TTL: copyTTL}
	}
	return claims
}

// refused returns the name as one to be looked at again if an outcome is that it is held, and else the error, if there is one.
func (p twins) refused(out store.Outcome) (again []twins, err error) {
	var taken *store.HeldError
	switch {
	case errors.As(out.Err, &taken):
		return []twins{{name: p.name, truth: store.Record{Left: taken.Record.Left}}}, nil
	case out.Err != nil:
		return nil, fmt.Errorf("move: copying %q: %w", p.name, out.Err)
	}
	return nil, nil
}

// touch acquires names in both stores, and releases them with records that agree: the store that decides first, so that the other one never knows more.
func (b *both) touch(ctx context.Context, batch []twins, o Options, r *Report) (again []twins, err error) {
	outcomes, _, granted, err := b.claim(ctx, copierClaims(batch))
	if err != nil {
		return nil, err
	}
	var broken error
	for i, out := range outcomes {
		held, err := batch[i].refused(out)
		again, broken = append(again, held...), errors.Join(broken, err)
	}
	for i, err := range apply(ctx, ends(granted, o.Retain, false), b.truth.Release) {
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("move: releasing %q: %w", granted[i].claim.Name, err))
			granted[i] = nil
		}
	}
	granted = slices.DeleteFunc(granted, func(c *claiming) bool { return c == nil })
	for i, err := range apply(ctx, ends(granted, o.Retain, true), b.shadow.Release) {
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("move: copying %q: %w", granted[i].claim.Name, err))
			continue
		}
		r.Copied++
	}
	return again, broken
}

// ends returns the releases that end granted claims in one of the stores, with the newer of the two records.
func ends(granted []*claiming, retain time.Duration, shadow bool) []store.Release {
	releases := make([]store.Release, len(granted))
	for i, c := range granted {
		newest, token := c.outcome.Grant, c.outcome.Grant.Token
		if c.first.Grant.Mark > newest.Mark {
			newest = c.first.Grant
		}
		if shadow {
			token = c.first.Grant.Token
		}
		releases[i] = store.Release{Name: c.claim.Name, Holder: c.claim.Holder, Token: token, Mark: newest.Mark, State: written(newest.State), Retain: retain}
	}
	return releases
}

// make makes the records of names of which the shadow had none when it was listed, and reads the store that decides after that. If that still has the grant that was listed,
// what was made is what it had at that moment: nobody has been granted the name there in between, and who was granted it later had the shadow's new record first.
// It returns the names that are left to [both.fill]: those of which no record was made.
func (b *both) make(ctx context.Context, batch []twins, o Options, r *Report) (left, again []twins, err error) {
	filler, ok := store.As[store.Filler](b.shadow)
	if !ok {
		return batch, nil, nil
	}
	var absent []twins
	var fillings []store.Filling
	for _, p := range batch {
		if p.shadow.Token != 0 {
			left = append(left, p)
			continue
		}
		absent = append(absent, p)
		fillings = append(fillings, store.Filling{Name: p.name, Mark: p.truth.Mark, State: p.truth.State, Retain: o.Retain})
	}
	if len(absent) == 0 {
		return left, nil, nil
	}
	made, err := filler.Fill(ctx, fillings)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return batch, nil, nil
	case err != nil:
		return nil, nil, err
	}
	var mine []twins
	for i, p := range absent {
		if made[i] {
			mine = append(mine, p)
		} else {
			left = append(left, p)
		}
	}
	same, again, err := b.unchanged(ctx, mine)
	r.Copied += len(same)
	return left, again, err
}

// fill acquires names in the shadow alone, reads what the store that decides has, and releases the shadow with that. While the shadow is taken, no replica of this phase is
// granted the name. So if it was free in the store that decides then, what was read is the newest, until the shadow is released.
func (b *both) fill(ctx context.Context, batch []twins, o Options, r *Report) (again []twins, err error) {
	batch, again, broken := b.make(ctx, batch, o, r)
	if len(batch) == 0 {
		return again, broken
	}
	claims := copierClaims(batch)
	shadows, err := b.shadow.Acquire(ctx, claims)
	if err != nil {
		return again, errors.Join(broken, err)
	}
	var mine []twins
	var grants []store.Grant
	reads := claims[:0]
	for i, out := range shadows {
		held, err := batch[i].refused(out)
		again, broken = append(again, held...), errors.Join(broken, err)
		if out.Err == nil {
			claims[i].Mark = -1
			mine, grants, reads = append(mine, batch[i]), append(grants, out.Grant), append(reads, claims[i])
		}
	}
	if len(mine) == 0 {
		return again, broken
	}
	var releases []store.Release
	var halves []half
	for i, out := range claimEach(ctx, b.truth, reads) {
		var read *store.DoneError
		if !errors.As(out.Err, &read) {
			broken = errors.Join(broken, fmt.Errorf("move: reading %q: %w", mine[i].name, out.Err))
			halves = append(halves, half{name: reads[i].Name, holder: reads[i].Holder, grant: grants[i], unreleased: grants[i].ExpiredAge > 0})
			continue
		}
		now := read.Record
		if !now.Free() || now.Holder != "" || now.Token == 0 || now.Mark < grants[i].Mark {
			again = append(again, twins{name: mine[i].name, truth: now})
			halves = append(halves, half{name: reads[i].Name, holder: reads[i].Holder, grant: grants[i], unreleased: grants[i].ExpiredAge > 0, truth: now, known: true})
			continue
		}
		releases = append(releases, store.Release{
			Name: reads[i].Name, Holder: reads[i].Holder, Token: grants[i].Token, Mark: now.Mark, State: written(now.State), Retain: o.Retain,
		})
	}
	for i, err := range b.leave(ctx, halves) {
		if err != nil && !errors.Is(err, store.ErrLost) {
			broken = errors.Join(broken, fmt.Errorf("move: giving back %q: %w", halves[i].name, err))
		}
	}
	for i, err := range apply(ctx, releases, b.shadow.Release) {
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("move: copying %q: %w", releases[i].Name, err))
			continue
		}
		r.Copied++
	}
	return again, broken
}

// raise acquires names in the store that decides, with tokens above those of the shadow, and releases them as they are.
func (b *both) raise(ctx context.Context, batch []twins, o Options, r *Report) (again []twins, err error) {
	claims := copierClaims(batch)
	for i, p := range batch {
		claims[i].Above = p.shadow.Token
	}
	outcomes, err := b.truth.Acquire(ctx, claims)
	if err != nil {
		return nil, err
	}
	var broken error
	var releases []store.Release
	for i, out := range outcomes {
		held, err := batch[i].refused(out)
		again, broken = append(again, held...), errors.Join(broken, err)
		if out.Err == nil {
			releases = append(releases, store.Release{Name: claims[i].Name, Holder: claims[i].Holder, Token: out.Grant.Token, Retain: o.Retain})
		}
	}
	for i, err := range apply(ctx, releases, b.truth.Release) {
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("move: releasing %q: %w", releases[i].Name, err))
			continue
		}
		r.Copied++
	}
	return again, broken
}
