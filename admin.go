package soloist

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// An Admin lists and changes what all clients of a store and namespace do. It is for operators and their tools. It is
// safe for concurrent use.
//
// Each list is an iterator in the order of the names. It yields everything that can be read. An error comes last, with
// a zero value, and names what could not be read; see OnlyUnreadable. A list is not a snapshot: it may show some changes that happen
// meanwhile and not others.
type Admin struct {
	client *Client
	by     string // who makes the changes
	part   part   // what the lists show
}

// A part of the names: those that begin with prefix and come after another one.
type part struct{ prefix, after string }

// escaped returns the part of names that are escaped, and have a slash and more behind them.
func (p part) escaped() part {
	if p.prefix = escape(p.prefix); p.after != "" {
		p.after = afterParts(escape(p.after))
	}
	return p
}

// afterParts returns the text after all that begins with an escaped name and a slash.
func afterParts(escaped string) string { return escaped + string(rune('/'+1)) }

// Admin returns an Admin for the store and namespace of c. The log of actions shows the replica of c as the one that made its changes.
func (c *Client) Admin() *Admin { return &Admin{client: c, by: c.cfg.Replica} }

// By returns a copy of a whose changes are shown as made by who, such as a user for whom a service makes them. It is cut after 128 bytes, and
// what is not UTF-8 is left out.
func (a *Admin) By(who string) *Admin {
	return &Admin{a.client, strings.ToValidUTF8(who[:min(len(who), 128)], ""), a.part}
}

// Part returns a copy of a that lists only names that begin with prefix and come after the name after, which need not exist; "" is before all names. It
// applies to Jobs, Locks, Leaders, Semaphores, ElementJobs and Elements, not to the short lists of replicas and actions. A store that is a
// [store.Pager] does not read the names before: so a long list can be read in pages, each from the last name of the page before.
func (a *Admin) Part(prefix, after string) *Admin { return &Admin{a.client, a.by, part{prefix, after}} }

// view yields the results of calling of with each record whose name begins with prefix and is in a part; of is passed the rest of the
// name. If of cannot read a record, it returns an error, and beside it what it could read.
func view[T any](ctx context.Context, c *core, what, prefix string, p part, of func(name string, r store.Record) (info T, show bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var bad faults
		for r, err := range c.listPart(ctx, prefix, p) {
			if err != nil {
				bad.add(err)
				break
			}
			info, show, err := of(strings.TrimPrefix(r.Name, prefix), r)
			bad.add(err)
			if show && !yield(info, nil) {
				return
			}
		}
		if err := bad.err(); err != nil {
			var none T
			yield(none, fmt.Errorf("listing %s: %w", what, err))
		}
	}
}

// OnlyUnreadable reports whether an error, of a list of an [Admin], is only about records that something else has written, or has changed: all others are in
// the list. It will be the same until somebody mends or removes these.
func OnlyUnreadable(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each error of a tree is looked at
	case unreadableError, *store.UnreadableError:
		return true
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !OnlyUnreadable(err) })
	case interface{ Unwrap() error }:
		return OnlyUnreadable(e.Unwrap())
	}
	return false
}

// An unreadableError is why a record that the store has returned cannot be read.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

func unreadableRecord(err error) error {
	if err == nil {
		return nil
	}
	return unreadableError{err}
}

// faults collects the errors about single records of a list.
type faults struct {
	first []error
	more  int
	other bool // one that is not counted in first is not about a record that cannot be read
}

// mostFaults is how many faults an error lists at most.
const mostFaults = 10

func (f *faults) add(err error) {
	switch {
	case err == nil:
	case len(f.first) < mostFaults:
		f.first = append(f.first, err)
	default:
		f.more++
		f.other = f.other || !OnlyUnreadable(err)
	}
}

func (f *faults) err() error {
	if f.more > 0 {
		more := fmt.Errorf("and %d more", f.more)
		if !f.other {
			more = unreadableRecord(more)
		}
		return errors.Join(append(f.first, more)...)
	}
	return errors.Join(f.first...)
}
