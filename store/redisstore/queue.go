package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// lines are where this handle's holders wait for what is handed over to them. The news of all of them comes to one channel, the inbox,
// which is subscribed when somebody first waits and stays so.
type lines struct {
	store *Store
	inbox string

	opening chan struct{} // has a value while somebody opens the inbox
	open    atomic.Bool   // the inbox

	mu      sync.Mutex
	waiting map[string]chan news // by the secret of a request
}

// news are what a request in a line is told: the grant, or to look again.
type news struct {
	granted bool
	after   int64 // from the request to the grant, in µs
	ahead   int64 // by how much the token is greater than the instant of the grant
	more    bool  // the record has a mark or a state: read them
}

func (l *lines) init(s *Store) {
	l.store, l.inbox, l.waiting = s, s.parts[0].tag+"i:"+rand.Text(), map[string]chan news{}
	l.opening = make(chan struct{}, 1)
}

// errNoLines is why a store that is configured in another way keeps no lines.
var errNoLines = fmt.Errorf("redisstore: in a cluster, with WAIT and with locks that other libraries share there are no lines: %w", errors.ErrUnsupported)

// Queue is as in store.Queuer. The lines are in the server; the script of a release grants the name and publishes that.
func (s *Store) Queue(ctx context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	if len(s.parts) > 1 || s.cfg.Wait > 0 || s.sharing() {
		return store.Grant{}, 0, errNoLines
	}
	if err := s.alive(ctx); err != nil {
		return store.Grant{}, 0, err
	}
	if err := store.CheckQueued(c); err != nil {
		return store.Grant{}, 0, err
	}
	if !s.lines.open.Load() {
		if err := s.lines.subscribe(ctx); err != nil {
			return store.Grant{}, 0, err
		}
	}
	secret, told := s.lines.join()
	defer s.lines.leave(secret)
	p, err := s.stand(ctx, c, secret)
	var held *store.HeldError
	if err == nil {
		err = p.out.Err
	}
	if !errors.As(err, &held) {
		return p.out.Grant, p.since(p.asked), err
	}
	limit := time.NewTimer(held.Record.Left)
	defer limit.Stop()
	select {
	case n := <-told:
		grant, err := s.inherit(ctx, c, p.asked, n)
		if err != nil { // the name has been handed over, whatever became of the request since
			return store.Grant{}, 0, store.AsUnknown(err)
		}
		if grant.Token > 0 {
			return grant, time.Duration(n.after) * time.Microsecond, nil
		}
	case <-limit.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return store.Grant{}, 0, held
}

// inherit returns the grant that news are about, with the mark and the state of the record, which is read for them. It has no token if the
// holder does not have that lease any more, or if the news are no grant: then the call of Queue ends, for a claim is granted once at most.
func (s *Store) inherit(ctx context.Context, c store.Claim, asked int64, n news) (store.Grant, error) {
	token := asked + n.after + n.ahead
	switch {
	case !n.granted || token > exact:
		return store.Grant{}, nil
	case !n.more:
		return store.Grant{Token: token}, nil
	}
	c.Mark = -1
	outs, err := s.Acquire(ctx, []store.Claim{c})
	switch {
	case err != nil:
		return store.Grant{}, err
	case errors.Is(outs[0].Err, store.ErrDone), outs[0].Err == nil && outs[0].Grant.Token != token:
		return store.Grant{}, nil
	}
	return outs[0].Grant, outs[0].Err
}

// A place is what a request to wait in the queue was answered. Instants are µs of the server's clock.
type place struct {
	out          store.Outcome
	asked, began int64
}

// since is how long after a request a lease began that was granted.
func (p place) since(asked int64) time.Duration {
	if p.out.Err != nil {
		return 0
	}
	return time.Duration(p.began-asked) * time.Microsecond
}

// stand takes the name if it is free, or a place in its line.
func (s *Store) stand(ctx context.Context, c store.Claim, secret string) (p place, err error) {
	b := &s.parts[0]
	args := []any{&b.tag, c.Holder, micros(c.TTL), s.lines.inbox, secret}
	answer := s.do(ctx, []call{{script: s.scripts.queue, keys: []string{b.records + c.Name}, args: args}})[0]
	if answer.err != nil {
		return place{}, answer.err
	}
	fields, err := list(answer.reply, -1)
	r := &row{fields: fields, err: err}
	p.out = s.outcome(c.Name, r.next("place"))
	if granted := p.out.Err == nil; granted || errors.Is(p.out.Err, store.ErrHeld) {
		p.asked = r.count("instant of the request", 1, exact)
		if p.began = p.asked; granted {
			p.began = min(p.asked, r.count("instant of the grant", 0, exact))
		}
	}
	if err := r.end(); err != nil {
		return place{}, store.AsUnknown(about(c.Name, err))
	}
	return p, nil
}

// Leave is as in store.Queuer.
func (s *Store) Leave(ctx context.Context, name, holder string) (bool, error) {
	if err := s.alive(ctx); err != nil {
		return false, err
	}
	if err := store.CheckName(name); err != nil {
		return false, err
	}
	b := &s.parts[0]
	answer := s.do(ctx, []call{{script: s.scripts.leave, keys: []string{b.tag + "w:" + name, b.tag + "v:" + name}, args: []any{holder}}})[0]
	had, ok := answer.reply.(int64)
	if answer.err == nil && (!ok || had < 0 || had > 1) {
		answer.err = store.AsUnknown(about(name, malformed("%s instead of 0 or 1", shown(answer.reply))))
	}
	return had == 1, answer.err
}

// subscribe opens the inbox, once. When its connection has been lost, all who wait look again.
func (l *lines) subscribe(ctx context.Context) error {
	select { // not mu, which what is heard needs while this waits to hear the server's word
	case l.opening <- struct{}{}:
		defer func() { <-l.opening }()
	case <-ctx.Done():
		return ctx.Err()
	case <-l.store.ctx.Done():
		return store.ErrClosed
	}
	if l.open.Load() {
		return nil
	}
	w := &watch{wake: make(chan struct{}, 1)}
	topics, err := l.store.watches.join(w, []string{l.inbox})
	if err == nil {
		err = l.store.confirmed(ctx, topics)
	}
	if err != nil {
		l.store.watches.leave(w, []string{l.inbox})
		return err
	}
	l.open.Store(true)
	return nil
}

// join makes the secret by which the news of a request are known. It is one that nobody else learns before it is of no more use: only who may
// read the keys of the line.
func (l *lines) join() (secret string, told chan news) {
	secret, told = rand.Text(), make(chan news, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[secret] = told
	return secret, told
}

func (l *lines) leave(secret string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, secret)
}

// lookAgain has all who wait ask the server again. What comes until they do is not for them.
func (l *lines) lookAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, told := range l.waiting {
		told <- news{}
	}
	clear(l.waiting)
}

// heard takes a message of release.lua: an empty one, to look again, or the secret of a request and what was granted to it. Anybody may publish:
// of what does not begin with a secret nothing is believed, and a secret is good for one message.
func (l *lines) heard(message string) {
	if message == "" {
		l.lookAgain()
		return
	}
	secret, rest, _ := strings.Cut(message, " ")
	l.mu.Lock()
	defer l.mu.Unlock()
	if told := l.waiting[secret]; told != nil {
		delete(l.waiting, secret)
		told <- read(rest)
	}
}

// read makes news of what follows a secret. If that is not as it should be, they are to look again.
func read(rest string) news {
	after, rest, _ := strings.Cut(rest, " ")
	ahead, flag, more := strings.Cut(rest, " ")
	r := &row{fields: []any{after, ahead}}
	n := news{granted: true, after: r.number("time since the request", 0, exact), ahead: r.number("token", 0, exact), more: more}
	if r.end() != nil || more && flag != "1" {
		return news{}
	}
	return n
}
