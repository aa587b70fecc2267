package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// errNoLines is why a store that is configured in another way keeps no lines.
var errNoLines = fmt.Errorf("pgstore: with ListenOff, through a pooler, in CockroachDB and in a table shared with ShedLock there are no lines: %w", errors.ErrUnsupported)

// Queue is as in store.Queuer. The lines are in a table that is not logged, so standing in one waits for no disk; the statement of a release
// grants the name and notifies its heir, in a form that says nothing to others and that they cannot make. An heir of a record with a mark
// or a state asks once more for them.
// errors.ErrUnsupported may need a connection, to see whether notifications come through it.
func (s *Store) Queue(ctx context.Context, c store.Claim) (store.Outcome, time.Duration, error) {
	if s.sql.queue == "" || s.tables.cfg.Listen == ListenOff {
		return store.Outcome{}, 0, errNoLines
	}
	if err := s.alive(ctx); err != nil {
		return store.Outcome{}, 0, err
	}
	if err := store.CheckQueued(c); err != nil {
		return store.Outcome{Err: err}, 0, nil
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	wake, err := s.hub.add(watching, []string{c.Name})
	if err != nil {
		return store.Outcome{}, 0, err
	}
	l, err := s.hub.listens(ctx, []string{c.Name})
	if errors.Is(err, errGroupTaken) { // who releases the name now may not see that somebody waits
		err = s.hub.poll(ctx, []string{c.Name})
	}
	switch {
	case err != nil:
		return store.Outcome{}, 0, err
	case l == nil:
		return store.Outcome{}, 0, errNoLines
	}
	select {
	case <-wake: // what was released before this request does not matter to it
	default:
	}
	for known := int64(0); ; {
		out, after, token, err := s.await(ctx, c, l.inbox.Load(), known, wake)
		if token == 0 {
			if known > 0 { // the name may have been handed over already, whatever became of asking again
				err = store.AsUnknown(err)
			}
			return out, after, err
		}
		known = token
	}
}

// await asks once, and waits for what comes of it. It answers a token when news say that it was granted to the holder, and are no answer:
// then it is to be asked again. News of tokens up to known have been asked about.
func (s *Store) await(ctx context.Context, c store.Claim, inbox, known int64, wake <-chan struct{}) (out store.Outcome, after time.Duration, token int64, err error) {
	heir := heirOf(c.Name, c.Holder)
	told := s.hub.lines.join(heir, known)
	defer s.hub.lines.leave(heir, told)
	out, asked, after, err := s.stand(ctx, c, inbox)
	var held *store.HeldError
	if err != nil || !errors.As(out.Err, &held) {
		return out, after, 0, err
	}
	limit := time.NewTimer(held.Record.Left)
	defer limit.Stop()
	select {
	case n := <-told:
		// What answers an earlier request of the holder says nothing of the time since this one; and mark and state are not told. Asked again,
		// the server says how old the grant is.
		if n.asked != asked || n.more {
			return out, 0, n.token, nil
		}
		if n.waits {
			if err := s.confirm(ctx); err != nil {
				return store.Outcome{}, 0, 0, err
			}
		}
		return store.Outcome{Grant: store.Grant{Token: n.token}}, n.after, 0, nil
	case <-wake:
	case <-limit.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return out, 0, 0, nil
}

// stand asks once, and again while the name is changing hands. It answers the instant of the request too, and for a grant how long
// after it the lease began.
func (s *Store) stand(ctx context.Context, c store.Claim, inbox int64) (out store.Outcome, asked int64, after time.Duration, err error) {
	since := time.Now()
	for try := 0; ; try++ {
		answers, err := change(ctx, s, s.sql.queue, []any{c.Name, c.Holder, micros(c.TTL), inbox}, s.scanQueued)
		a, err := only(s, answers, err)
		if err == nil && a.name != c.Name {
			err = s.impossible("a row about %s, which was not asked for", shown(a.name))
		}
		if err != nil {
			if try > 0 { // the request before may have put the holder in line
				err = store.AsUnknown(err)
			}
			return store.Outcome{}, 0, 0, err
		}
		asked = a.asked
		age := max(0, a.record.age) // where the server's clock was set back, the lease is counted from this request
		out := a.decide(c)
		switch {
		case out.Err == nil && a.token == nil: // granted before
			return out, asked, -age, s.confirm(ctx)
		case !errors.Is(out.Err, errUndecided):
			return out, asked, 0, nil
		case time.Since(since) > lockPatience:
			return store.Outcome{Err: locked(c.Name)}, asked, 0, nil
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
	return len(left) > 0, err
}

// lines are where this handle's holders wait for what is handed over to them.
type lines struct {
	mu      sync.Mutex
	waiting map[heirID]place
}

// A place is that of a holder who waits for news.
type place struct {
	told  chan news
	known int64 // news of tokens up to this one have been asked about
}

// news are what the first of a line is told.
type news struct {
	asked int64         // the instant of the request that is answered
	after time.Duration // from then to the grant
	token int64
	waits bool // the server's commits wait for standbys, unless somebody cancels that
	more  bool // the record has a mark or a state: look
}

func (l *lines) join(heir heirID, known int64) chan news {
	told := make(chan news, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[heirID]place{}
	}
	l.waiting[heir] = place{told, known}
	return told
}

func (l *lines) leave(heir heirID, told chan news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[heir].told == told {
		delete(l.waiting, heir)
	}
}

// heard passes on what a notification says to its heir. One that is not what the store has sealed, or is sent again by somebody who has
// read it, has no effect.
func (l *lines) heard(w words) {
	heir, n, ok := w.news()
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.waiting[heir]; p.told != nil && n.token > p.known {
		delete(l.waiting, heir)
		p.told <- n
	}
}
