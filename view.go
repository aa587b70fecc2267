package soloist

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Locks lists the locks that are taken, in the order of their names.
func (c *Client) Locks(ctx context.Context) ([]LeaseInfo, error) { return c.taken(ctx, kindLock) }

// Leaders lists the leaderships that are taken, in the order of their names.
func (c *Client) Leaders(ctx context.Context) ([]LeaseInfo, error) { return c.taken(ctx, kindLeader) }

func (c *Client) taken(ctx context.Context, kind string) ([]LeaseInfo, error) {
	var infos []LeaseInfo
	prefix := c.names.prefix + kind
	for r, err := range c.store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("listing: %w", err)
		}
		if !r.Free() {
			infos = append(infos, leaseInfo(strings.TrimPrefix(r.Name, prefix), r))
		}
	}
	return infos, nil
}

// ForceRelease takes a lock away from whoever holds it with that token, as seen by Locks. Its holder is not asked; it learns of it
// at its next renewal, until when it may go on: fence what it writes. ErrLost says that the lock is not held with that token
// (any more), and that nothing was changed.
func (c *Client) ForceRelease(ctx context.Context, name string, token int64) error {
	if err := c.usable(); err != nil {
		return err
	}
	full, err := c.names.name(kindLock, name)
	if err != nil {
		return err
	}
	records, err := c.peek(ctx, []string{full})
	if err != nil {
		return fmt.Errorf("releasing %q by force: %w", name, err)
	}
	r := records[0]
	if r.Free() || r.Token != token || r.Holder == "" {
		return fmt.Errorf("releasing %q by force: it is not held with token %d: %w", name, token, ErrLost)
	}
	err = c.release([]store.Release{{Name: full, Holder: r.Holder, Token: token, Retain: retainFor(r.Mark, r.State)}})[0]
	if err != nil {
		return fmt.Errorf("releasing %q by force: %w", name, err)
	}
	c.log.Info("a lock was released by force", "name", name, "token", token, "holder", r.Holder, "by", c.cfg.Replica)
	return nil
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
	for r, err := range c.store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("listing semaphores: %w", err)
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
