package soloist

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// A credible store checks the results of a store before the client uses them. An impossible result becomes an error
// that names the store, and the outcome is unknown. So a faulty store cannot crash the program or create a lease that
// was not granted.
type credible struct{ store.Store }

// breach returns the error about a result that breaks the contract of package store.
func (s credible) breach(verb, format string, args ...any) error {
	return store.AsUnknown(fmt.Errorf("the store %T breaks its contract: %s answered %s", s.Store, verb, fmt.Sprintf(format, args...)))
}

// Acquire implements store.Store.
func (s credible) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	if err != nil {
		return nil, err
	}
	if len(outs) != len(claims) {
		return nil, s.breach("Acquire", "%d claims with %d outcomes", len(claims), len(outs))
	}
	for i, c := range claims {
		outs[i] = s.outcome("Acquire", c, outs[i])
	}
	return outs, nil
}

// Extend implements store.Store.
func (s credible) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	errs, err := s.Store.Extend(ctx, extensions)
	if err == nil && len(errs) != len(extensions) {
		err = s.breach("Extend", "%d extensions with %d errors", len(extensions), len(errs))
	}
	return errs, err
}

// Release implements store.Store.
func (s credible) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := s.Store.Release(ctx, releases)
	if err == nil && len(errs) != len(releases) {
		err = s.breach("Release", "%d releases with %d errors", len(releases), len(errs))
	}
	return errs, err
}

// chosen checks the result of a Chooser.
func (s credible) chosen(names []string, claim store.Claim, i int, out store.Outcome) (int, store.Outcome) {
	if i < 0 || i >= len(names) {
		return 0, store.Outcome{Err: s.breach("Choose", "the index %d of %d names", i, len(names))}
	}
	claim.Name = names[i]
	return i, s.outcome("Choose", claim, out)
}

// List implements store.Store.
func (s credible) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter implements store.Pager, for every store.
func (s credible) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		last := after
		for r, err := range store.ListAfter(ctx, s.Store, prefix, after) {
			fault := recordFault(r)
			switch {
			case err != nil:
			case !strings.HasPrefix(r.Name, prefix) || r.Name <= last:
				err = s.breach("List", "%q after %q, of the names that begin with %q", r.Name, last, prefix)
			case fault != "":
				err = s.breach("List", "%q with %s", r.Name, fault)
			}
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			if last = r.Name; !yield(r, nil) {
				return
			}
		}
	}
}

// list yields the records of the client's store whose names begin with prefix.
func (c *core) list(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return c.listPart(ctx, prefix, part{})
}

// listPart yields the records of the client's store whose names begin with prefix and are, behind it, in a part of the names.
func (c *core) listPart(ctx context.Context, prefix string, p part) iter.Seq2[store.Record, error] {
	after := ""
	if p.after != "" {
		after = prefix + p.after
	}
	return credible{c.store}.ListAfter(ctx, prefix+p.prefix, after)
}

// outcome returns the outcome of a claim if it is possible, else an outcome with an error.
func (s credible) outcome(verb string, c store.Claim, out store.Outcome) store.Outcome {
	fault := ""
	switch {
	case out.Err != nil:
		fault = refusalFault(c, out.Err)
	case c.Mark < 0:
		fault = "a grant of what is never granted"
	default:
		fault = grantFault(out.Grant)
	}
	if fault != "" {
		return store.Outcome{Err: s.breach(verb, "%q with %s", c.Name, fault)}
	}
	return out
}

func refusalFault(c store.Claim, err error) string {
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		if held == nil {
			return "a HeldError that is nil"
		}
		if held.Overdue < 0 {
			return fmt.Sprintf("what is overdue for another %v", held.Overdue)
		}
		return recordFault(held.Record)
	}
	done, ok := errors.AsType[*store.DoneError](err)
	switch {
	case !ok:
		return ""
	case done == nil:
		return "a DoneError that is nil"
	case c.Mark == 0 || done.Record.Mark < c.Mark:
		return fmt.Sprintf("done with mark %d, and the claim has mark %d", done.Record.Mark, c.Mark)
	}
	return recordFault(done.Record)
}

func grantFault(g store.Grant) string {
	switch {
	case g.Token <= 0:
		return fmt.Sprintf("token %d", g.Token)
	case g.Mark < 0:
		return fmt.Sprintf("mark %d", g.Mark)
	case len(g.State) > store.MaxState:
		return fmt.Sprintf("a state of %d bytes", len(g.State))
	case g.ExpiredAge < 0:
		return fmt.Sprintf("a lease that was abandoned %v ago", g.ExpiredAge)
	}
	return ""
}

func recordFault(r store.Record) string {
	switch {
	case r.Token < 0:
		return fmt.Sprintf("token %d", r.Token)
	case r.Mark < 0:
		return fmt.Sprintf("mark %d", r.Mark)
	case r.Left < 0 || r.Age < 0:
		return fmt.Sprintf("%v left and %v old", r.Left, r.Age)
	case len(r.State) > store.MaxState:
		return fmt.Sprintf("a state of %d bytes", len(r.State))
	}
	return ""
}
