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
		return append(keys, b.records+c.Name, peer), append(args, c.Holder, micros(c.TTL), c.Mark, value)
	}
	err := batch(ctx, s, acquireScript, claims, func(c store.Claim) (string, error) { return c.Name, c.Check() }, begin, add,
		func(i int, reply any, acked int, err error) {
			if err == nil {
				if outs[i] = outcome(claims[i].Name, reply); outs[i].Err == nil && s.enough(acked) != nil {
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
	begin := func(b *bucket) ([]string, []any) { return b.indexes(), []any{len(b.records) + 1, b.channel, b.tag} }
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

// retain is how long to keep a record, in µs. What the numbers of Lua cannot add up to exactly is for ever.
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
		switch {
		case err != nil:
			errs[i] = err
		case reply != int64(1):
			errs[i] = store.ErrLost
		case s.waits(with):
			errs[i] = s.enough(acked)
		}
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
			if replies, _ = cmd.reply.([]any); len(replies) != len(of[n]) {
				err = store.AsUnknown(fmt.Errorf("redisstore: the script answered %v", cmd.reply))
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

// mostInScript bounds what one script does, for the server does nothing else meanwhile. What is more goes into further scripts, in one
// round trip with it.
const mostInScript = 1024

// waits says whether replicas must have received what a script has written.
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
	answers, err := bounded(ctx, s, func(ctx context.Context) []answered { return s.run(ctx, calls) })
	if err != nil {
		answers = make([]answered, len(calls))
		for i := range answers {
			answers[i].err = err
		}
	}
	s.refresh(ctx, answers)
	for i, a := range answers {
		err, sure := s.classify(a.err)
		if answers[i].err = err; err != nil && (a.ran || !sure) && !calls[i].script.reads {
			answers[i].err = store.AsUnknown(err)
		}
	}
	return answers
}

// outcome reads an answer of acquire.lua.
func outcome(name string, reply any) store.Outcome {
	fields, _ := reply.([]any)
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i], _ = f.(string)
	}
	switch {
	case len(texts) == 5 && texts[0] == "granted":
		return store.Outcome{Grant: store.Grant{Token: number(texts[1]), Mark: number(texts[2]), State: bytes(texts[3]), Abandoned: span(texts[4])}}
	case len(texts) == 7 && texts[0] == "held":
		return store.Outcome{Err: &store.HeldError{Record: record(name, texts[1:])}}
	case len(texts) == 7 && texts[0] == "done":
		return store.Outcome{Err: &store.DoneError{Record: record(name, texts[1:])}}
	case len(texts) == 1 && texts[0] == "overflow":
		return store.Outcome{Err: fmt.Errorf("redisstore: the tokens of %q are used up", name)}
	}
	return store.Outcome{Err: store.AsUnknown(fmt.Errorf("redisstore: the script answered %v for %q", reply, name))}
}

// record reads holder, token, mark, left, age, state.
func record(name string, f []string) store.Record {
	return store.Record{Name: name, Holder: f[0], Token: number(f[1]), Mark: number(f[2]), Left: span(f[3]), Age: span(f[4]), State: bytes(f[5])}
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // our own script wrote it
	return n
}

func span(text string) time.Duration { return time.Duration(number(text)) * time.Microsecond }

func bytes(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}
