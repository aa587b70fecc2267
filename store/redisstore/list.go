package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/tokens"
)

const pageSize = 200 // records

// listOwn lists the records whose names come after a text, by the index of their names.
func (s *Store) listOwn(ctx context.Context, prefix, last string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := s.alive(ctx); err != nil {
			yield(store.Record{}, err)
			return
		}
		pages := make([]page, len(s.parts))
		for i := range pages {
			if pages[i] = (page{from: "[" + prefix}); last >= prefix {
				pages[i].from = "(" + last
			}
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
			if next < 0 {
				if err := troubles(pages); err != nil {
					yield(store.Record{}, err)
				}
				return
			}
			if !yield(pages[next].records[0], nil) {
				return
			}
			pages[next].records = pages[next].records[1:]
		}
	}
}

// troubles reports the names whose records could not be read.
func troubles(pages []page) error {
	var all []error
	for _, p := range pages {
		all = append(all, p.troubles...)
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(err error) bool { return !errors.As(err, new(*CorruptError)) }) {
		return few(all) // it may be read later
	}
	return &store.UnreadableError{Err: few(all)}
}

// few joins errors, of which it names the first only if they are many.
func few(errs []error) error {
	const most = 5
	if more := len(errs) - most; more > 0 {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// A page is what has been read of a part and not been yielded.
type page struct {
	from     string // where the next begins, for ZRANGEBYLEX
	last     bool
	records  []store.Record
	troubles []error // of names whose records cannot be read
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
				calls = append(calls, call{script: s.scripts.list, keys: []string{b.names}, args: []any{&b.tag, p.from, to, pageSize}})
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
			if err := pages[which[n]].read(s, prefix, answer.reply); err != nil {
				return err
			}
		}
	}
}

// read takes an answer of list.lua, whose names come in order.
func (p *page) read(s *Store, prefix string, reply any) error {
	rows, err := list(reply, -1)
	if err != nil {
		return err
	}
	if len(rows) > pageSize {
		return malformed("%d records instead of at most %d", len(rows), pageSize)
	}
	for _, fields := range rows {
		if err := p.take(s, prefix, fields); err != nil {
			return err
		}
	}
	p.last = len(rows) < pageSize
	return nil
}

// take reads one record, or why there is none.
func (p *page) take(s *Store, prefix string, fields any) error {
	all, err := list(fields, -1)
	if err != nil {
		return err
	}
	r := &row{fields: all}
	name := r.text("name", math.MaxInt)
	if r.err == nil && (!strings.HasPrefix(name, prefix) || p.from != "["+prefix && "("+name <= p.from) {
		r.err = malformed("the name %q is none that was asked for, or is out of order", name)
	}
	switch {
	case len(name) > store.MaxName: // somebody else has written it into the index
		p.from = "(" + name
		return nil
	case len(all) == 1: // it is there no more
	case len(all) == 7:
		record := r.record(name)
		if r.err == nil && record.Token == 0 {
			r.err = malformed("the record of %q has no token", name)
		}
		p.records = append(p.records, record)
	default:
		p.troubles = append(p.troubles, s.trouble(name, r.text("word", 16), r))
	}
	p.from = "(" + name
	return r.end()
}

// after returns the least text that is greater than all that begin with prefix, "" if there is none.
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
func (s *Store) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if err := s.alive(ctx); err != nil {
		return 0, store.Grant{}, err
	}
	if err := store.CheckChoice(names, claim); err != nil {
		return 0, store.Grant{}, err
	}
	if s.scattered(names) { // one of the names that come later may be the holder's already
		if i, grant, err := s.chooseIn(ctx, names, claim, true); err != nil || i >= 0 {
			return max(0, i), grant, err
		}
	}
	return s.chooseIn(ctx, names, claim, false)
}

// chooseIn goes through the parts until one grants. With own it only looks for what the holder has, and the index is -1 if that is nothing.
func (s *Store) chooseIn(ctx context.Context, names []string, claim store.Claim, own bool) (int, store.Grant, error) {
	var best, spoiled store.Outcome
	at, bad := -1, -1
	for part, members := range s.grouped(names) {
		i, out, err := s.chooseOf(ctx, &s.parts[part], names, members, claim, own)
		if err != nil {
			return 0, store.Grant{}, err
		}
		if i < 0 {
			continue
		}
		switch {
		case out.Err == nil || errors.Is(out.Err, store.ErrUnknown):
			return i, out.Grant, out.Err
		case !errors.Is(out.Err, store.ErrHeld): // all that this part has are of no use
			bad, spoiled = i, out
		case at < 0 || left(out) < left(best):
			at, best = i, out
		}
	}
	if at < 0 {
		return bad, store.Grant{}, spoiled.Err
	}
	return at, best.Grant, best.Err
}

// chooseOf chooses of the names of one part. The index is -1 if with own none of them is the holder's.
func (s *Store) chooseOf(ctx context.Context, b *bucket, names []string, members []int, claim store.Claim, own bool) (int, store.Outcome, error) {
	with := s.scripts.choose
	keys := make([]string, 0, 2*len(members))
	for _, m := range members {
		keys = s.record(b, names[m], keys)
	}
	args := []any{&b.tag, claim.Holder, micros(claim.TTL), flag(own), flag(s.waits(with)), s.peerValue()}
	answer := s.do(ctx, []call{{script: with, keys: keys, args: args, wait: s.waits(with)}})[0]
	if answer.err != nil {
		return 0, store.Outcome{}, answer.err
	}
	fields, err := list(answer.reply, -1)
	if err != nil || len(fields) == 0 {
		return 0, store.Outcome{}, store.AsUnknown(errors.Join(err, malformed("nothing is chosen")))
	}
	index, ok := fields[0].(int64)
	if own && ok && index == -1 && len(fields) == 1 {
		return -1, store.Outcome{}, nil
	}
	if !ok || index < 0 || index >= int64(len(members)) || len(fields) != 2 {
		return 0, store.Outcome{}, store.AsUnknown(malformed("%s is none of the %d names to choose from", shown(fields[0]), len(members)))
	}
	i := members[index]
	out := s.outcome(names[i], fields[1])
	if out.Err == nil && s.waits(with) {
		if err := s.enough(answer.acked); err != nil {
			out = store.Outcome{Err: err}
		}
	}
	return i, out, nil
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
	var left []error
	for _, b := range slices.All(s.parts) {
		for more := true; more && forgotten < limit; {
			args := []any{&b.tag, min(most, limit-forgotten), int64(exact - tokens.Spared)}
			answer := s.do(ctx, []call{{script: s.scripts.sweep, keys: []string{b.due}, args: args}})[0]
			if answer.err != nil {
				return forgotten, answer.err
			}
			var n int
			var err error
			if n, more, err = s.swept(answer.reply, min(most, limit-forgotten), &left); err != nil {
				return forgotten, err
			}
			forgotten += n
		}
	}
	return forgotten, few(left)
}

// swept reads an answer of sweep.lua: how many were forgotten, of at most limit, whether there may be more, and what is left because it
// cannot be read.
func (s *Store) swept(reply any, limit int, left *[]error) (forgotten int, more bool, err error) {
	fields, err := list(reply, 3)
	if err != nil {
		return 0, false, err
	}
	n, ok := fields[0].(int64)
	again, ok2 := fields[1].(int64)
	troubles, err := list(fields[2], -1)
	if err != nil || !ok || !ok2 || n < 0 || n > int64(limit) || again < 0 || again > 1 || len(troubles) > limit {
		return 0, false, malformed("%s, %s and %s of a sweep of at most %d", shown(fields[0]), shown(fields[1]), shown(fields[2]), limit)
	}
	for _, trouble := range troubles {
		all, err := list(trouble, -1)
		if err != nil {
			return 0, false, err
		}
		r := &row{fields: all}
		*left = append(*left, s.trouble("", r.text("word", 16), r))
		if err := r.end(); err != nil {
			return 0, false, err
		}
	}
	return int(n), again == 1, nil
}
