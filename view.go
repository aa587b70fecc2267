package soloist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Locks lists the locks that are taken, in the order of their names. Beside an error it answers those that could be read; so do the other lists.
func (c *Client) Locks(ctx context.Context) ([]LeaseInfo, error) { return c.taken(ctx, kindLock) }

// Leaders lists the leaderships that are taken, in the order of their names.
func (c *Client) Leaders(ctx context.Context) ([]LeaseInfo, error) { return c.taken(ctx, kindLeader) }

func (c *Client) taken(ctx context.Context, kind string) ([]LeaseInfo, error) {
	var infos []LeaseInfo
	prefix := c.names.prefix + kind
	for r, err := range c.list(ctx, prefix) {
		if err != nil {
			return infos, fmt.Errorf("listing: %w", err)
		}
		if !r.Free() {
			infos = append(infos, leaseInfo(strings.TrimPrefix(r.Name, prefix), r))
		}
	}
	return infos, nil
}

// ForceRelease takes a lock away from whoever holds it with that token, as seen by Locks. Its holder is not asked; it learns of it
// at its next renewal, until when it may go on: fence what it writes. Its Release is ErrLost then, although nobody may have followed. ErrLost
// says that the lock is not held with that token (any more), and that nothing was changed. ErrUnknown says that the store did not answer all of
// it: the lock may still be held, or be taken for another TTL at most.
func (c *Client) ForceRelease(ctx context.Context, name string, token int64) error {
	t, err := c.lockTarget(name)
	if err != nil {
		return err
	}
	if err := c.force(ctx, t, token); err != nil {
		return fmt.Errorf("releasing %q by force: %w", name, err)
	}
	return nil
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

// A SemaphoreInfo tells of a semaphore to people.
type SemaphoreInfo struct {
	Name    string
	Permits []LeaseInfo // those that are taken
}

// Semaphores lists the semaphores that have been used, in the order of their names.
func (c *Client) Semaphores(ctx context.Context) ([]SemaphoreInfo, error) {
	var infos []SemaphoreInfo
	prefix := c.names.prefix + kindSemaphore
	for r, err := range c.list(ctx, prefix) {
		if err != nil {
			return infos, fmt.Errorf("listing semaphores: %w", err)
		}
		name, permit, _ := strings.Cut(strings.TrimPrefix(r.Name, prefix), "/")
		if name = unescape(name); len(infos) == 0 || infos[len(infos)-1].Name != name {
			infos = append(infos, SemaphoreInfo{Name: name})
		}
		if last := &infos[len(infos)-1]; !r.Free() {
			last.Permits = append(last.Permits, leaseInfo(permit, r))
		}
	}
	return infos, nil
}

// A LeaseInfo tells of a taken name to people.
type LeaseInfo struct {
	Name   string
	Holder string // "" while it lingers after a release
	Token  int64
	Left   time.Duration // until it ends, unless it is renewed
	Age    time.Duration // since it was granted
}

func leaseInfo(name string, r store.Record) LeaseInfo {
	return LeaseInfo{Name: name, Holder: r.Holder, Token: r.Token, Left: r.Left, Age: r.Age}
}
