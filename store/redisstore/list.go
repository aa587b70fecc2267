package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/soloist-dev/soloist/store"
)

const pageSize = 200 // records

// List is as in store.Store. It reads the index of names page by page, never the whole key space.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := s.alive(ctx); err != nil {
			yield(store.Record{}, err)
			return
		}
		pages := make([]page, len(s.parts))
		for i := range pages {
			pages[i] = page{from: "[" + prefix}
		}
		for {
			if err := s.fill(ctx, prefix, pages); err != nil {
				yield(store.Record{}, err)
				return
			}
			next := -1 // the part with the least name
			for i := range pages {
				if len(pages[i].records) > 0 && (next < 0 || pages[i].records[0].Name < pages[next].records[0].Name) {
					next = i
				}
			}
			if next < 0 || !yield(pages[next].records[0], nil) {
				return
			}
			pages[next].records = pages[next].records[1:]
		}
	}
}

// A page is what has been read of a part and not been yielded.
type page struct {
	from    string // where the next begins, for ZRANGEBYLEX
	last    bool
	records []store.Record
}

// fill reads the next pages of the parts that have none, in one pipeline.
func (s *Store) fill(ctx context.Context, prefix string, pages []page) error {
	to := "+"
	if end := after(prefix); end != "" {
		to = "(" + end
	}
	for {
		var which []int
		var calls []call
		for i, p := range pages {
			if len(p.records) == 0 && !p.last {
				b := &s.parts[i]
				which = append(which, i)
				calls = append(calls, call{listScript, []string{b.names}, []any{p.from, to, pageSize, b.records}, false})
			}
		}
		if len(calls) == 0 {
			return nil
		}
		if err := s.alive(ctx); err != nil {
			return err
		}
		for n, answer := range s.do(ctx, calls) {
			if answer.err != nil {
				return answer.err
			}
			pages[which[n]].read(answer.reply)
		}
	}
}

// read takes an answer of list.lua.
func (p *page) read(reply any) {
	rows, _ := reply.([]any)
	for _, row := range rows {
		fields, _ := row.([]any)
		texts := make([]string, len(fields))
		for i, f := range fields {
			texts[i], _ = f.(string)
		}
		if len(texts) == 7 {
			p.records = append(p.records, record(texts[0], texts[1:]))
		}
		if len(texts) > 0 {
			p.from = "(" + texts[0]
		}
	}
	p.last = len(rows) < pageSize
}

// after answers the least text that is greater than all that begin with prefix, "" if there is none.
func after(prefix string) string {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return ""
	}
	end[len(end)-1]++
	return string(end)
}

// Choose is as in store.Chooser: in one script, or in a cluster in one for each part that the names fall into.
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Outcome, error) {
	if err := s.alive(ctx); err != nil {
		return 0, store.Outcome{}, err
	}
	if err := store.CheckChoice(names, claim); err != nil {
		return 0, store.Outcome{Err: err}, nil
	}
	parts, members := s.grouped(len(names), func(i int) string { return names[i] })
	if len(parts) > 1 { // one of the names that come later may be the holder's already
		if i, out, err := s.chooseIn(ctx, names, claim, parts, members, true); err != nil || i >= 0 {
			return max(0, i), out, err
		}
	}
	return s.chooseIn(ctx, names, claim, parts, members, false)
}

// chooseIn goes through the parts until one grants. With own it only looks for what the holder has, and the index is -1 if that is nothing.
func (s *Store) chooseIn(ctx context.Context, names []string, claim store.Claim, parts []int, members map[int][]int, own bool) (int, store.Outcome, error) {
	best := store.Outcome{}
	at := -1
	for _, part := range parts {
		b := &s.parts[part]
		keys := b.indexes()
		for _, m := range members[part] {
			peer, _ := s.peer(b, names[m])
			keys = append(keys, b.records+names[m], peer)
		}
		args := []any{len(b.records) + 1, claim.Holder, micros(claim.TTL), flag(own), flag(s.waits(chooseScript)), s.peerValue(claim.Holder)}
		answer := s.do(ctx, []call{{chooseScript, keys, args, s.waits(chooseScript)}})[0]
		if answer.err != nil {
			return 0, store.Outcome{}, answer.err
		}
		fields, _ := answer.reply.([]any)
		index := int64(-1)
		if len(fields) > 0 {
			index, _ = fields[0].(int64)
		}
		if index < 0 {
			continue
		}
		i := members[part][index]
		out := outcome(names[i], fields[1:])
		if out.Err == nil && s.waits(chooseScript) && s.enough(answer.acked) != nil {
			out = store.Outcome{Err: s.enough(answer.acked)}
		}
		if out.Err == nil || !errors.Is(out.Err, store.ErrHeld) {
			return i, out, nil
		}
		if at < 0 || left(out) < left(best) {
			at, best = i, out
		}
	}
	return at, best, nil
}

func left(out store.Outcome) int64 {
	var held *store.HeldError
	_ = errors.As(out.Err, &held)
	return int64(held.Record.Left)
}

// Sweep is as in store.Sweeper.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := s.alive(ctx); err != nil {
		return 0, err
	}
	const most = 200 // in one script, for it keeps everybody else waiting
	forgotten := 0
	for _, b := range slices.All(s.parts) {
		for more := true; more && forgotten < limit; {
			answer := s.do(ctx, []call{{sweepScript, b.indexes(), []any{min(most, limit-forgotten), b.records, b.tag}, false}})[0]
			if answer.err != nil {
				return forgotten, answer.err
			}
			fields, _ := answer.reply.([]any)
			if len(fields) != 2 {
				return forgotten, fmt.Errorf("redisstore: the script answered %v", answer.reply)
			}
			n, _ := fields[0].(int64)
			forgotten += int(n)
			more = fields[1] == int64(1)
		}
	}
	return forgotten, nil
}
