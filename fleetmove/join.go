package fleetmove

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
)

// Join is move.New for a replica of a fleet whose move is planned, see [Manager]. Before its first claim the replica
// announces its phase under the name replica, waits until the store lists that, and asks whether it may be in it. If
// not, claims return an error that is store.ErrUnusable, and nothing is acquired. The announcement is a lease: it
// lasts longer than each lease that the replica acquires or extends. If it is lost all the same, as when it is
// released by force, the replica announces itself and asks again before it claims or extends anything, and releases
// nothing in both stores when the fleet is two phases away. So no replica that nobody knows of is in a phase that the
// fleet has left. Close ends the announcement, and closes both stores.
func Join(oldStore, newStore store.Store, phase move.Phase, replica string) (store.Store, error) {
	s, err := move.New(oldStore, newStore, phase)
	if err != nil {
		return nil, err
	}
	decides := oldStore
	if phase >= move.NewDecides {
		decides = newStore
	}
	client, err := planClient(decides, replica)
	if err != nil {
		return nil, err
	}
	m := &member{Store: s, client: client, turn: make(chan struct{}, 1)}
	m.admit = func(ctx context.Context) error { return admit(ctx, oldStore, newStore, phase) }
	m.near = func(ctx context.Context) error { return near(ctx, oldStore, newStore, phase) }
	m.name = func() string { return phase.String() + "/" + rand.Text() }
	return m, nil
}

// How long an announcement outlives its replica at least, and how long before its end the replica sends nothing any more: a request that is under way when
// the announcement ends has to be over by then.
const (
	announceTTL    = 30 * time.Second
	announceMargin = 10 * time.Second
)

// planClient returns a client for the records of a move.
func planClient(s store.Store, replica string) (*soloist.Client, error) {
	return soloist.New(s, soloist.Config{
		Namespace: strings.Trim(move.Records, "@/"), Replica: replica, TTL: announceTTL, Margin: announceMargin, Logger: slog.New(slog.DiscardHandler),
	})
}

// A member is the store of a replica that has announced its phase.
type member struct {
	store.Store
	client *soloist.Client
	admit  func(context.Context) error
	near   func(context.Context) error
	name   func() string // a new one, of an announcement

	turn    chan struct{}  // is full while somebody uses what follows
	lease   *soloist.Lease // the announcement; nil before the first claim
	entered bool           // the store lists the announcement, and the phase was open after that
}

// Unwrap returns the store of the phase.
func (m *member) Unwrap() store.Store { return m.Store }

// enter returns the announcement of the replica, if it may be in its phase.
func (m *member) enter(ctx context.Context) (*soloist.Lease, error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-m.turn }()
	if m.lease == nil || m.lease.Err() != nil {
		lease, err := m.client.TryLock(ctx, m.name())
		if err != nil {
			return nil, neverSent(fmt.Errorf("fleetmove: announcing this replica: %w", err))
		}
		m.lease, m.entered = lease, false
	}
	if m.entered {
		return m.lease, nil
	}
	// Announced first, then asked: who changes the stage writes it first, and then looks for replicas. A claim that has no time to wait for the list leaves the
	// announcement to the next one.
	if err := m.listed(ctx); err != nil {
		return nil, neverSent(fmt.Errorf("fleetmove: waiting until the store lists the announcement of this replica: %w", err))
	}
	if err := m.admit(ctx); err != nil {
		_ = m.lease.Release() // else it expires
		m.lease = nil
		return nil, neverSent(err)
	}
	m.entered = true
	return m.lease, nil
}

// announceTimes is how many times the TTL of a lease its announcement is extended to. A third of that is the announcement's margin, and a third is for the lease. In the time of the
// last third no other request is needed.
const announceTimes = 3

// announced returns the announcement of the replica, if it may be in its phase, when the announcement lasts for at least ttl more. What the replica then asks to have for ttl it
// believes in for no longer: so it is known for as long as it has a lease.
func (m *member) announced(ctx context.Context, ttl time.Duration) (*soloist.Lease, error) {
	announcement, err := m.enter(ctx)
	if err != nil || announcement.Left() >= ttl {
		return announcement, err
	}
	if err := announcement.Extend(ctx, max(announceTTL, min(announceTimes*ttl, store.MaxTTL))); err != nil {
		return nil, neverSent(fmt.Errorf("fleetmove: extending the announcement of this replica: %w", err))
	}
	return announcement, nil
}

// longest returns the longest TTL in a batch. What is not valid does not count, as nothing is granted for it.
func longest[E interface{ Check() error }](batch []E, ttl func(E) time.Duration) (most time.Duration) {
	for _, e := range batch {
		if ttl(e) > most && e.Check() == nil {
			most = ttl(e)
		}
	}
	return most
}

// believed returns the outcome of a claim. A grant is unknown if the announcement with which it was claimed has ended, as in a suspend, which contexts do not notice: the
// fleet may have left the phase since.
func believed(announcement *soloist.Lease, grant store.Grant, err error) (store.Grant, error) {
	if err == nil && announcement.Err() != nil {
		return store.Grant{}, store.AsUnknown(errors.New("fleetmove: the announcement of this replica ended while it claimed"))
	}
	return grant, err
}

// How long to wait before the announcements are listed again, at first and at most.
const (
	listAgain = 20 * time.Millisecond
	listLast  = time.Second
)

// listed waits until a list has the announcement: a store may list a new record late, and nobody would see this replica before that.
func (m *member) listed(ctx context.Context) error {
	for pause := listAgain; ; pause = min(2*pause, listLast) {
		for lock, err := range m.client.Admin().Locks(ctx) {
			if err != nil {
				return err
			}
			if lock.Name == m.lease.Name() {
				return nil
			}
		}
		select {
		case <-time.After(pause):
		case <-m.lease.Context().Done():
			return context.Cause(m.lease.Context())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// neverSent makes an error that is neither ErrUnknown nor ErrLost: these are of the announcement. The request itself was never sent.
func neverSent(err error) error {
	switch {
	case errors.Is(err, soloist.ErrClosed):
		return store.ErrClosed
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrLost):
		return errors.New(err.Error())
	}
	return err
}

func claimTTL(c store.Claim) time.Duration { return c.TTL }

// Acquire implements store.Store.
func (m *member) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	announcement, err := m.announced(ctx, longest(claims, claimTTL))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, announceMargin) // the announcement may end after that
	defer cancel()
	outcomes, err := m.Store.Acquire(ctx, claims)
	for i, o := range outcomes {
		outcomes[i].Grant, outcomes[i].Err = believed(announcement, o.Grant, o.Err)
	}
	return outcomes, err
}

// Extend implements store.Store. A replica that may not be in its phase any more extends nothing, so its leases end.
func (m *member) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if _, err := m.announced(ctx, longest(extensions, func(e store.Extension) time.Duration { return e.TTL })); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, announceMargin)
	defer cancel()
	return m.Store.Extend(ctx, extensions)
}

// Release implements store.Store. A replica whose announcement has ended asks first whether the fleet is two phases
// away: a release in both stores, repeated, would bring to the other store what was there before.
func (m *member) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if err := m.mayRelease(ctx); errors.Is(err, store.ErrClosed) {
		return nil, err
	} else if err != nil { // it may be the repetition of one that was sent
		return nil, store.AsUnknown(err)
	}
	ctx, cancel := context.WithTimeout(ctx, announceMargin)
	defer cancel()
	return m.Store.Release(ctx, releases)
}

// mayRelease returns nil if the replica is known, or in a phase that is near enough to those of the fleet.
func (m *member) mayRelease(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	known := m.entered && m.lease != nil && m.lease.Err() == nil
	<-m.turn
	if known {
		return nil
	}
	return m.near(ctx)
}

// Queue implements store.Queuer, if the store of the phase does.
func (m *member) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	q, ok := store.As[store.Queuer](m.Store)
	if !ok {
		return store.Grant{}, 0, errors.ErrUnsupported
	}
	announcement, err := m.announced(ctx, longest([]store.Claim{c}, claimTTL))
	if err != nil {
		return store.Grant{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, announceMargin)
	defer cancel()
	grant, wait, err := q.Queue(ctx, c)
	grant, err = believed(announcement, grant, err)
	return grant, wait, err
}

// Leave implements store.Queuer, if the store of the phase does.
func (m *member) Leave(ctx context.Context, name, holder string) (bool, error) {
	q, ok := store.As[store.Queuer](m.Store)
	if !ok {
		return false, errors.ErrUnsupported
	}
	return q.Leave(ctx, name, holder)
}

// Choose implements store.Chooser, if the store of the phase does.
func (m *member) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	c, ok := store.As[store.Chooser](m.Store)
	if !ok {
		return 0, store.Grant{}, errors.ErrUnsupported
	}
	if err := store.CheckChoice(names, claim); err != nil {
		return 0, store.Grant{}, err
	}
	announcement, err := m.announced(ctx, claim.TTL)
	if err != nil {
		return 0, store.Grant{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, announceMargin)
	defer cancel()
	i, grant, err := c.Choose(ctx, names, claim)
	grant, err = believed(announcement, grant, err)
	return i, grant, err
}

// Close ends the announcement, and closes both stores.
func (m *member) Close() error { return errors.Join(m.client.Close(), m.Store.Close()) }
