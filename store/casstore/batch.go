package casstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// attempts is how often a change is decided again after a conflict. Each conflict means that another client succeeded,
// so after that many the caller gets a *HeldError.
const attempts = 16

// retryAfter is the pause before the next claim after that many conflicts.
const retryAfter = 10 * time.Millisecond

// A task is one element of a batch. It decides what to write from the current item.
type task struct {
	name string

	// decide returns the record to write, nil if there is nothing to write and the task has succeeded, or the error with
	// which it failed. It may be called several times; the last call counts.
	decide func(sight) (*Record, error)

	// guess, if not nil, reports whether decide would write something. Then a remembered item need not be read again: the
	// condition of the write checks that it has not changed.
	guess func(sight) bool

	// takes is set for a claim, which any free item may be given to; see Change.Free. below is its mark.
	takes bool
	below int64

	err  error // the outcome
	seen sight // the item after the task, if err is nil
}

// A group has the tasks of one name, in the order of their batch. They are carried out in one step.
type group struct {
	name   string
	tasks  []*task
	guess  bool   // what is known of the item is remembered, and was not read for this batch
	change Change // under way
	first  int    // the first task that changes something
	end    int    // the tasks from here on are decided when the version of the change is known, which is its token
}

// run carries out the tasks of a batch: it reads the items it needs in one request, writes in another, and repeats that
// for the items that another client changed meanwhile.
func (s *Store) run(ctx context.Context, tasks []*task) {
	var groups []*group
	byName := map[string]*group{}
	for _, t := range tasks {
		g := byName[t.name]
		if g == nil {
			g = &group{name: t.name}
			byName[t.name] = g
			groups = append(groups, g)
		}
		g.tasks = append(g.tasks, t)
	}
	known := map[*group]sight{}
	for _, g := range groups {
		if seen, ok := s.guessed(g); ok {
			known[g], g.guess = seen, true
		}
	}
	for range attempts {
		groups = s.look(ctx, groups, known)
		if groups = s.write(ctx, groups, known); len(groups) == 0 {
			return
		}
	}
	for _, g := range groups {
		g.fail(&store.HeldError{Record: store.Record{Name: g.name, Left: retryAfter}})
	}
}

// fail ends all tasks, starting with the first that changes something, with an error.
func (g *group) fail(err error) {
	for _, t := range g.tasks[g.first:] {
		t.err = err
	}
}

// guessed returns the remembered item of a name, if it is enough for a first attempt.
func (s *Store) guessed(g *group) (sight, bool) {
	seen, ok := s.sights.of(g.name)
	if !ok {
		seen = sight{item: Item{Name: g.name}, at: time.Now()}
	}
	return seen, (ok || s.cfg.CreateFirst || s.cfg.TakeFree) && g.tasks[0].guess != nil && g.tasks[0].guess(seen)
}

// look reads the items that are not known. It returns the groups that can continue.
func (s *Store) look(ctx context.Context, groups []*group, known map[*group]sight) (rest []*group) {
	var names []string
	for _, g := range groups {
		if _, ok := known[g]; !ok {
			names = append(names, g.name)
		}
	}
	if len(names) == 0 {
		return groups
	}
	items, err := s.read(ctx, names)
	for _, g := range groups {
		if _, ok := known[g]; !ok {
			readErr := err
			if err == nil {
				if readErr = items[0].Err; readErr == nil {
					known[g] = s.sights.see(items[0])
				}
				items = items[1:]
			}
			if readErr != nil {
				g.first = 0
				g.fail(readErr)
				continue
			}
		}
		rest = append(rest, g)
	}
	return rest
}

// read reads items and checks that the backend returned as many.
func (s *Store) read(ctx context.Context, names []string) ([]Item, error) {
	items, err := s.backend.Read(ctx, names)
	if err == nil && len(items) != len(names) {
		err = fmt.Errorf("casstore: the backend returned %d items for %d names", len(items), len(names))
	}
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		items[i] = s.checked(name, items[i])
	}
	return items, nil
}

// change carries out changes and checks that the backend returned as many results.
func (s *Store) change(ctx context.Context, changes []Change) ([]Result, error) {
	results, err := s.backend.Write(ctx, changes)
	if err == nil && len(results) != len(changes) {
		err = store.AsUnknown(fmt.Errorf("casstore: the backend returned %d results for %d changes", len(results), len(changes)))
	}
	return results, err
}

// checked returns an item of a name as the backend returned it, with its token, and with an error if no store has written it.
func (s *Store) checked(name string, item Item) Item {
	item.Name = name
	if s.cfg.Sequenced && item.Record.Token == 0 {
		item.Record.Token, _ = strconv.ParseInt(item.Version, 10, 64)
	}
	if item.Err == nil && item.Version != "" {
		item.Err = credible(name, item.Record)
	}
	return item
}

// credible returns an error for a record that no store has written. A time that has no text could not be written again.
func credible(name string, r Record) error {
	var problem string
	switch {
	case r.Token <= 0:
		problem = fmt.Sprintf("the token %d", r.Token)
	case r.Mark < 0:
		problem = fmt.Sprintf("the mark %d", r.Mark)
	case r.TTL < 0 || r.TTL > store.MaxTTL:
		problem = fmt.Sprintf("the TTL %v", r.TTL)
	case !r.Released && r.TTL < store.MinTTL:
		problem = fmt.Sprintf("a lease with the TTL %v", r.TTL)
	case r.Holder == "":
		problem = "no holder"
	case store.CheckName(r.Holder) != nil: // holders and names have the same limits
		problem = fmt.Sprintf("the holder %.60q", r.Holder)
	case !writable(r.Granted) || !writable(r.Forget):
		problem = "a time that cannot be written"
	case len(r.State) > store.MaxState:
		problem = fmt.Sprintf("a state of %d bytes", len(r.State))
	default:
		return nil
	}
	return fmt.Errorf("the record of %q has %s: something else has written it; delete it when nobody holds the name", name, problem)
}

// writable reports whether an instant has a text in UTC, which ends with the year 9999.
func writable(t time.Time) bool { year := t.UTC().Year(); return year >= 0 && year <= 9999 }

// write decides tasks with the known items and writes the results. It returns the groups that met a conflict or have nothing to write by what is
// remembered, and updates known with the items that the conflicts returned.
func (s *Store) write(ctx context.Context, groups []*group, known map[*group]sight) (again []*group) {
	var writing []*group
	var changes []Change
	for _, g := range groups {
		changed := s.decide(g, known[g])
		switch {
		case changed:
			writing, changes = append(writing, g), append(changes, g.change)
		case g.guess: // what is remembered may be old: only the item can refuse
			again = append(again, g)
		}
		g.guess = false
	}
	if len(changes) == 1 && s.cfg.TakeFree {
		if g := writing[0]; len(g.tasks) == 1 && g.tasks[0].takes && takeable(known[g].item, g.change.Record) {
			g.change.Free, g.change.Below = true, g.tasks[0].below
			changes[0] = g.change
		}
	}
	clear(known)
	if len(changes) == 0 {
		return again
	}
	results, err := s.change(ctx, changes)
	for i, g := range writing {
		switch {
		case err != nil:
			g.fail(err)
		case !s.written(g, results[i], known):
			again = append(again, g)
		}
	}
	return again
}

// decide lets the tasks of a name decide one after the other, each with the result of those before. It reports whether
// there is something to write.
func (s *Store) decide(g *group, seen sight) (changes bool) {
	version := seen.item.Version
	if before := g.change.Record; before != nil && version != "" && seen.item.Record.Write == before.Write {
		if seen = s.succeed(g, g.change.made(seen.item)); g.ended() { // the request was carried out twice, and the reply was that of the second time
			return false
		}
	}
	g.change, g.first, g.end = Change{}, 0, len(g.tasks)
	for i, t := range g.tasks {
		var record *Record
		if record, t.err = t.decide(seen); t.err != nil {
			continue
		}
		if record != nil {
			s.stamp(record)
			if g.change.Record == nil {
				g.first = i
			}
			g.change = Change{Name: g.name, Version: version, Record: record}
			seen = sight{item: Item{Name: g.name, Version: record.Write, Record: *record}, at: time.Now()}
		}
		t.seen = seen
		if seen.item.Version != "" && seen.item.Record.Token == 0 {
			g.end = i + 1
			break
		}
	}
	return g.change.Record != nil
}

// takeable reports whether a change from an item to a record is one that Change.Free can make.
func takeable(from Item, to *Record) bool {
	r := from.Record
	return from.Version == "" || r.Released && r.TTL == 0 && to.Token == r.Token+1
}

// written ends the tasks of a name with the result of their change. It reports false if they must be decided again.
func (s *Store) written(g *group, r Result, known map[*group]sight) bool {
	switch {
	case r.Err == nil && r.Version == "":
		g.fail(store.AsUnknown(errors.New("casstore: the backend returned no version for a change")))
	case r.Err == nil && g.change.Free:
		if err := s.granted(g.change, r.Current); err != nil {
			g.fail(store.AsUnknown(err))
			return true
		}
		known[g] = s.succeed(g, g.change.made(*r.Current))
		return g.ended()
	case r.Err == nil:
		known[g] = s.succeed(g, Item{Version: r.Version, Record: *g.change.Record})
		return g.ended()
	case !errors.Is(r.Err, ErrConflict):
		if r.Current != nil && s.checked(g.name, *r.Current).Err == nil {
			s.sights.see(s.checked(g.name, *r.Current))
		}
		g.fail(r.Err)
	case r.Current == nil:
		return false
	case s.checked(g.name, *r.Current).Err != nil:
		g.fail(s.checked(g.name, *r.Current).Err)
	case r.Current.Version != "" && r.Current.Record.Write == g.change.Record.Write:
		known[g] = s.succeed(g, g.change.made(*r.Current)) // as in decide
		return g.ended()
	default:
		known[g] = s.sights.see(s.checked(g.name, *r.Current))
		return false
	}
	return true
}

// ended reports whether all tasks of a name are decided when its change has taken effect. If not, the group continues with the others.
func (g *group) ended() bool {
	g.tasks, g.change, g.first = g.tasks[g.end:], Change{}, 0
	return len(g.tasks) == 0
}

// granted returns an error if an item cannot be what a change of a free item has made.
func (s *Store) granted(c Change, now *Item) error {
	if now == nil {
		return fmt.Errorf("casstore: the backend did not return the item %q, which it has changed", c.Name)
	}
	if item := s.checked(c.Name, *now); item.Err != nil {
		return item.Err
	}
	if r := now.Record; r.Write != c.Record.Write || r.Token < c.Record.Token || c.Below != 0 && r.Mark >= c.Below {
		return fmt.Errorf("casstore: the backend returned an item %q which is not the one that it was asked to make", c.Name)
	}
	return nil
}

// made returns the item that a change has made, which has been read since. Of one that had its record all in itself that is not needed.
func (c Change) made(now Item) Item {
	r := *c.Record
	if c.Free {
		r.Token, r.Mark, r.State, r.Unsure = now.Record.Token, now.Record.Mark, now.Record.State, now.Record.Unsure
	}
	return Item{Version: now.Version, Record: r}
}

// succeed notes that a change has taken effect, and returns the item.
func (s *Store) succeed(g *group, now Item) sight {
	seen := s.sights.see(s.checked(g.name, now))
	for _, t := range g.tasks[g.first:] {
		if t.seen.item.Record.Write == g.change.Record.Write {
			t.seen = seen
		}
	}
	return seen
}
