package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

// errNoLines is why a store that is configured in another way keeps no lines.
var errNoLines = fmt.Errorf("pgstore: with ListenOff, through a pooler, in CockroachDB and in a table shared with ShedLock there are no lines: %w", errors.ErrUnsupported)

// Queue is as in store.Queuer. The lines are in a table that is not logged, so standing in one waits for no disk; the statement of a release
// grants the name and notifies its heir. A state of more than 3,000 bytes does not fit in a notification: the heir then asks once more.
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
	for {
		out, after, again, err := s.await(ctx, c, l.inbox.Load(), wake)
		if !again {
			return out, after, err
		}
	}
}

// await asks once, and waits for what comes of it. It says again when the name has been handed over and the news of that are no answer.
func (s *Store) await(ctx context.Context, c store.Claim, inbox int64, wake <-chan struct{}) (out store.Outcome, after time.Duration, again bool, err error) {
	told := s.hub.lines.join(c.Holder)
	defer s.hub.lines.leave(c.Holder, told)
	out, asked, after, err := s.stand(ctx, c, inbox)
	var held *store.HeldError
	if err != nil || !errors.As(out.Err, &held) {
		return out, after, false, err
	}
	limit := time.NewTimer(held.Record.Left)
	defer limit.Stop()
	select {
	case n := <-told:
		// What answers an earlier request of the holder says nothing of the time since this one; and a long state is not told. Asked again, the
		// server says how old the grant is.
		if n.asked != asked || n.grant.Token == 0 {
			return out, 0, true, nil
		}
		if n.waits {
			if err := s.confirm(ctx); err != nil {
				return store.Outcome{}, 0, false, err
			}
		}
		return store.Outcome{Grant: n.grant}, n.after, false, nil
	case <-wake:
	case <-limit.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return out, 0, false, nil
}

// stand asks once, and again while the name is changing hands. It answers the instant of the request too, and for a grant how long
// after it the lease began.
func (s *Store) stand(ctx context.Context, c store.Claim, inbox int64) (out store.Outcome, asked int64, after time.Duration, err error) {
	since := time.Now()
	for try := 0; ; try++ {
		answers, err := change(ctx, s, s.sql.queue, []any{c.Name, c.Holder, micros(c.TTL), inbox}, func(rows pgx.Rows) (*answer, error) {
			var a answer
			err := rows.Scan(append(append([]any{&a.name, &a.token}, a.record.fields()...), &asked)...)
			return &a, err
		})
		if err != nil {
			return store.Outcome{}, 0, 0, err
		}
		a := answers[0]
		age := a.record.age
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
	waiting map[string]chan news // by holder
}

// news are what the first of a line is told.
type news struct {
	asked int64         // the instant of the request that is answered
	after time.Duration // from then to the grant
	grant store.Grant   // with token 0: look again
	waits bool          // the server's commits wait for standbys, unless somebody cancels that
}

func (l *lines) join(holder string) chan news {
	told := make(chan news, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[string]chan news{}
	}
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

// heard passes on a notification to its heir.
func (l *lines) heard(payload string) {
	holder, n, ok := parseNews(payload)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if told := l.waiting[holder]; told != nil {
		delete(l.waiting, holder)
		told <- n
	}
}

// parseNews reads what hand.sql makes: the instant of the request, token, the instant of the grant, mark, whether commits wait for
// standbys, length of the holder, holder and state.
func parseNews(payload string) (holder string, n news, ok bool) {
	fields := strings.SplitN(payload, " ", 7)
	if len(fields) < 7 {
		return "", news{}, false
	}
	var numbers [6]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return "", news{}, false
		}
	}
	const latest = 1 << 53 // in the year 2255; a difference of such instants is a duration
	size, rest := numbers[5], fields[6]
	if size < 0 || size > int64(len(rest)) || min(numbers[0], numbers[2]) < 0 || max(numbers[0], numbers[2]) > latest {
		return "", news{}, false
	}
	state, err := hex.DecodeString(rest[size:])
	if err != nil {
		return "", news{}, false
	}
	n = news{asked: numbers[0], after: time.Duration(numbers[2]-numbers[0]) * µs, waits: numbers[4] != 0, grant: store.Grant{Token: numbers[1], Mark: numbers[3]}}
	if len(state) > 0 {
		n.grant.State = state
	}
	return rest[:size], n, true
}
