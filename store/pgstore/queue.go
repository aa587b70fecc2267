package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// errNoLines is why a store that is configured in another way keeps no lines.
var errNoLines = fmt.Errorf("pgstore: with ListenOff, through a pooler, in CockroachDB and in a table shared with ShedLock there are no lines: %w", errors.ErrUnsupported)

// Queue is as in store.Queuer. The lines are in a table that is not logged, so standing in one waits for no disk; the statement of a release
// grants the name and notifies its heir, in a form that says nothing to others and that they cannot make. An heir of a record with a mark
// or a state reads them with one more request.
// errors.ErrUnsupported may need a connection, to see whether notifications come through it.
func (s *Store) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	if s.sql.queue == "" || s.tables.cfg.Listen == ListenOff {
		return store.Grant{}, 0, errNoLines
	}
	if err := s.alive(ctx); err != nil {
		return store.Grant{}, 0, err
	}
	if err := store.CheckQueued(c); err != nil {
		return store.Grant{}, 0, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	wake, err := s.hub.add(watching, []string{c.Name})
	if err != nil {
		return store.Grant{}, 0, err
	}
	l, err := s.hub.listens(ctx, []string{c.Name})
	if errors.Is(err, errGroupTaken) { // who releases the name now may not see that somebody waits
		err = s.hub.poll(ctx, []string{c.Name})
	}
	switch {
	case err != nil:
		return store.Grant{}, 0, err
	case l == nil:
		return store.Grant{}, 0, errNoLines
	}
	select {
	case <-wake: // what was released before this request does not matter to it
	default:
	}
	return s.await(ctx, c, l.inbox.Load(), wake)
}

// await waits in the queue for its result.
func (s *Store) await(ctx context.Context, c store.Claim, inbox int64, wake <-chan struct{}) (store.Grant, time.Duration, error) {
	heir := heirOf(c.Name, c.Holder)
	told := s.hub.lines.join(heir)
	defer s.hub.lines.leave(heir, told)
	grant, asked, after, err := s.stand(ctx, c, inbox)
	var held *store.HeldError
	if !errors.As(err, &held) {
		return grant, after, err
	}
	limit := time.NewTimer(held.Record.Left)
	defer limit.Stop()
	select {
	case n := <-told:
		grant, err := s.inherit(ctx, c, asked, n)
		if err != nil { // the name has been handed over, whatever became of the requests since
			return store.Grant{}, 0, store.AsUnknown(err)
		}
		if grant.Token > 0 {
			return grant, time.Duration(n.asked-asked)*µs + n.after, nil
		}
	case <-wake:
	case <-limit.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return store.Grant{}, 0, held
}

// inherit returns the grant that news are about. It has no token if the news are of a lease that the holder does not have any more: then the
// call of Queue ends, for a claim is granted once at most. News of an earlier request may have been sent again by somebody who has read
// them, and news do not contain a mark or a state: in both cases the record is read, which takes nothing.
func (s *Store) inherit(ctx context.Context, c store.Claim, asked int64, n news) (store.Grant, error) {
	if n.asked == asked && !n.more {
		if n.waits {
			return store.Grant{Token: n.token}, s.confirm(ctx)
		}
		return store.Grant{Token: n.token}, nil
	}
	c.Mark = -1
	outs, err := s.Acquire(ctx, []store.Claim{c})
	switch {
	case err != nil:
		return store.Grant{}, err
	case errors.Is(outs[0].Err, store.ErrDone), outs[0].Err == nil && outs[0].Grant.Token != n.token:
		return store.Grant{}, nil
	case outs[0].Err != nil:
		return store.Grant{}, outs[0].Err
	case n.asked != asked: // the place of this request may have been made when the name had been handed over
		_, err = s.Leave(ctx, c.Name, c.Holder)
	}
	return outs[0].Grant, err
}

// stand asks once, and again while the name is changing hands. It returns the instant of the request too, and for a grant how long
// after it the lease began.
func (s *Store) stand(ctx context.Context, c store.Claim, inbox int64) (grant store.Grant, asked int64, after time.Duration, err error) {
	since := time.Now()
	for try := 0; ; try++ {
		answers, err := change(ctx, s, s.sql.queue, []any{c.Name, c.Holder, sqlshared.Micros(c.TTL), inbox}, s.scanQueued)
		a, err := only(s, answers, err)
		if err == nil && a.name != c.Name {
			err = s.impossible("a row about %s, which was not asked for", shown(a.name))
		}
		if err != nil {
			return store.Grant{}, 0, 0, err
		}
		asked = a.asked
		age := max(0, a.record.Age) // where the server's clock was set back, the lease is counted from this request
		out := a.decide(s, c)
		switch {
		case out.Err == nil && a.token == nil: // granted before
			return out.Grant, asked, -age, s.confirm(ctx)
		case !errors.Is(out.Err, errUndecided):
			return out.Grant, asked, 0, out.Err
		case time.Since(since) > lockPatience:
			return store.Grant{}, asked, 0, locked(c.Name)
		}
		s.collided(ctx, try)
	}
}

// Leave is as in store.Queuer.
func (s *Store) Leave(ctx context.Context, name, holder string) (bool, error) {
	if err := s.alive(ctx); err != nil {
		return false, err
	}
	if err := store.CheckName(name); err != nil {
		return false, err
	}
	if s.sql.leave == "" {
		return false, nil
	}
	left, err := change(ctx, s, s.sql.leave, []any{name, holder}, scanInt)
	if err != nil || len(left) == 0 {
		return false, err
	}
	// A hand-over takes the places that it has seen. One that the holder has got while it was under way is still there.
	found, err := look(ctx, s, s.sql.heir, []any{name, holder}, scanInt)
	has, err := read(s, found, err)
	return err == nil && has == 0, store.AsUnknown(err) // the place is gone, whatever became of the look
}

// lines are where this handle's holders wait for what is handed over to them.
type lines struct {
	mu      sync.Mutex
	waiting map[heirID]chan news
}

// news are what the first waiter of a queue learns.
type news struct {
	asked int64         // the instant of the request
	after time.Duration // from then to the grant
	token int64
	waits bool // the server's commits wait for standbys, unless somebody cancels that
	more  bool // the record has a mark or a state: look
}

func (l *lines) join(heir heirID) chan news {
	told := make(chan news, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[heirID]chan news{}
	}
	l.waiting[heir] = told
	return told
}

func (l *lines) leave(heir heirID, told chan news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[heir] == told {
		delete(l.waiting, heir)
	}
}

// heard passes on what a notification says to its heir, once. One that is not what the store has sealed has no effect.
func (l *lines) heard(w words) {
	heir, n, ok := w.news()
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if told := l.waiting[heir]; told != nil {
		delete(l.waiting, heir)
		told <- n
	}
}
