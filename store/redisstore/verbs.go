package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// micros rounds up: nothing ends before its time.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// Acquire is as in store.Store: one script for each part that the names fall into.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs := make([]store.Outcome, len(claims))
	begin := func(b *bucket, n int) []any {
		return append(make([]any, 0, 4+3*n), &b.tag, flag(s.cfg.Wait > 0), s.peerValue())
	}
	add := func(i int, args []any) []any {
		c := &claims[i]
		return append(args, &c.Holder, micros(c.TTL), wanted(c))
	}
	err := batch(ctx, s, s.scripts.acquire, claims, func(c *store.Claim) (string, error) { return c.Name, c.Check() }, begin, add,
		func(i int, replies []any, at, acked int, err error) {
			if err == nil {
				if outs[i] = ranByShedLock(claims[i], s.outcome(claims[i].Name, referred(replies, at))); outs[i].Err == nil {
					err = s.enough(acked)
				}
			}
			if err != nil {
				outs[i] = store.Outcome{Err: err}
			}
		})
	if err != nil {
		return nil, err
	}
	return outs, nil
}

// wanted is what else a claim asks for, "" for nothing: its mark, and what the token must be above.
func wanted(c *store.Claim) string {
	if c.Mark == 0 && c.Above == 0 {
		return ""
	}
	return strconv.FormatInt(c.Mark, 10) + " " + strconv.FormatInt(c.Above, 10)
}

// Extend is as in store.Store.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	begin := func(b *bucket, n int) []any { return append(make([]any, 0, 2+6*n), &b.tag) }
	add := func(i int, args []any) []any {
		e := &extensions[i]
		return append(args, &e.Holder, e.Token, micros(e.TTL), e.Mark, flag(e.State != nil), e.State)
	}
	return alter(ctx, s, s.scripts.extend, extensions, func(e *store.Extension) (string, error) { return e.Name, e.Check() }, begin, add)
}

// Release is as in store.Store. In a cluster all releases are published: a failover could lose the mark that somebody watches, and the subscription
// would not notice.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	begin := func(b *bucket, n int) []any {
		return append(make([]any, 0, 4+4*n), &b.tag, flag(len(s.parts) > 1), s.peerValue())
	}
	add := func(i int, args []any) []any {
		r := &releases[i]
		return append(args, &r.Holder, r.Token, leaving(r), r.State)
	}
	return alter(ctx, s, s.scripts.release, releases, func(r *store.Release) (string, error) { return r.Name, r.Check() }, begin, add)
}

// leaving is what a release leaves besides a state, "" for nothing: linger, mark, whether the state is replaced, and how long to keep the record. What the
// numbers of Lua cannot add up to exactly is forever.
func leaving(r *store.Release) string {
	if r.Linger == 0 && r.Mark == 0 && r.State == nil && r.Retain == 0 {
		return ""
	}
	retain := "inf"
	if r.Retain <= 2*store.MaxTTL {
		retain = strconv.FormatInt(micros(r.Retain), 10)
	}
	return fmt.Sprintf("%d %d %s %s", micros(r.Linger), r.Mark, flag(r.State != nil), retain)
}

// flag is an argument already: to make one of a string would allocate.
func flag(set bool) any {
	if set {
		return "1"
	}
	return "0"
}

func alter[Q any](ctx context.Context, s *Store, with script, asked []Q, check func(*Q) (string, error),
	begin func(*bucket, int) []any, add func(int, []any) []any) ([]error, error) {
	errs := make([]error, len(asked))
	err := batch(ctx, s, with, asked, check, begin, add, func(i int, replies []any, at, acked int, err error) {
		if err == nil && replies[at] != any(int64(1)) {
			name, _ := check(&asked[i])
			err = s.altered(name, replies[at])
		}
		if err == nil && s.waits(with) {
			err = s.enough(acked)
		}
		errs[i] = err
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// batch gives each part that the names fall into its script, and answer the replies with the place of each element's, or why there is none. The error is
// that of all of them.
func batch[Q any](ctx context.Context, s *Store, with script, asked []Q, check func(*Q) (string, error), begin func(*bucket, int) []any,
	add func(int, []any) []any, answer func(i int, replies []any, at, acked int, err error)) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	names := make([]string, len(asked)) // "" for an element that is not valid
	for i := range asked {
		name, err := check(&asked[i])
		if err != nil {
			answer(i, nil, 0, 0, err)
			continue
		}
		names[i] = name
	}
	var calls []call
	var of [][]int // the indices of each call
	for part, members := range s.grouped(names) {
		b := &s.parts[part]
		for some := range slices.Chunk(members, mostInScript) {
			keys, args := make([]string, 0, 2*len(some)), begin(b, len(some))
			for _, i := range some {
				keys, args = s.record(b, names[i], keys), add(i, args)
			}
			calls, of = append(calls, call{script: with, keys: keys, args: args, wait: s.waits(with)}), append(of, some)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	for n, cmd := range s.do(ctx, calls) {
		err := cmd.err
		var replies []any
		if err == nil {
			replies, err = list(cmd.reply, len(of[n]))
			if err = store.AsUnknown(err); err == nil {
				err = s.refusedAll(replies)
			}
		}
		if err != nil && len(of[n]) == len(asked) {
			return err
		}
		for k, i := range of[n] {
			answer(i, replies, k, cmd.acked, err)
		}
	}
	return nil
}

// record adds the key of a name's record, and the one that is shared with other libraries, or the record's again, where there are such.
func (s *Store) record(b *bucket, name string, keys []string) []string {
	keys = append(keys, b.records+name)
	if s.sharing() {
		peer, _ := s.peer(b, name)
		keys = append(keys, peer)
	}
	return keys
}

// refusedAll is the error with which the server has refused all steps of a script alike: it is not about a name.
func (s *Store) refusedAll(replies []any) error {
	text := ""
	for _, reply := range replies {
		fields, _ := reply.([]any)
		if len(fields) != 2 || fields[0] != any("failed") || text != "" && fields[1] != any(text) {
			return nil
		}
		if text, _ = fields[1].(string); text == "" {
			return nil
		}
	}
	return s.failed(text)
}

// mostInScript bounds what one script does, for the server does nothing else meanwhile. What is more goes into further scripts, in one
// round trip with it.
const mostInScript = 1024

// waits reports whether replicas must have received what a script has written.
func (s *Store) waits(with script) bool {
	return s.cfg.Wait > 0 && with.grants
}

// An answered tells what became of a call.
type answered struct {
	reply any
	acked int  // replicas that have received it, as WAIT says
	ran   bool // the script ran, and the error is of what came after it
	err   error
}

// do makes calls and makes our errors of the client's.
func (s *Store) do(ctx context.Context, calls []call) []answered {
	if !s.enter() {
		return slices.Repeat([]answered{{err: store.ErrClosed}}, len(calls))
	}
	defer s.calls.Done()
	answers := s.run(ctx, calls)
	s.refresh(ctx, answers)
	for i, a := range answers {
		err, sure := s.classify(a.err)
		if err = overdue(ctx, err); err != nil && (a.ran || !sure) && !calls[i].script.reads {
			err = store.AsUnknown(err)
		}
		answers[i].err = err
	}
	return answers
}
