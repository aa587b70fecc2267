package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// lines are where this handle's holders wait for what is handed over to them. The news of all of them comes to one channel, the inbox,
// which is subscribed when somebody first waits and stays so.
type lines struct {
	store *Store
	inbox string

	mu      sync.Mutex
	open    bool
	waiting map[string]chan news // by holder
}

// news are what a holder in a line is told: to look again, unless there is a grant.
type news struct {
	granted bool
	asked   string        // the instant of the request that is answered
	after   time.Duration // from then to the grant
	grant   store.Grant
}

func (l *lines) init(s *Store) {
	l.store, l.inbox, l.waiting = s, s.parts[0].tag+"i:"+rand.Text(), map[string]chan news{}
}

// errNoLines is why a store that is configured in another way keeps no lines.
var errNoLines = fmt.Errorf("redisstore: in a cluster, with WAIT and with locks that Java clients share there are no lines: %w", errors.ErrUnsupported)

// Queue is as in store.Queuer. The lines are in the server; the script of a release grants the name and publishes that.
func (s *Store) Queue(ctx context.Context, c store.Claim) (store.Outcome, time.Duration, error) {
	if len(s.parts) > 1 || s.cfg.Wait > 0 || s.cfg.ShedLock != "" || s.cfg.Redisson {
		return store.Outcome{}, 0, errNoLines
	}
	if err := s.alive(ctx); err != nil {
		return store.Outcome{}, 0, err
	}
	if err := store.CheckQueued(c); err != nil {
		return store.Outcome{Err: err}, 0, nil
	}
	if err := s.lines.subscribe(ctx); err != nil {
		return store.Outcome{}, 0, err
	}
	told := s.lines.join(c.Holder)
	defer s.lines.leave(c.Holder, told)
	b := &s.parts[0]
	keys := append(b.indexes(), b.records+c.Name, b.tag+"w:"+c.Name, b.tag+"v:"+c.Name)
	answer := s.do(ctx, []call{{queueScript, keys, []any{c.Name, c.Holder, micros(c.TTL), s.lines.inbox}, false}})[0]
	if answer.err != nil {
		return store.Outcome{}, 0, answer.err
	}
	fields, _ := answer.reply.([]any)
	more := ""
	if n := len(fields); n == 6 || n == 8 {
		more, _ = fields[n-1].(string)
		fields = fields[:n-1]
	}
	out := outcome(c.Name, fields)
	var held *store.HeldError
	if !errors.As(out.Err, &held) {
		return out, -span(more), nil
	}
	limit := time.NewTimer(held.Record.Left)
	defer limit.Stop()
	select {
	case n := <-told:
		// What answers an earlier request of the holder, perhaps by another server's clock, says nothing of the time since this one. The holder
		// asks again, and is told how old the grant is.
		if n.granted && n.asked == more {
			return store.Outcome{Grant: n.grant}, n.after, nil
		}
	case <-limit.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return out, 0, nil
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
	answer := s.do(ctx, []call{{leaveScript, []string{b.tag + "w:" + name, b.tag + "v:" + name}, []any{holder}, false}})[0]
	return answer.reply == int64(1), answer.err
}

// subscribe opens the inbox, once. When its connection has been lost, all who wait look again.
func (l *lines) subscribe(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
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
	l.open = true
	return nil
}

func (l *lines) join(holder string) chan news {
	told := make(chan news, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[holder] = told
	return told
}

func (l *lines) leave(holder string, told chan news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[holder] == told {
		delete(l.waiting, holder)
	}
}

// lookAgain has all who wait ask the server again. What comes until they do is not for them.
func (l *lines) lookAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, told := range l.waiting {
		select {
		case told <- news{}:
		default: // there are news already
		}
	}
	clear(l.waiting)
}

// heard reads a message of release.lua: token, the instants of the request and of the grant, mark, length of the holder, holder and
// state; or nothing, to look again.
func (l *lines) heard(message string) {
	if message == "" {
		l.lookAgain()
		return
	}
	fields := strings.SplitN(message, " ", 6)
	if len(fields) < 6 {
		return
	}
	size, err := strconv.Atoi(fields[4])
	if err != nil || size < 0 || size > len(fields[5]) {
		return
	}
	holder, state := fields[5][:size], fields[5][size:]
	l.mu.Lock()
	defer l.mu.Unlock()
	if told := l.waiting[holder]; told != nil {
		delete(l.waiting, holder)
		told <- news{true, fields[1], span(fields[2]) - span(fields[1]), store.Grant{Token: number(fields[0]), Mark: number(fields[3]), State: bytes(state)}}
	}
}
