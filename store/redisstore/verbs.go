package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// micros rounds up: nothing ends before its time.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// Acquire is as in store.Store: one script for each part that the names fall into.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs := make([]store.Outcome, len(claims))
	begin := func(b *bucket) ([]string, []any) {
		return b.indexes(), []any{len(b.records) + 1, flag(s.cfg.Wait > 0)}
	}
	add := func(b *bucket, i int, keys []string, args []any) ([]string, []any) {
		c := claims[i]
		peer, shared := s.peer(b, c.Name)
		value := ""
		if shared {
			value = s.peerValue(c.Holder)
		}
		return append(keys, b.records+c.Name, peer), append(args, c.Holder, micros(c.TTL), c.Mark, value, c.Above)
	}
	err := batch(ctx, s, acquireScript, claims, func(c store.Claim) (string, error) { return c.Name, c.Check() }, begin, add,
		func(i int, reply any, acked int, err error) {
			if err == nil {
				if outs[i] = ranByShedLock(claims[i], s.outcome(claims[i].Name, reply)); outs[i].Err == nil && s.enough(acked) != nil {
					outs[i] = store.Outcome{Err: s.enough(acked)}
				}
			} else {
				outs[i].Err = err
			}
		})
	if err != nil {
		return nil, err
	}
	return outs, nil
}

// Extend is as in store.Store.
func (s *Store) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	begin := func(*bucket) ([]string, []any) { return nil, nil }
	add := func(b *bucket, i int, keys []string, args []any) ([]string, []any) {
		e := extensions[i]
		peer, _ := s.peer(b, e.Name)
		return append(keys, b.records+e.Name, peer), append(args, e.Holder, e.Token, micros(e.TTL), e.Mark, flag(e.State != nil), e.State)
	}
	return alter(ctx, s, extendScript, extensions, func(e store.Extension) (string, error) { return e.Name, e.Check() }, begin, add)
}

// Release is as in store.Store.
func (s *Store) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	begin := func(b *bucket) ([]string, []any) {
		return b.indexes(), []any{len(b.records) + 1, b.channel, b.tag, s.peerValue("")}
	}
	add := func(b *bucket, i int, keys []string, args []any) ([]string, []any) {
		r := releases[i]
		peer, _ := s.peer(b, r.Name)
		return append(keys, b.records+r.Name, peer),
			append(args, r.Holder, r.Token, micros(r.Linger), r.Mark, flag(r.State != nil), r.State, retain(r.Retain))
	}
	return alter(ctx, s, releaseScript, releases, func(r store.Release) (string, error) { return r.Name, r.Check() }, begin, add)
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// retain is how long to keep a record, in µs. What the numbers of Lua cannot add up to exactly is forever.
func retain(d time.Duration) any {
	if d > 2*store.MaxTTL {
		return "inf"
	}
	return micros(d)
}

func alter[Q any](ctx context.Context, s *Store, with script, asked []Q, check func(Q) (string, error),
	begin func(*bucket) ([]string, []any), add func(*bucket, int, []string, []any) ([]string, []any)) ([]error, error) {
	errs := make([]error, len(asked))
	err := batch(ctx, s, with, asked, check, begin, add, func(i int, reply any, acked int, err error) {
		if err == nil {
			name, _ := check(asked[i])
			err = s.altered(name, reply)
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

// batch gives each part that the names fall into its script, and answer the reply for each element, or why there is none. The error is
// that of all of them.
func batch[Q any](ctx context.Context, s *Store, with script, asked []Q, check func(Q) (string, error), begin func(*bucket) ([]string, []any),
	add func(*bucket, int, []string, []any) ([]string, []any), answer func(int, any, int, error)) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	var valid []int
	var names []string
	for i, q := range asked {
		name, err := check(q)
		if err != nil {
			answer(i, nil, 0, err)
			continue
		}
		valid, names = append(valid, i), append(names, name)
	}
	if len(valid) == 0 {
		return nil
	}
	var calls []call
	var of [][]int // the indices of each call
	parts, members := s.grouped(len(valid), func(i int) string { return names[i] })
	for _, part := range parts {
		b := &s.parts[part]
		for some := range slices.Chunk(members[part], mostInScript) {
			keys, args := begin(b)
			indices := make([]int, len(some))
			for k, m := range some {
				indices[k] = valid[m]
				keys, args = add(b, valid[m], keys, args)
			}
			calls, of = append(calls, call{with, keys, args, s.waits(with)}), append(of, indices)
		}
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
			if err != nil {
				answer(i, nil, 0, err)
			} else {
				answer(i, replies[k], cmd.acked, nil)
			}
		}
	}
	return nil
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
	return s.cfg.Wait > 0 && (with == acquireScript || with == extendScript || with == chooseScript)
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
