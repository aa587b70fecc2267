package casstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store/casstore"
)

// A walker is a backend whose Walk a test makes up.
type walker struct {
	casstore.Backend
	walk func(ctx context.Context, cursor string) (next string, err error)
}

func (w walker) Walk(ctx context.Context, cursor string, _ int) ([]casstore.Item, string, error) {
	next, err := w.walk(ctx, cursor)
	return nil, next, err
}

// TestSweepFromALostCursor: a backend that does not know a cursor any more, as after it was upgraded, does not keep sweeps from beginning anew, and one that was only
// away for a while goes on where it was.
func TestSweepFromALostCursor(t *testing.T) {
	away := errors.New("the backend is away")
	var failing int // how many walks from the cursor fail
	var begun []string
	s := casstore.New(walker{newMemory(false), func(_ context.Context, cursor string) (string, error) {
		begun = append(begun, cursor)
		switch {
		case cursor == "":
			return "middle", nil
		case failing > 0:
			failing--
			return "", away
		}
		return "", nil
	}}, casstore.Config{})
	sweep := func(want error) {
		t.Helper()
		if n, err := s.Sweep(t.Context(), 1); n != 0 || !errors.Is(err, want) {
			t.Errorf("got %d, %v, want %v", n, err, want)
		}
	}
	failing = 2
	sweep(away)
	sweep(away)
	sweep(nil)
	failing = 5
	for range 5 {
		sweep(away)
	}
	sweep(nil)
	want := []string{"", "middle", "middle", "middle", "", "middle", "middle", "middle", "", "middle", "middle", "middle"}
	if !slices.Equal(begun, want) {
		t.Errorf("the walks went on from %q, want %q", begun, want)
	}
}

// TestSweepThatHangs: a sweep waits for another one of its process no longer than its own time.
func TestSweepThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var walks atomic.Int32
		s := casstore.New(walker{newMemory(false), func(ctx context.Context, _ string) (string, error) {
			walks.Add(1)
			<-ctx.Done()
			return "", ctx.Err()
		}}, casstore.Config{})
		begun := time.Now()
		after := func(d time.Duration) chan struct{} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				if _, err := s.Sweep(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != d {
					t.Errorf("a sweep of %v: %v after %v", d, err, time.Since(begun))
				}
			}()
			synctest.Wait()
			return done
		}
		first, second := after(time.Hour), after(time.Second)
		<-second
		<-first
		if n := walks.Load(); n != 1 {
			t.Errorf("%d sweeps read something, want only the first: they share where they are", n)
		}
	})
}

// TestInPages: the items that are there come in the order of the names, and nothing is read after an error or the last
// one that is wanted.
func TestInPages(t *testing.T) {
	odd, away := errors.New("it is no record"), errors.New("the backend is away")
	there := map[string]casstore.Item{"a": {Name: "a", Version: "1"}, "c": {Name: "c", Err: odd}, "e": {Name: "e", Version: "1"}}
	for _, c := range []struct {
		failing string // the name whose page cannot be read
		most    int    // how many are wanted
		want    []string
		pages   int
	}{
		{"", 9, []string{"a <nil>", "c <nil>", "e <nil>"}, 3},
		{"", 2, []string{"a <nil>", "c <nil>"}, 2},
		{"d", 9, []string{"a <nil>", " the backend is away"}, 2},
	} {
		pages := 0
		read := func(_ context.Context, names []string) (items []casstore.Item, err error) {
			if pages++; slices.Contains(names, c.failing) {
				return nil, away
			}
			for _, name := range names {
				items = append(items, there[name])
			}
			return items, nil
		}
		var got []string
		for item, err := range casstore.InPages(t.Context(), read, []string{"a", "b", "c", "d", "e"}, 2) {
			if got = append(got, fmt.Sprintf("%s %v", item.Name, err)); len(got) == c.most {
				break
			}
		}
		if !slices.Equal(got, c.want) || pages != c.pages {
			t.Errorf("%+v: %q in %d pages", c, got, pages)
		}
	}
}

// A stubborn is a memory with an item that cannot be deleted. If it is the floor, it cannot be raised either.
type stubborn struct {
	*memory
	item string
	err  error
}

func (s stubborn) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	results, err := s.memory.Write(ctx, slices.DeleteFunc(slices.Clone(changes), func(c casstore.Change) bool { return s.refuses(c) }))
	for i, c := range changes {
		if s.refuses(c) {
			results = slices.Insert(results, i, casstore.Result{Err: s.err})
		}
	}
	return results, err
}

func (s stubborn) refuses(c casstore.Change) bool {
	return c.Name == s.item && (c.Record == nil || c.Name == casstore.FloorName)
}

var errKept = errors.New("that item cannot be deleted")

// TestSweepGoesPastWhatStays: a record that the backend does not delete, as for want of a right, is told, and keeps no other from being forgotten.
func TestSweepGoesPastWhatStays(t *testing.T) {
	for _, sequenced := range []bool{false, true} {
		m := newMemory(false)
		if sequenced {
			m = newSequence()
		}
		var names []string
		for c := 'a'; c <= 'j'; c++ { // a page has three of them, and the first is full of what stays
			names = append(names, string(c))
			m.items[string(c)] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: time.Now().Add(-time.Hour)}
			if c == 'a' || c == 'c' {
				m.items[string(c)] = casstore.Record{Holder: "x", Token: 5, TTL: time.Hour, Write: "w", Granted: time.Now()}
			}
			m.versions[string(c)] = "5"
		}
		s := casstore.New(stubborn{m, "b", errKept}, m.config())
		told := 0
		for range 2 * len(names) {
			if _, err := s.Sweep(t.Context(), 100); errors.Is(err, errKept) {
				told++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		var left []string
		for _, name := range names {
			if m.items[name].Write != "" {
				left = append(left, name)
			}
		}
		if !slices.Equal(left, []string{"a", "b", "c"}) || told < 2 {
			t.Errorf("sequenced %t: %q are left, and %d sweeps told that one cannot be deleted; want a, b and c, and that told again and again", sequenced, left, told)
		}
	}
}

// TestSweepUpToItsLimit: what is left of a page when a sweep has forgotten as many records as it may is looked at by the next one.
func TestSweepUpToItsLimit(t *testing.T) {
	m := newMemory(false)
	for c := 'a'; c <= 'i'; c++ { // three pages
		m.items[string(c)] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: time.Now().Add(-time.Hour)}
	}
	s := casstore.New(m, m.config())
	for i, want := range []string{"cdefghi", "efghi", "ghi", "i", "", ""} {
		n, err := s.Sweep(t.Context(), 2)
		var left []string
		for name := range m.items {
			if name != casstore.FloorName {
				left = append(left, name)
			}
		}
		if slices.Sort(left); strings.Join(left, "") != want || err != nil {
			t.Errorf("sweep %d: %d forgotten, %v, %q are left, want %q", i, n, err, left, want)
		}
	}

	// One that ends with a page reads no other.
	walks, past := 0, time.Now().Add(-time.Hour)
	w := walkedItems{newMemory(false), func() error { walks++; return nil }}
	for _, name := range []string{"a", "b", "c"} {
		w.items[name] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: past}
	}
	if n, err := casstore.New(w, w.config()).Sweep(t.Context(), 3); n != 3 || err != nil || walks != 1 {
		t.Errorf("%d forgotten, %v, and %d pages read, want all of one page", n, err, walks)
	}
}

// TestSweepGoesPastWhatConflicts: a record whose deletion always meets a conflict keeps no other page from being looked at, also by a sweep whose limit it reaches.
func TestSweepGoesPastWhatConflicts(t *testing.T) {
	m := newMemory(false)
	for _, name := range []string{"a", "b", "c", "d"} { // three to a page
		m.items[name] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: time.Now().Add(-time.Hour)}
	}
	n, err := casstore.New(stubborn{m, "a", casstore.ErrConflict}, m.config()).Sweep(t.Context(), 1)
	if left := m.items["d"].Write != ""; n != 1 || err != nil || left {
		t.Errorf("%d forgotten, %v, and the record of the second page is left: %t; want it forgotten", n, err, left)
	}
}

// A refusing backend fails what deletes.
type refusing struct {
	*memory
	err error
}

func (b refusing) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	if changes[0].Record == nil {
		return nil, b.err
	}
	return b.memory.Write(ctx, changes)
}

// TestSweepTellsWhatFailed: a sweep whose request to delete fails reports that, beside the records that cannot be read, and so does one that cannot go on.
func TestSweepTellsWhatFailed(t *testing.T) {
	m, away := newMemory(false), errors.New("the backend is away")
	past := time.Now().Add(-time.Hour)
	m.items["bad"] = casstore.Record{Holder: "x", Token: 1, Mark: -1, Released: true, Write: "w", Forget: past}
	m.items["good"] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: past}
	if n, err := casstore.New(refusing{m, away}, casstore.Config{}).Sweep(background, 10); n != 0 || !errors.Is(err, away) || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("%d forgotten, %v, want both errors", n, err)
	}
	walks := 0
	w := walkedItems{m, func() error {
		if walks++; walks > 1 {
			return away
		}
		return nil
	}}
	if n, err := casstore.New(w, casstore.Config{}).Sweep(background, 10); n != 1 || !errors.Is(err, away) || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("%d forgotten, %v, want one, and both errors", n, err)
	}
}

// A walkedItems is a memory that always has more, and whose Walk may fail.
type walkedItems struct {
	*memory
	fails func() error
}

func (b walkedItems) Walk(ctx context.Context, cursor string, n int) ([]casstore.Item, string, error) {
	if err := b.fails(); err != nil {
		return nil, "", err
	}
	items, _, err := b.memory.Walk(ctx, cursor, n)
	return items, "more", err
}

// A closing backend counts how often it is closed.
type closing struct {
	*memory
	closed int
}

func (b *closing) Close() error { b.closed++; return errKept }

// TestClosedOnce: the backend is closed by the first Close, which has its error, and not again.
func TestClosedOnce(t *testing.T) {
	b := &closing{memory: newMemory(false)}
	s := casstore.New(b, casstore.Config{})
	if first, second := s.Close(), s.Close(); !errors.Is(first, errKept) || second != nil || b.closed != 1 {
		t.Errorf("closed %d times, with %v and %v", b.closed, first, second)
	}
}

// TestPingTellsWhatFailed: a ping fails as the backend does.
func TestPingTellsWhatFailed(t *testing.T) {
	b := &fading{memory: newMemory(false), fails: errKept}
	if err := casstore.New(b, casstore.Config{}).Ping(background); !errors.Is(err, errKept) {
		t.Errorf("got %v", err)
	}
}
