package soloist

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/soloist-dev/soloist/store"
)

// Release takes a lease away from its holder, as it was seen in a list: its kind, name and token count. The holder is not asked. It learns of it
// at its next renewal, and may go on until then: fence what it writes. Its own Release returns ErrLost then, although nobody may have followed.
// The error is ErrLost if the lease has ended or another has the name: nothing was changed then. It is ErrUnknown if the store did not confirm
// all of it: the name may still be held, or be taken for another TTL at most.
func (a *Admin) Release(ctx context.Context, seen LeaseInfo) error {
	t, err := a.targetOf(seen)
	if err != nil {
		return err
	}
	if err := a.client.force(ctx, t, seen.Token); err != nil {
		return fmt.Errorf("releasing the %s %q by force: %w", seen.Kind, seen.Name, err)
	}
	return nil
}

// targetOf returns the record of a lease.
func (a *Admin) targetOf(seen LeaseInfo) (target, error) {
	c := a.client
	switch seen.Kind {
	case KindLock:
		return c.lockTarget(seen.Name)
	case KindLeader:
		full, err := c.names.name(kindLeader, seen.Name)
		return target{shown: seen.Name, name: full}, err
	case KindPermit:
		full, err := c.names.name(partsOf(kindSemaphore, seen.Name), strconv.Itoa(seen.Permit))
		return target{shown: seen.Name, name: full}, err
	}
	return target{}, invalid("kind", strconv.Quote(string(seen.Kind)), "a lock, a leader or a permit can be released")
}

// force ends the lease of t with that token. To a store its holder would then be one that has released, and may do so again; so the name
// is taken over and given back, unless somebody has followed.
func (c *Client) force(ctx context.Context, t target, token int64) error {
	if err := c.usable(); err != nil {
		return err
	}
	records, err := c.peek(ctx, []string{t.name})
	if err != nil {
		return err
	}
	r := records[0]
	if r.Free() || r.Token != token || r.Holder == "" {
		return fmt.Errorf("it is not held with token %d: %w", token, ErrLost)
	}
	err = c.releaseBatch([]store.Release{{Name: t.name, Holder: r.Holder, Token: token, Retain: retainFor(r.Mark, r.State)}})[0]
	if err != nil {
		return err
	}
	c.log.Info("released by force", "name", t.shown, "token", token, "holder", r.Holder, "by", c.cfg.Replica)
	l, err := c.With(Options{TTL: c.opts.TTL, Margin: c.opts.Margin}).try(ctx, context.WithoutCancel(ctx), t)
	switch {
	case errors.Is(err, ErrHeld):
		return nil
	case err != nil:
		return fmt.Errorf("it was released, but its holder may not be told: %w", err)
	}
	return l.Release()
}
