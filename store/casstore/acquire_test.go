package casstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/tokens"
)

var background = context.Background()

func acquire(t *testing.T, s store.Store, c store.Claim) (store.Grant, error) {
	t.Helper()
	outcomes, err := s.Acquire(background, []store.Claim{c})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0].Grant, outcomes[0].Err
}

func release(t *testing.T, s store.Store, r store.Release) error {
	t.Helper()
	errs, err := s.Release(background, []store.Release{r})
	if err != nil {
		t.Fatal(err)
	}
	return errs[0]
}

// TestRequests: what each verb costs.
func TestRequests(t *testing.T) {
	for _, test := range []struct {
		of                         *memory
		first, again, refused, end int
		others                     int // of a name that others have had since
	}{
		{of: newMemory(false), first: 3, again: 1, refused: 1, end: 1, others: 2}, // read, make, and the floor
		{of: newMemory(true), first: 2, again: 1, refused: 1, end: 1, others: 2},
		{of: newTaker(), first: 2, again: 1, refused: 1, end: 1, others: 1},
		{of: newSequence(), first: 2, again: 1, refused: 1, end: 1, others: 2}, // there is no floor
	} {
		m := test.of
		s, other := open(m), open(m)
		counted := func(what string, want int, f func()) {
			t.Helper()
			before := m.requests
			f()
			if got := m.requests - before; got != want {
				t.Errorf("%s takes %d requests, want %d", what, got, want)
			}
		}
		var g store.Grant
		claim := store.Claim{Name: "a", Holder: "x", TTL: time.Hour}
		counted("a new name", test.first, func() { g, _ = acquire(t, s, claim) })
		counted("a refusal", test.refused, func() { _, _ = acquire(t, s, store.Claim{Name: "a", Holder: "y", TTL: time.Hour}) })
		counted("a renewal", 1, func() {
			_, _ = s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: g.Token, TTL: time.Hour}})
		})
		counted("a release", test.end, func() { _ = release(t, s, store.Release{Name: "a", Holder: "x", Token: g.Token, Retain: time.Hour}) })
		claim.Holder = "z"
		counted("a name that was released here", test.again, func() { g, _ = acquire(t, s, claim) })
		_ = release(t, s, store.Release{Name: "a", Holder: "z", Token: g.Token, Retain: time.Hour})
		claim.Holder = "o"
		counted("a name that is known to another process", test.others, func() { g, _ = acquire(t, other, claim) })
		_ = release(t, other, store.Release{Name: "a", Holder: "o", Token: g.Token, Retain: time.Hour})
		claim.Holder = "p"
		if test.others == 1 { // without it the first attempt is for what this process has seen, and the second, after a read perhaps, is the one
			counted("a name that another process has had since", 1, func() { _, _ = acquire(t, s, claim) })
		}
		counted("a sweep that finds nothing to forget", 0, func() { // beside the pages that it walks
			if n, err := s.Sweep(background, 10); n != 0 || err != nil {
				t.Errorf("%d forgotten, %v", n, err)
			}
		})
	}
}

// TestNewcomerWaitsForAWholeTTL: a process cannot know for how long an item has been as it is.
func TestNewcomerWaitsForAWholeTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(true)
		if _, err := acquire(t, open(m), store.Claim{Name: "a", Holder: "dead", TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		newcomer := open(m)
		claim := store.Claim{Name: "a", Holder: "b", TTL: time.Minute}
		_, err := acquire(t, newcomer, claim)
		held := (*store.HeldError)(nil)
		if !errors.As(err, &held) || held.Record.Left != time.Minute {
			t.Fatalf("got %v, want held for a minute", err)
		}
		time.Sleep(time.Minute)
		g, err := acquire(t, newcomer, claim)
		if err != nil || g.ExpiredAge != time.Hour+time.Minute {
			t.Errorf("got %+v, %v, want a grant that reports the lease before", g, err)
		}
	})
}

// TestNewcomerWaitsForAWholeLinger: nor for how long it has been released.
func TestNewcomerWaitsForAWholeLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(true)
		s := open(m)
		g, err := acquire(t, s, store.Claim{Name: "a", Holder: "a", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := release(t, s, store.Release{Name: "a", Holder: "a", Token: g.Token, Linger: time.Minute, Retain: time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		newcomer := open(m)
		claim := store.Claim{Name: "a", Holder: "b", TTL: time.Minute}
		_, err = acquire(t, newcomer, claim)
		held := (*store.HeldError)(nil)
		if !errors.As(err, &held) || held.Record.Left != time.Minute {
			t.Fatalf("got %v, want taken for a minute", err)
		}
		if _, err := acquire(t, s, store.Claim{Name: "a", Holder: "c", TTL: store.MinTTL}); err != nil {
			t.Errorf("who has released it: %v", err)
		}
	})
}

// TestOverdue: a refusal tells how long it takes until this process sees that a lease or a linger is over, if it is by the time of the last write, and not of the grant.
func TestOverdue(t *testing.T) {
	for name, backend := range map[string]func() *memory{"counter": func() *memory { return newMemory(true) }, "takes free": newTaker, "sequence": newSequence} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := backend()
				s := open(m)
				claim := func(name string, ttl time.Duration) store.Claim {
					return store.Claim{Name: name, Holder: "h", TTL: ttl}
				}
				g, err := acquire(t, s, claim("a", time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				overdue := func(s store.Store, want time.Duration) {
					t.Helper()
					_, err := acquire(t, s, store.Claim{Name: "a", Holder: "other", TTL: time.Minute})
					held := (*store.HeldError)(nil)
					if !errors.As(err, &held) || held.Overdue != want {
						t.Fatalf("got %+v, want refused and overdue for %v", err, want)
					}
				}
				time.Sleep(59 * time.Second)
				if errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "h", Token: g.Token, TTL: time.Minute}}); err != nil || errs[0] != nil {
					t.Fatal(err, errs)
				}
				time.Sleep(59 * time.Second) // nearly two minutes since the grant
				overdue(open(m), 0)
				time.Sleep(time.Second)
				newcomer := open(m)
				overdue(newcomer, time.Minute)
				time.Sleep(20 * time.Second)
				overdue(newcomer, 40*time.Second)
				if errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "h", Token: g.Token, Linger: time.Hour}}); err != nil || !errors.Is(errs[0], store.ErrLost) {
					t.Fatal(err, errs)
				}
				time.Sleep(40 * time.Second)
				if g, err = acquire(t, newcomer, claim("a", time.Minute)); err != nil {
					t.Fatal(err)
				}
				if err := release(t, newcomer, store.Release{Name: "a", Holder: "h", Token: g.Token, Linger: time.Hour}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(59 * time.Minute)
				overdue(newcomer, 0)
				overdue(open(m), 0)
				time.Sleep(time.Minute)
				overdue(open(m), time.Hour)

				// Of several names, the first that can be found over is told beside the first that may be free.
				if _, err := acquire(t, open(m), claim("b", time.Second)); err != nil {
					t.Fatal(err)
				}
				_, _, err = open(m).Choose(background, []string{"a", "b"}, store.Claim{Holder: "other", TTL: time.Minute})
				held := (*store.HeldError)(nil)
				if !errors.As(err, &held) || held.Record.Name != "b" || held.Record.Left != time.Second || held.Overdue != time.Hour {
					t.Fatalf("got %+v of two", err)
				}

				// A write that does not tell its time is as old as the grant.
				for ago, want := range map[time.Duration]time.Duration{59 * time.Minute: 0, time.Hour: time.Hour} {
					r := m.items["a"]
					r.Write, r.Granted = "old", time.Now().Add(-ago)
					m.items["a"] = r
					overdue(open(m), want)
				}
			})
		})
	}
}

// TestTakeOverAfterOneLook: a process that looks now and then takes over from a dead holder one TTL and at most one look after its last renewal, and never sooner.
func TestTakeOverAfterOneLook(t *testing.T) {
	const ttl, look = 30 * time.Second, 7 * time.Second
	for name, m := range map[string]*memory{"plain": newMemory(false), "tells": newMemory(true), "takes": newTaker(), "sequenced": newSequence()} {
		for lag := time.Duration(0); lag < look; lag += time.Second { // from a look to the renewal after it
			t.Run(fmt.Sprint(name, "/", lag), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					holder, other, died := open(m), open(m), make(chan time.Time, 1)
					name := fmt.Sprint("name ", lag)
					g, err := acquire(t, holder, store.Claim{Name: name, Holder: "dies", TTL: ttl})
					if err != nil {
						t.Fatal(err)
					}
					go func() {
						time.Sleep(lag)
						var last time.Time
						for range 5 {
							if errs, err := holder.Extend(background, []store.Extension{{Name: name, Holder: "dies", Token: g.Token, TTL: ttl}}); err != nil || errs[0] != nil {
								t.Error(errs, err)
							}
							last = time.Now()
							time.Sleep(ttl / 3)
						}
						died <- last
					}()
					for {
						_, err := acquire(t, other, store.Claim{Name: name, Holder: "waits", TTL: ttl})
						held := (*store.HeldError)(nil)
						if !errors.As(err, &held) {
							if late := time.Since(<-died) - ttl; err != nil || late < 0 || late > look {
								t.Errorf("%v, %v after the TTL since the last renewal", err, late)
							}
							return
						}
						time.Sleep(min(held.Record.Left, look))
					}
				})
			})
		}
	}
}

// A slow backend takes its time for each read.
type slow struct {
	*memory
	each time.Duration
}

func (b *slow) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	time.Sleep(b.each)
	return b.memory.Read(ctx, names)
}

// TestLostOnlyByWhatWasRead: what a process remembers of a lease may end while a request for another name of the batch is under way. Somebody
// else may have extended it, and only the item says so.
func TestLostOnlyByWhatWasRead(t *testing.T) {
	for verb, do := range map[string]func(store.Store, string, int64) ([]error, error){
		"extend": func(s store.Store, name string, token int64) ([]error, error) {
			return s.Extend(background, []store.Extension{{Name: "other", Holder: "x", Token: 1, TTL: time.Hour}, {Name: name, Holder: "x", Token: token, TTL: time.Hour}})
		},
		"release": func(s store.Store, name string, token int64) ([]error, error) {
			return s.Release(background, []store.Release{{Name: "other", Holder: "x", Token: 1}, {Name: name, Holder: "x", Token: token}})
		},
	} {
		for kind, m := range map[string]*memory{"plain": newMemory(false), "tells": newMemory(true), "sequenced": newSequence()} {
			t.Run(verb+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &slow{memory: m}
					s := casstore.New(b, m.config())
					g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Minute})
					if err != nil {
						t.Fatal(err)
					}
					if errs, err := open(m).Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: g.Token, TTL: time.Hour}}); err != nil || errs[0] != nil {
						t.Fatal(errs, err)
					}
					time.Sleep(55 * time.Second)
					b.each = 10 * time.Second
					if errs, err := do(s, "a", g.Token); err != nil || !errors.Is(errs[0], store.ErrLost) || errs[1] != nil {
						t.Errorf("got %v, %v, want that only the name that nobody holds is lost", errs, err)
					}
				})
			})
		}
	}
}

// A twice carries each write out a second time, and returns the reply of the second.
type twice struct {
	*memory
	t *testing.T
}

func (b twice) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	for _, c := range changes {
		if c.Name == "" {
			b.t.Errorf("%+v changes no name", c)
		}
	}
	if _, err := b.memory.Write(ctx, changes); err != nil {
		return nil, err
	}
	return b.memory.Write(ctx, changes)
}

// TestARepeatedRequestIsRecognised: a client library that repeats a request gets a conflict with its own first attempt.
// The claims of the same name behind that in the batch are decided by what it has made.
func TestARepeatedRequestIsRecognised(t *testing.T) {
	sequenced := newSequence()
	sequenced.tells = true
	for kind, m := range map[string]*memory{
		"plain": newMemory(false), "tells": newMemory(true), "sequenced": newSequence(), "sequenced, and tells": sequenced,
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := casstore.New(twice{m, t}, m.config())
				claims := func(first, second string, expired time.Duration) store.Grant {
					t.Helper()
					outcomes, err := s.Acquire(background, []store.Claim{
						{Name: "a", Holder: first, TTL: time.Minute}, {Name: "a", Holder: second, TTL: time.Minute},
					})
					if err != nil {
						t.Fatal(err)
					}
					g, held := outcomes[0].Grant, (*store.HeldError)(nil)
					if outcomes[0].Err != nil || g.Token == 0 || g.ExpiredAge != expired {
						t.Fatalf("got %+v, want a grant after a lease of %v", outcomes[0], expired)
					}
					if !errors.As(outcomes[1].Err, &held) || held.Record.Holder != first || held.Record.Token != g.Token {
						t.Fatalf("the second is told %+v, want that %s has the token %d", outcomes[1], first, g.Token)
					}
					return g
				}
				claims("dead", "late", 0)
				time.Sleep(time.Minute)
				g := claims("b", "c", time.Minute)
				r := store.Release{Name: "a", Holder: "b", Token: g.Token, Retain: time.Hour}
				if err := release(t, s, r); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestReleaseOfWhatIsFree: a release can be repeated by the one who made it, and is lost to all others.
func TestReleaseOfWhatIsFree(t *testing.T) {
	m := newMemory(true)
	s := open(m)
	g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	first := store.Release{Name: "a", Holder: "x", Token: g.Token, Mark: 5, State: []byte("s"), Retain: time.Hour}
	if err := release(t, s, first); err != nil {
		t.Fatal(err)
	}
	left := m.items["a"]
	for what, c := range map[string]struct {
		change func(*store.Release)
		want   error
	}{
		"again":                        {func(*store.Release) {}, nil},
		"again, with a lower mark":     {func(r *store.Release) { r.Mark = 0 }, nil},
		"again, with a greater mark":   {func(r *store.Release) { r.Mark = 6 }, store.ErrLost},
		"another holder, of the token": {func(r *store.Release) { r.Holder = "y" }, store.ErrLost},
		"another token, of the holder": {func(r *store.Release) { r.Token++ }, store.ErrLost},
		"a name that nobody ever had":  {func(r *store.Release) { r.Name = "b" }, store.ErrLost},
	} {
		r := first
		c.change(&r)
		for _, who := range []store.Store{s, open(m)} {
			if err := release(t, who, r); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: %v, want %v", what, err, c.want)
			}
		}
	}
	if !reflect.DeepEqual(m.items, map[string]casstore.Record{"a": left}) {
		t.Errorf("%+v is left, want %+v", m.items, left)
	}
}

// TestSweepHeedsALinger: however far ahead the clock is of a process that sweeps, a name that lingers stays taken.
func TestSweepHeedsALinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(true)
		m.items["a"] = casstore.Record{
			Holder: "x", Token: 5, TTL: time.Hour, Released: true, Write: "w", Forget: time.Now().Add(-time.Hour),
		}
		s := open(m)
		if n, err := s.Sweep(background, 10); n != 0 || err != nil {
			t.Fatalf("swept %d, %v: the name lingers", n, err)
		}
		time.Sleep(time.Hour)
		if n, err := s.Sweep(background, 10); n != 1 || err != nil {
			t.Errorf("swept %d, %v: the name lingers no more", n, err)
		}
		if known := s.Seen("a"); known.Version != "" {
			t.Errorf("what it has forgotten is still known: %+v", known)
		}
		if g, err := acquire(t, open(m), store.Claim{Name: "a", Holder: "y", TTL: time.Hour}); err != nil || g.Token <= 5 {
			t.Errorf("got token %d, %v, want one above 5", g.Token, err)
		}
	})
}

// TestMakerDiesBeforeItKnowsTheFloor: the one that takes over reads it.
func TestMakerDiesBeforeItKnowsTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(true)
		m.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
		m.items["a"] = casstore.Record{Holder: "dead", Token: 1, TTL: time.Second, Unsure: true, Write: "w", Granted: time.Now()}
		s := open(m)
		claim := store.Claim{Name: "a", Holder: "y", TTL: time.Hour}
		_, _ = acquire(t, s, claim)
		time.Sleep(time.Second)
		g, err := acquire(t, s, claim)
		if err != nil || g.Token <= 100 || g.ExpiredAge != time.Second {
			t.Fatalf("got %+v, %v, want a token above the floor, after a lease of a second", g, err)
		}
		if again, err := acquire(t, s, claim); err != nil || again.Token != g.Token {
			t.Errorf("asking again gave token %d, %v, want %d", again.Token, err, g.Token)
		}
		if m.items["a"].Unsure {
			t.Error("the record with a token above the floor says that nobody knows that")
		}
	})
}

// A creating backend makes new records, and surely changes none.
type creating struct{ *memory }

func (m creating) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	if slices.ContainsFunc(changes, func(c casstore.Change) bool { return c.Version != "" }) {
		return nil, errors.New("refused")
	}
	return m.memory.Write(ctx, changes)
}

// TestNewRecordWhoseTokenCannotBeRaised: who has made a record, and cannot raise its token above the floor, does not know what has become of the claim: others see the name taken.
func TestNewRecordWhoseTokenCannotBeRaised(t *testing.T) {
	m := newMemory(true)
	m.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: math.MaxInt64 / 2, Released: true, Write: "f"}
	s := casstore.New(creating{m}, m.config())
	defer s.Close()
	g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
	if _, made := m.items["a"]; !made || g.Token != 0 || !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a record is made: %v; granted %+v, %v; want that the outcome is unknown", made, g, err)
	}
}

// An interposed backend runs before in front of each read, and replaces what is read by the items of reply, once, if it is not nil.
type interposed struct {
	*memory
	before func(names []string)
	reply  []casstore.Item
}

func (b *interposed) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	if b.before != nil {
		b.before(names)
	}
	if reply := b.reply; reply != nil {
		b.reply = nil
		return reply, nil
	}
	return b.memory.Read(ctx, names)
}

// TestARepeatedClaimKeepsItsToken: neither a late reply nor a floor that has risen changes what was granted.
func TestARepeatedClaimKeepsItsToken(t *testing.T) {
	b := &interposed{memory: newMemory(true)}
	s := casstore.New(b, casstore.Config{})
	claim := store.Claim{Name: "a", Holder: "x", TTL: time.Hour}
	g, err := acquire(t, s, claim)
	if err != nil {
		t.Fatal(err)
	}
	b.reply = []casstore.Item{{Name: "a"}} // from before the grant
	_, _ = acquire(t, s, store.Claim{Name: "a", Holder: "-", TTL: time.Hour, Mark: -1})
	b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
	again, err := acquire(t, s, claim)
	if err != nil || again.Token != g.Token {
		t.Errorf("asking again gave token %d, %v, want %d", again.Token, err, g.Token)
	}
	if err := s.Ping(background); err != nil { // it reads the floor, which is known from now on
		t.Fatal(err)
	}
	if again, err = acquire(t, s, claim); err != nil || again.Token != g.Token {
		t.Errorf("asking again, with the floor known, gave token %d, %v, want %d", again.Token, err, g.Token)
	}
	if err := release(t, s, store.Release{Name: "a", Holder: "x", Token: g.Token}); err != nil {
		t.Errorf("releasing what was granted first: %v", err)
	}
}

// TestRenewalTellsThatATokenIsSure: from the first renewal on, other processes know that a token was compared with the
// floor, and do not replace it for its holder, however far the floor rises. A late reply does not make that forgotten.
func TestRenewalTellsThatATokenIsSure(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := &interposed{memory: newMemory(true)}
		s, claim := casstore.New(b, casstore.Config{}), store.Claim{Name: "a", Holder: "x", TTL: time.Hour}
		g, err := acquire(t, s, claim)
		if err != nil {
			t.Fatal(err)
		}
		if late {
			b.reply = []casstore.Item{{Name: "a"}} // from before the grant
			_, _ = acquire(t, s, store.Claim{Name: "a", Holder: "-", TTL: time.Hour, Mark: -1})
		}
		renewal := []store.Extension{{Name: "a", Holder: "x", Token: g.Token, TTL: time.Hour}}
		if errs, err := s.Extend(background, renewal); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
		if again, err := acquire(t, open(b.memory), claim); err != nil || again.Token != g.Token {
			t.Errorf("late reply %t: another process got token %d, %v, want %d", late, again.Token, err, g.Token)
		}
		if errs, err := s.Extend(background, renewal); err != nil || errs[0] != nil {
			t.Errorf("late reply %t: the next renewal: %v, %v", late, errs, err)
		}
	}
}

// TestLateFloor: the reply of a read of the floor that is late does not lower the floor that is known: a token that is
// to be raised above it is above the greatest.
func TestLateFloor(t *testing.T) {
	b := &interposed{memory: newMemory(true)}
	b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
	s := casstore.New(b, casstore.Config{CreateFirst: true})
	late := casstore.Record{Holder: "floor", Token: 1, Released: true, Write: "e"}
	b.before = func(names []string) {
		if names[0] != "a" {
			return
		}
		b.before = nil // the record has been made, the floor has been read, and the record is read to raise its token
		b.reply = []casstore.Item{{Name: casstore.FloorName, Version: late.Version(), Record: late}}
		if err := s.Ping(background); err != nil {
			t.Error(err)
		}
	}
	g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
	if r := b.items["a"]; err != nil || g.Token != 101 || r.Token != 101 || r.Unsure || b.before != nil {
		t.Errorf("got %+v, %v, of the record %+v; want the token 101, and that it is sure", g, err, r)
	}
}

// TestTokenThatAnotherProcessGotStays: who has made a record, and is about to raise its token, finds that another
// process has been granted the name for the same holder meanwhile. Both have that token then.
func TestTokenThatAnotherProcessGotStays(t *testing.T) {
	for what, c := range map[string]struct {
		token  int64
		unsure bool
		floor  int64
	}{
		"it is sure, and the floor has risen since":            {101, false, 200},
		"it is above the floor, which its record does not say": {150, true, 100},
	} {
		b := &interposed{memory: newMemory(true)}
		b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
		s := casstore.New(b, casstore.Config{CreateFirst: true})
		b.before = func(names []string) {
			if names[0] != "a" {
				return
			}
			b.before = nil
			b.items["a"] = casstore.Record{Holder: "x", Token: c.token, TTL: time.Hour, Unsure: c.unsure, Write: "w"}
			b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: c.floor, Released: true, Write: "g"}
			if err := s.Ping(background); err != nil { // it reads the floor
				t.Error(err)
			}
		}
		g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
		if r := b.items["a"]; err != nil || g.Token != c.token || r.Token != c.token || b.writes != 1 || b.before != nil {
			t.Errorf("%s: got %+v, %v, of the record %+v; want the token %d", what, g, err, r, c.token)
		}
	}
}

// seeOthers lets a store see a number of records of other names, which are as another one.
func seeOthers(s *casstore.Store, as casstore.Item, n int) {
	for i := range n {
		as.Name = fmt.Sprint("other ", i)
		s.See(as)
	}
}

// TestGrantAmongManyNames: a store remembers 131,072 names at most. One that is forgotten while its token is being
// compared with the floor keeps that token.
func TestGrantAmongManyNames(t *testing.T) {
	b := &interposed{memory: newMemory(true)}
	s, claim := casstore.New(b, casstore.Config{}), store.Claim{Name: "a", Holder: "x", TTL: time.Hour}
	b.before = func(names []string) {
		if names[0] != casstore.FloorName {
			return
		}
		b.before = nil
		if seeOthers(s, s.Seen("a"), 1<<17); s.Seen("a").Version != "" {
			t.Error("a name that was seen before 131,072 others is remembered")
		}
	}
	g, err := acquire(t, s, claim)
	if err != nil || b.before != nil {
		t.Fatal(err)
	}
	b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
	if again, err := acquire(t, s, claim); err != nil || again.Token != g.Token {
		t.Errorf("asking again gave token %d, %v, want %d", again.Token, err, g.Token)
	}
}

// TestAClaimThatHasWrittenIsUnknown: a claim whose lease ends before it knows the floor has granted the name to its holder for a while. Others may have
// seen that, so it is not refused and not granted a second time, whatever has become of the name.
func TestAClaimThatHasWrittenIsUnknown(t *testing.T) {
	other := casstore.Record{Holder: "y", Token: 101, TTL: time.Hour, Write: "w", Granted: time.Now()}
	released := other
	released.Released, released.TTL = true, 0
	for what, now := range map[string]*casstore.Record{"held by another": &other, "free": &released, "not taken by another": nil} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &interposed{memory: newMemory(true)}
				b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
				b.before = func(names []string) {
					switch {
					case names[0] != casstore.FloorName:
					case now != nil:
						b.items["a"] = *now
					default:
						time.Sleep(store.MinTTL)
					}
				}
				g, err := acquire(t, casstore.New(b, casstore.Config{}), store.Claim{Name: "a", Holder: "x", TTL: store.MinTTL})
				if !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrHeld) {
					t.Errorf("got %+v, %v, want an unknown outcome, and no refusal", g, err)
				}
				if b.writes != 1 {
					t.Errorf("the claim was written %d times, want once", b.writes)
				}
			})
		})
	}
}

// TestClaimsAtOnceGetOneToken: of two claims of one holder at once, both compare what the first has written with the floor, which rises between them. A late
// reply may have replaced what was remembered in the meantime.
func TestClaimsAtOnceGetOneToken(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := &interposed{memory: newMemory(true)}
		s := casstore.New(b, casstore.Config{})
		claim := store.Claim{Name: "a", Holder: "x", TTL: time.Hour}
		var inner store.Grant
		var err error
		b.before = func(names []string) {
			if names[0] != casstore.FloorName {
				return
			}
			b.before = nil // the record has been written: another claim is granted it, and then another process forgets a record with a greater token
			if inner, err = acquire(t, s, claim); err != nil {
				t.Fatal(err)
			}
			if late {
				b.reply = []casstore.Item{{Name: "a"}} // from before the first claim
				_, _ = acquire(t, s, store.Claim{Name: "a", Holder: "-", TTL: time.Hour, Mark: -1})
			}
			b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
		}
		outer, err := acquire(t, s, claim)
		if err != nil || inner.Token == 0 || outer.Token != inner.Token {
			t.Errorf("late reply %t: got token %d, %v, want %d, which the other claim got", late, outer.Token, err, inner.Token)
		}
		if err := release(t, s, store.Release{Name: "a", Holder: "x", Token: inner.Token}); err != nil {
			t.Errorf("late reply %t: releasing what was granted first: %v", late, err)
		}
	}
}

func TestTokensEnd(t *testing.T) {
	m := newMemory(true)
	m.items["a"] = casstore.Record{Holder: "x", Token: math.MaxInt64, Released: true, Write: "w"}
	if _, err := acquire(t, open(m), store.Claim{Name: "a", Holder: "y", TTL: time.Hour}); err == nil || !strings.Contains(err.Error(), "tokens") {
		t.Errorf("got %v, want that the tokens have been used up", err)
	}
}

// TestIncredibleRecords: a record that no store has written harms its own name.
func TestIncredibleRecords(t *testing.T) {
	good := casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Released: true, Write: "w"}
	for what, spoil := range map[string]func(*casstore.Record){
		"token":                   func(r *casstore.Record) { r.Token = 0 },
		"mark":                    func(r *casstore.Record) { r.Mark = -1 },
		"TTL":                     func(r *casstore.Record) { r.TTL = -1 },
		"the TTL":                 func(r *casstore.Record) { r.TTL = store.MaxTTL + 1 },
		"state":                   func(r *casstore.Record) { r.State = make([]byte, store.MaxState+1) },
		"hold":                    func(r *casstore.Record) { r.Holder = "" },
		"a lease with the TTL 0s": func(r *casstore.Record) { r.Released, r.TTL = false, 0 },
		`the holder "x\n"`:        func(r *casstore.Record) { r.Holder = "x\n" },
		`the holder "xxxxx`:       func(r *casstore.Record) { r.Holder = strings.Repeat("x", 1<<20) },
		"a time":                  func(r *casstore.Record) { r.Granted = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"a time that":             func(r *casstore.Record) { r.Forget = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		m := newMemory(true)
		bad := good
		spoil(&bad)
		m.items["bad"] = bad
		s := open(m)
		outcomes, err := s.Acquire(background, []store.Claim{{Name: "bad", Holder: "y", TTL: time.Hour}, {Name: "good", Holder: "y", TTL: time.Hour}})
		switch text := fmt.Sprint(outcomes[0].Err); {
		case err != nil || !strings.Contains(text, what) || !strings.Contains(text, `"bad"`) || outcomes[1].Err != nil:
			t.Errorf("%s: got %.500v, %v, want an error about the %s of one and a grant of the other", what, outcomes, err, what)
		case len(text) > 500:
			t.Errorf("%s: the error has %d bytes", what, len(text))
		}
	}
}

// TestPoisonedFloor: a floor of tokens that no sweep has written keeps names without a record from being granted, with an error that names it, and no others. When somebody has mended
// it they are granted again by the same process.
func TestPoisonedFloor(t *testing.T) {
	m := newMemory(true)
	s := open(m)
	known, err := acquire(t, s, store.Claim{Name: "known", Holder: "x", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	m.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: math.MaxInt64, Released: true, Write: "w"}
	if _, err := acquire(t, s, store.Claim{Name: "new", Holder: "x", TTL: time.Hour}); !errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), `\x01floor`) {
		t.Errorf("a new name: %v, want an unknown outcome and that the floor cannot be", err)
	}
	if err := release(t, s, store.Release{Name: "known", Holder: "x", Token: known.Token}); err != nil {
		t.Errorf("a name that had a record: %v", err)
	}
	if again, err := acquire(t, s, store.Claim{Name: "known", Holder: "y", TTL: time.Hour}); err != nil || again.Token != known.Token+1 {
		t.Errorf("a name that had a record: %+v, %v, want the token %d", again, err, known.Token+1)
	}
	m.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 7, Released: true, Write: "v"}
	for _, name := range []string{"new", "another"} {
		if g, err := acquire(t, s, store.Claim{Name: name, Holder: "x", TTL: time.Hour}); err != nil || g.Token != 8 {
			t.Errorf("%s, after the floor was mended: %+v, %v, want the token 8", name, g, err)
		}
	}
}

// TestFloorThatCannotBeRaised: a sweep that does not know that the floor is as high as what it would forget ends with
// the error of that, and forgets nothing. The name keeps its tokens.
func TestFloorThatCannotBeRaised(t *testing.T) {
	away := errors.New("the backend is away")
	for what, c := range map[string]struct {
		backend func(*memory) casstore.Backend
		floor   int64
		want    string
	}{
		"a conflict each time": {func(m *memory) casstore.Backend { return contended{m} }, 0, "floor"},
		"it cannot be read":    {func(m *memory) casstore.Backend { return &fading{m, away} }, 0, away.Error()},
		"it cannot be written": {
			func(m *memory) casstore.Backend { return stubborn{m, casstore.FloorName, away} }, 0, away.Error(),
		},
		"no write is confirmed": {
			func(m *memory) casstore.Backend { return &silent{m, casstore.FloorName} }, 0, store.ErrUnknown.Error(),
		},
		"something else has written it": {func(m *memory) casstore.Backend { return m }, math.MaxInt64, `\x01floor`},
	} {
		m := newMemory(false)
		m.items["a"] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: time.Now().Add(-time.Hour)}
		if c.floor != 0 {
			m.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: c.floor, Released: true, Write: "f"}
		}
		s := casstore.New(c.backend(m), casstore.Config{})
		n, err := s.Sweep(background, 10)
		if _, kept := m.items["a"]; n != 0 || err == nil || !strings.Contains(err.Error(), c.want) || !kept {
			t.Errorf("%s: %d forgotten, %v, the record kept: %t; want it kept, and %s", what, n, err, kept, c.want)
		}
		if c.floor == 0 {
			continue
		}
		if g, err := acquire(t, s, store.Claim{Name: "a", Holder: "y", TTL: time.Hour}); err != nil || g.Token != 6 {
			t.Errorf("%s: a name that had a record: %+v, %v, want the token 6", what, g, err)
		}
	}
}

// TestGreatestFloor: the greatest token that a sweep forgets is a floor like others, above which new names are granted.
// A record with a greater one stays.
func TestGreatestFloor(t *testing.T) {
	m := newMemory(false)
	past := time.Now().Add(-time.Hour)
	for name, token := range map[string]int64{"last": tokens.Forgettable, "spared": tokens.Forgettable + 1} {
		m.items[name] = casstore.Record{Holder: "x", Token: token, Released: true, Write: "w", Forget: past}
	}
	n, err := open(m).Sweep(background, 10)
	_, kept := m.items["spared"]
	floor := m.item(casstore.FloorName)
	if n != 1 || err != nil || !kept || floor.Record.Token != tokens.Forgettable || casstore.Writer(floor) == "" {
		t.Errorf("%d forgotten, %v; left: %+v; want the floor, and the record above it", n, err, m.items)
	}
	for _, name := range []string{"last", "new"} {
		g, err := acquire(t, open(m), store.Claim{Name: name, Holder: "y", TTL: time.Hour})
		if err != nil || g.Token != tokens.Forgettable+1 {
			t.Errorf("%s: %+v, %v, want the token after the floor", name, g, err)
		}
	}
}

// TestSweepRaisesAFloorThatWasLost: a sweep that knows a higher floor than the backend has, as after an older copy was
// put in its place, writes that one before it forgets a record. Others know only what the backend has.
func TestSweepRaisesAFloorThatWasLost(t *testing.T) {
	for what, lost := range map[string]func(m *memory){
		"it is gone": func(m *memory) { delete(m.items, casstore.FloorName) },
		"it is older": func(m *memory) {
			m.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 7, Released: true, Write: "e"}
		},
	} {
		m := newMemory(false)
		m.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
		s := open(m)
		if g, err := acquire(t, s, store.Claim{Name: "b", Holder: "x", TTL: time.Hour}); err != nil || g.Token != 101 {
			t.Fatalf("got %+v, %v, want the token 101", g, err)
		}
		lost(m)
		m.items["a"] = casstore.Record{Holder: "x", Token: 50, Released: true, Write: "w", Forget: time.Now().Add(-time.Hour)}
		if n, err := s.Sweep(background, 10); n != 1 || err != nil {
			t.Errorf("%s: %d forgotten, %v", what, n, err)
		}
		if g, err := acquire(t, open(m), store.Claim{Name: "a", Holder: "y", TTL: time.Hour}); err != nil || g.Token != 101 {
			t.Errorf("%s: another was granted %+v, %v, want the token 101", what, g, err)
		}
	}
}

// TestSweepForgetsNoNewLease: a name that is granted while a sweep is about to forget its record, by whatever process,
// keeps its new lease. That is no error of the sweep.
func TestSweepForgetsNoNewLease(t *testing.T) {
	for _, here := range []bool{false, true} {
		b := &interposed{memory: newMemory(false)}
		past := time.Now().Add(-time.Hour)
		for _, name := range []string{"a", "b"} {
			b.items[name] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: past}
		}
		s := casstore.New(b, casstore.Config{})
		who := s
		if !here {
			who = open(b.memory).Store
		}
		b.before = func(names []string) {
			if names[0] != casstore.FloorName {
				return
			}
			b.before = nil
			if g, err := acquire(t, who, store.Claim{Name: "a", Holder: "y", TTL: time.Hour}); err != nil || g.Token != 6 {
				t.Errorf("got %+v, %v, want the token 6", g, err)
			}
		}
		n, err := s.Sweep(background, 10)
		_, left := b.items["b"]
		if r := b.items["a"]; n != 1 || err != nil || r.Holder != "y" || r.Token != 6 || left || b.before != nil {
			t.Errorf("by the process that sweeps %t: %d forgotten, %v; left: %+v", here, n, err, b.items)
		}
	}
}

// TestSweepSparesTheFloor: a floor stays, also one that somebody has written by hand as a record that may be forgotten.
func TestSweepSparesTheFloor(t *testing.T) {
	m := newMemory(false)
	m.items[casstore.FloorName] = casstore.Record{
		Holder: "floor", Token: 100, Released: true, Write: "f", Forget: time.Now().Add(-time.Hour),
	}
	if n, err := open(m).Sweep(background, 10); n != 0 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if g, err := acquire(t, open(m), store.Claim{Name: "a", Holder: "x", TTL: time.Hour}); err != nil || g.Token != 101 {
		t.Errorf("got %+v, %v, want the token 101", g, err)
	}
}

// An endless backend has always more to walk, and nothing to show.
type endless struct{ *memory }

func (endless) Walk(_ context.Context, cursor string, _ int) ([]casstore.Item, string, error) {
	return nil, cursor + ".", nil
}

// TestSweepEnds: a sweep ends, whatever the backend says that there is more.
func TestSweepEnds(t *testing.T) {
	if n, err := casstore.New(endless{newMemory(true)}, casstore.Config{}).Sweep(background, 10); n != 0 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
}

// TestListThatBreaksOff: a list whose backend fails in the middle ends with the error of that, and no other: who
// believed it to be whole would take the names that are missing for free.
func TestListThatBreaksOff(t *testing.T) {
	m := newMemory(true)
	for _, name := range []string{"a", "b", "c"} {
		m.items[name] = casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Write: "w"}
	}
	m.corrupt["a"] = errKept
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var listed []string
	for r, err := range open(m).List(ctx, "") {
		cancel()
		listed = append(listed, fmt.Sprint(r.Name, " ", err))
	}
	if want := []string{"b <nil>", " " + context.Canceled.Error()}; !slices.Equal(listed, want) {
		t.Errorf("listed: %q, want %q", listed, want)
	}
}

// TestListOfNoNames: a record under what is no name is not listed as one: the list ends with an error that names it. So
// it does if no store has written a record.
func TestListOfNoNames(t *testing.T) {
	m := newMemory(true)
	for _, name := range []string{"a", "b\n", "c\xff", strings.Repeat("d", store.MaxName+1), "e"} {
		m.items[name] = casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Write: "w"}
	}
	m.items["bad"] = casstore.Record{Holder: "x", Token: 1, Mark: -1, TTL: time.Hour, Write: "w"}
	var listed []string
	var last error
	for r, err := range open(m).List(background, "") {
		if last = err; err == nil {
			listed = append(listed, r.Name)
		}
	}
	if !slices.Equal(listed, []string{"a", "e"}) {
		t.Errorf("listed: %q", listed)
	}
	var unreadable *store.UnreadableError
	for _, name := range []string{`"b\n"`, `"c\xff"`, `"ddd`, `"bad"`} {
		if !errors.As(last, &unreadable) || !strings.Contains(last.Error(), name) {
			t.Errorf("the list ends with %v, want one that names %s", last, name)
		}
	}
}

// A curt backend returns fewer results than it was given changes.
type curt struct{ *memory }

func (b curt) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	results, err := b.memory.Write(ctx, changes)
	return results[:len(results)-1], err
}

// A short backend returns less than it was asked for, also when it reads.
type short struct{ curt }

func (b short) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	items, err := b.memory.Read(ctx, names)
	return items[:len(items)-1], err
}

func TestBackendThatReturnsTooLittle(t *testing.T) {
	s := casstore.New(short{curt{newMemory(false)}}, casstore.Config{})
	if _, err := acquire(t, s, store.Claim{Name: "a", Holder: "y", TTL: time.Hour}); err == nil || errors.Is(err, store.ErrUnknown) {
		t.Errorf("a read that returned too little: %v, want an error, and nothing unknown", err)
	}
	s = casstore.New(short{curt{newMemory(true)}}, casstore.Config{CreateFirst: true})
	if _, err := acquire(t, s, store.Claim{Name: "a", Holder: "y", TTL: time.Hour}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a write that returned too little: %v, want unknown", err)
	}
	m := newMemory(false)
	for _, name := range []string{"a", "b"} {
		m.items[name] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: time.Now().Add(-time.Hour)}
	}
	for _, what := range []string{"raised the floor", "deleted"} {
		n, err := casstore.New(curt{m}, casstore.Config{}).Sweep(t.Context(), 2)
		if n != 0 || !errors.Is(err, store.ErrUnknown) {
			t.Errorf("a request of a sweep that %s, and returned too little: %d forgotten, %v, want unknown", what, n, err)
		}
	}
}

// A silent backend does not confirm the writes of a name, which it has carried out.
type silent struct {
	*memory
	name string
}

func (b *silent) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	results, err := b.memory.Write(ctx, changes)
	for i, c := range changes {
		if c.Name == b.name {
			results[i] = casstore.Result{Err: store.AsUnknown(errors.New("no reply"))}
		}
	}
	return results, err
}

// TestAnUnknownWriteIsThatOfAllItsTasks: several requests for one name are one write, and if its outcome is unknown, so is that of each of them. The others of
// the batch have theirs.
func TestAnUnknownWriteIsThatOfAllItsTasks(t *testing.T) {
	backend := &silent{memory: newMemory(false)}
	s := casstore.New(backend, casstore.Config{})
	tokens := map[string]int64{}
	for _, name := range []string{"a", "b"} {
		g, err := acquire(t, s, store.Claim{Name: name, Holder: "x", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = g.Token
	}
	backend.name = "a"
	extensions := []store.Extension{{Name: "a", Holder: "stranger", Token: tokens["a"], TTL: time.Hour}} // it is refused, and needs no write for that
	for _, name := range []string{"a", "b", "a"} {
		extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: tokens[name], TTL: time.Hour, State: []byte("s")})
	}
	errs, err := s.Extend(background, extensions)
	if err != nil || !errors.Is(errs[1], store.ErrUnknown) || errs[2] != nil || !errors.Is(errs[3], store.ErrUnknown) {
		t.Errorf("got %v, %v, want an unknown outcome of a both times, and b extended", errs, err)
	}
	if !errors.Is(errs[0], store.ErrLost) || errors.Is(errs[0], store.ErrUnknown) {
		t.Errorf("an extension of a for a stranger, before the others: %v, want that it is lost", errs[0])
	}
	releases := []store.Release{{Name: "a", Holder: "x", Token: tokens["a"]}, {Name: "a", Holder: "x", Token: tokens["a"]}}
	if errs, err = s.Release(background, releases); err != nil || !errors.Is(errs[0], store.ErrUnknown) || !errors.Is(errs[1], store.ErrUnknown) {
		t.Errorf("got %v, %v, want an unknown outcome of both releases", errs, err)
	}
}

// An extension by less than what is left leaves the end where it is, however long ago the lease began.
func TestShortExtensionProlongsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := casstore.New(newMemory(true), casstore.Config{})
		g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)
		errs, err := s.Extend(t.Context(), []store.Extension{{Name: "a", Holder: "x", Token: g.Token, TTL: time.Minute}})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
		n := 0
		for r, err := range s.List(t.Context(), "a") {
			n++
			if err != nil || r.Left != 10*time.Minute {
				t.Errorf("%v are left, %v; want 10 minutes", r.Left, err)
			}
		}
		if n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}

// A liar is a backend that returns something else than it has done.
type liar struct {
	*memory
	lie func(*casstore.Result)
}

func (b liar) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	results, err := b.memory.Write(ctx, changes)
	for i := range results {
		b.lie(&results[i])
	}
	return results, err
}

// What a backend returns for a change is looked at: without a version, or with an item that the change cannot have made, nobody knows what was done.
// What the name has after that says nothing of it.
func TestBackendThatLies(t *testing.T) {
	for name, lie := range map[string]func(*casstore.Result){
		"no version": func(r *casstore.Result) { r.Version = "" },
		"an item whose mark had to refuse the claim": func(r *casstore.Result) { r.Current.Record.Mark = 5 },
		"no item":                           func(r *casstore.Result) { r.Current = nil },
		"an item of another":                func(r *casstore.Result) { r.Current.Record.Write = "another" },
		"no token":                          func(r *casstore.Result) { r.Current.Record.Token = 0 },
		"an older token":                    func(r *casstore.Result) { r.Current.Record.Token-- },
		"an item that no store has written": func(r *casstore.Result) { r.Current.Record.Mark = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			m := newTaker()
			m.items["a"] = casstore.Record{Holder: "y", Token: 5, Released: true, Write: "w"}
			s := casstore.New(liar{m, func(r *casstore.Result) {
				lie(r)
				m.items["a"] = casstore.Record{Holder: "z", Token: 9, TTL: time.Hour, Write: "z"}
			}}, m.config())
			s.See(m.item("a"))
			g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour, Mark: 5})
			if !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrHeld) || g.Token != 0 || m.requests != 1 {
				t.Errorf("%+v, %v after %d requests; want unknown, after one", g, err, m.requests)
			}
		})
	}
}

// A contended backend has each write meet a conflict, and does not say with what.
type contended struct{ *memory }

func (b contended) Write(_ context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	results := make([]casstore.Result, len(changes))
	for i := range results {
		results[i].Err = casstore.ErrConflict
	}
	return results, nil
}

// A caller that meets others at each attempt is refused, and told to try again in a while and not at once.
func TestContentionIsARefusalForAWhile(t *testing.T) {
	s := casstore.New(contended{newMemory(false)}, casstore.Config{})
	_, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
	var held *store.HeldError
	if !errors.As(err, &held) || held.Record.Name != "a" || held.Record.Left <= 0 || held.Record.Left > time.Minute || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want a refusal of a for some time", err)
	}
}

// A raced backend has something done before a write, once.
type raced struct {
	*memory
	before func()
}

func (b *raced) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	if do := b.before; do != nil {
		b.before = nil
		do()
	}
	return b.memory.Write(ctx, changes)
}

// TestACrashIsToldOnce: a claim finds a lease that has expired, and somebody is faster. What is granted after that reports the lease that the name had last, not
// the one that was found first: the faster claim has reported that.
func TestACrashIsToldOnce(t *testing.T) {
	for kind, m := range map[string]func() *memory{
		"plain": func() *memory { return newMemory(false) }, "tells": func() *memory { return newMemory(true) }, "takes": newTaker, "sequenced": newSequence,
	} {
		for _, faster := range []string{"the same holder", "another, which has released it"} {
			t.Run(kind+"/"+faster, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &raced{memory: m()}
					s, other := casstore.New(b, b.config()), open(b.memory)
					for _, who := range []store.Store{s, other} {
						_, _ = acquire(t, who, store.Claim{Name: "a", Holder: "dead", TTL: time.Minute})
					}
					time.Sleep(time.Minute)
					var first store.Grant
					b.before = func() {
						c := store.Claim{Name: "a", Holder: "x", TTL: time.Hour}
						if faster != "the same holder" {
							c.Holder = "y"
						}
						var err error
						if first, err = acquire(t, other, c); err != nil || first.ExpiredAge != time.Minute {
							t.Errorf("the faster claim: %+v, %v, want a grant that reports the lease before", first, err)
						}
						if c.Holder == "y" {
							if err := release(t, other, store.Release{Name: "a", Holder: "y", Token: first.Token, Retain: time.Hour}); err != nil {
								t.Error(err)
							}
						}
					}
					g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
					if same := g.Token == first.Token; err != nil || g.ExpiredAge != 0 || same != (faster == "the same holder") {
						t.Errorf("got %+v, %v after %+v, want a grant that reports no crash", g, err, first)
					}
				})
			})
		}
	}
}

// TestClaimsOfOneBatchAreOfOneToken: of several claims of a name in one batch, those that are refused are told the token that was granted, although another process
// has had the name since this one saw it.
func TestClaimsOfOneBatchAreOfOneToken(t *testing.T) {
	for kind, m := range map[string]*memory{"plain": newMemory(false), "tells": newMemory(true), "takes": newTaker(), "sequenced": newSequence()} {
		t.Run(kind, func(t *testing.T) {
			s, other := open(m), open(m)
			for _, who := range []store.Store{s, other, other} {
				g, err := acquire(t, who, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if err := release(t, who, store.Release{Name: "a", Holder: "x", Token: g.Token, Retain: time.Hour}); err != nil {
					t.Fatal(err)
				}
			}
			outcomes, err := s.Acquire(background, []store.Claim{{Name: "a", Holder: "y", TTL: time.Hour}, {Name: "a", Holder: "z", TTL: time.Hour}})
			if err != nil || outcomes[0].Err != nil {
				t.Fatal(outcomes, err)
			}
			held := (*store.HeldError)(nil)
			if !errors.As(outcomes[1].Err, &held) || held.Record.Holder != "y" || held.Record.Token != outcomes[0].Grant.Token {
				t.Errorf("the second is told %+v, want that y has the token %d", outcomes[1].Err, outcomes[0].Grant.Token)
			}
		})
	}
}

// TestSweepForgetsNoForeignRecord: a record that no store has written stays, even if it says that it may be forgotten, and the sweep names it. It does not move the floor.
func TestSweepForgetsNoForeignRecord(t *testing.T) {
	m := newMemory(true)
	past := time.Now().Add(-time.Hour)
	m.items["bad"] = casstore.Record{Holder: "x", Token: 1 << 40, Mark: -1, Released: true, Write: "w", Forget: past}
	m.items["good"] = casstore.Record{Holder: "x", Token: 5, Released: true, Write: "w", Forget: past}
	n, err := open(m).Sweep(background, 10)
	if _, kept := m.items["bad"]; n != 1 || err == nil || !strings.Contains(err.Error(), `"bad"`) || !kept {
		t.Errorf("%d forgotten, %v, the foreign record kept: %t; want one forgotten, an error that names the other, and that kept", n, err, kept)
	}
	if floor := m.items[casstore.FloorName].Token; floor != 5 {
		t.Errorf("the floor is %d, want 5", floor)
	}
}

// TestUnknownWriteThatTellsTheItem: what a backend has read after a write of unknown outcome is remembered from then on, unless no store has written it.
func TestUnknownWriteThatTellsTheItem(t *testing.T) {
	now := casstore.Record{Holder: "y", Token: 7, TTL: time.Hour, Write: "w"}
	foreign := now
	foreign.Mark = -1
	for what, current := range map[string]*casstore.Record{"nothing": nil, "a record": &now, "one that no store has written": &foreign} {
		m := newMemory(true)
		s := casstore.New(liar{m, func(r *casstore.Result) {
			*r = casstore.Result{Err: store.AsUnknown(errors.New("no reply"))}
			if current != nil {
				r.Current = &casstore.Item{Version: current.Version(), Record: *current}
			}
		}}, m.config())
		if _, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour}); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v, want unknown", what, err)
		}
		if known := s.Seen("a").Version != ""; known != (current == &now) {
			t.Errorf("%s: remembered: %t", what, known)
		}
	}
}

// TestManyNamesMakeNoLeaseLonger: a process that has seen a lease, and then 65,536 other names, finds the lease over as early as without them.
func TestManyNamesMakeNoLeaseLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(true)
		if _, err := acquire(t, open(m), store.Claim{Name: "a", Holder: "dead", TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		s, claim := open(m), store.Claim{Name: "a", Holder: "b", TTL: time.Minute}
		if _, err := acquire(t, s, claim); !errors.Is(err, store.ErrHeld) {
			t.Fatalf("got %v, want held", err)
		}
		seeOthers(s.Store, s.Seen("a"), 1<<16)
		time.Sleep(time.Minute)
		if _, err := acquire(t, s, claim); err != nil {
			t.Errorf("a minute after the lease was seen: %v", err)
		}
	})
}

// TestTokenOfTheFloorIsReplaced: a new record whose token is that of the floor gets one above it, once, and keeps the time of its grant.
func TestTokenOfTheFloorIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, reads := &interposed{memory: newMemory(true)}, 0
		b.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 1, Released: true, Write: "f"}
		b.before = func(names []string) {
			if names[0] != casstore.FloorName {
				return
			}
			if reads++; reads > 9 {
				t.Fatal("the floor is read again and again")
			}
			time.Sleep(time.Second)
		}
		began := time.Now()
		g, err := acquire(t, casstore.New(b, casstore.Config{CreateFirst: true}), store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
		if r := b.items["a"]; err != nil || g.Token != 2 || r.Token != 2 || !r.Granted.Equal(began) {
			t.Errorf("got %+v, %v, of the record %+v; want the token 2, granted at %v", g, err, r, began)
		}
	})
}

// TestRefusalsTellTheRecord: who is refused is told the record in the way, and its state only if it is done.
func TestRefusalsTellTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(true)
		m.items["a"] = casstore.Record{
			Holder: "y", Token: 7, Mark: 5, State: []byte("s"), TTL: time.Hour, Write: "w", Granted: time.Now(),
		}
		time.Sleep(time.Minute)
		want := store.Record{Name: "a", Holder: "y", Token: 7, Mark: 5, Left: time.Hour, Age: time.Minute}
		s, held, done := open(m), (*store.HeldError)(nil), (*store.DoneError)(nil)
		_, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
		if !errors.As(err, &held) || !reflect.DeepEqual(held.Record, want) {
			t.Errorf("refused by a lease: %+v, want %+v", err, want)
		}
		want.State = []byte("s")
		_, err = acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour, Mark: 5})
		if !errors.As(err, &done) || !reflect.DeepEqual(done.Record, want) {
			t.Errorf("refused by a mark: %+v, want %+v", err, want)
		}
	})
}

// TestGrantOfTheFuture: a crash is reported, and no time is negative, also if the clock of the holder was ahead.
func TestGrantOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(true)
		m.items["a"] = casstore.Record{Holder: "dead", Token: 5, TTL: time.Second, Write: "w", Granted: time.Now().Add(time.Hour)}
		s := open(m)
		for r, err := range s.List(background, "") {
			if err != nil || r.Age != 0 || r.Left != time.Second {
				t.Errorf("listed: %+v, %v, want the age 0", r, err)
			}
		}
		time.Sleep(time.Second)
		if g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour}); err != nil || g.ExpiredAge <= 0 {
			t.Errorf("got %+v, %v, want a grant that reports the lease before", g, err)
		}
	})
}

// TestChoiceGoesOn: who loses the first free name to another gets the next, and is refused for a while, with the first name, only if that happens each time. Of what can be found over, the soonest is
// told. A name that is given twice is asked for once.
func TestChoiceGoesOn(t *testing.T) {
	b := &raced{memory: newMemory(true)}
	s := casstore.New(b, casstore.Config{CreateFirst: true})
	b.before = func() { _, _ = acquire(t, open(b.memory), store.Claim{Name: "a", Holder: "faster", TTL: time.Hour}) }
	claim := store.Claim{Holder: "x", TTL: time.Hour}
	if i, g, err := s.Choose(background, []string{"a", "b"}, claim); i != 1 || g.Token == 0 || err != nil {
		t.Errorf("got the name %d, %+v, %v, want the second one", i, g, err)
	}
	var held *store.HeldError
	_, _, err := casstore.New(contended{newMemory(false)}, casstore.Config{}).Choose(background, []string{"a", "b"}, claim)
	if !errors.As(err, &held) || held.Record.Name != "a" || held.Record.Left <= 0 || held.Record.Left > time.Minute {
		t.Errorf("got %v, want a refusal of a for some time", err)
	}
	for _, names := range [][]string{{"long", "short"}, {"short", "long"}} {
		m := newMemory(true)
		past := time.Now().Add(-24 * time.Hour)
		m.items["long"] = casstore.Record{Holder: "y", Token: 1, TTL: 2 * time.Hour, Write: "w", Granted: past}
		m.items["short"] = casstore.Record{Holder: "y", Token: 1, TTL: time.Hour, Write: "w", Granted: past}
		if _, _, err := open(m).Choose(background, names, claim); !errors.As(err, &held) || held.Overdue <= 0 || held.Overdue > time.Hour {
			t.Errorf("of %q: %+v, want overdue for an hour at most", names, err)
		}
	}
	lost, reads := &interposed{memory: newMemory(true)}, 0
	lost.items["a"] = casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Write: "w"}
	lost.before = func([]string) {
		if reads++; reads == 2 { // the holder has been found to have the first, and loses it by force
			lost.items["a"] = casstore.Record{Holder: "y", Token: 2, TTL: time.Hour, Write: "v"}
		}
	}
	i, g, err := casstore.New(lost, casstore.Config{}).Choose(background, []string{"a", "b"}, claim)
	if i != 1 || g.Token == 0 || err != nil {
		t.Errorf("after it lost the first: the name %d, %+v, %v, want the second one", i, g, err)
	}
	once := &interposed{memory: newMemory(true)}
	once.before = func(names []string) {
		if len(names) > 1 && strings.Join(names, " ") != "a b" {
			t.Errorf("%q are read, want a and b", names)
		}
	}
	if i, _, err := casstore.New(once, casstore.Config{}).Choose(background, []string{"a", "b", "a"}, claim); i > 0 || err != nil && !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got the name %d, %v", i, err)
	}
}

// TestChoiceOfWhatCannotBeGranted: names that cannot be read, or have no tokens left, are passed over, and their errors
// are told if there is no other name. Nothing is written then.
func TestChoiceOfWhatCannotBeGranted(t *testing.T) {
	for _, c := range []struct {
		names []string
		i     int
		want  error // nil for a grant
	}{
		{[]string{"broken"}, 0, errKept},
		{[]string{"broken", "broken too"}, 0, errKept},
		{[]string{"broken", "held"}, 1, store.ErrHeld},
		{[]string{"held", "broken", "free"}, 2, nil},
		{[]string{"used up"}, 0, store.ErrTokens},
		{[]string{"used up", "held"}, 1, store.ErrHeld},
		{[]string{"used up", "free"}, 1, nil},
		{[]string{"held for the last time"}, 0, store.ErrHeld},
	} {
		m := newMemory(true)
		m.corrupt["broken"], m.corrupt["broken too"] = errKept, errKept
		for held, free := range map[string]string{"held": "free", "held for the last time": "used up"} {
			token := int64(5)
			if free == "used up" {
				token = math.MaxInt64
			}
			m.items[held] = casstore.Record{Holder: "y", Token: token, TTL: time.Hour, Write: "w"}
			m.items[free] = casstore.Record{Holder: "y", Token: token, Released: true, Write: "w"}
		}
		i, g, err := open(m).Choose(background, c.names, store.Claim{Holder: "x", TTL: time.Hour})
		if i != c.i || !errors.Is(err, c.want) || (g.Token == 6) != (c.want == nil) || (m.writes == 1) != (c.want == nil) {
			t.Errorf("of %q: the name %d, %+v, %v, and %d writes; want %d, %v", c.names, i, g, err, m.writes, c.i, c.want)
		}
	}
	s := casstore.New(&fading{newMemory(true), errKept}, casstore.Config{})
	i, g, err := s.Choose(background, []string{"a", "b"}, store.Claim{Holder: "x", TTL: time.Hour})
	if i != 0 || g.Token != 0 || !errors.Is(err, errKept) {
		t.Errorf("of a backend that cannot be read: the name %d, %+v, %v, want its error", i, g, err)
	}
}

// A fading backend has one write meet a conflict that does not say with what, and cannot be read after that.
type fading struct {
	*memory
	fails error // of reads
}

func (b *fading) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	if b.fails != nil {
		return nil, b.fails
	}
	return b.memory.Read(ctx, names)
}

func (b *fading) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	b.fails = errors.New("the backend is away")
	return contended{b.memory}.Write(ctx, changes)
}

// TestNothingIsToldByWhatWasBeforeAConflict: after a conflict nothing is known of a name until it was read anew, so all requests for it have the error of that.
func TestNothingIsToldByWhatWasBeforeAConflict(t *testing.T) {
	m := newMemory(false)
	g, err := acquire(t, open(m), store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b := &fading{memory: m}
	errs, err := casstore.New(b, casstore.Config{}).Extend(background, []store.Extension{
		{Name: "a", Holder: "x", Token: g.Token + 1, TTL: time.Hour}, {Name: "a", Holder: "x", Token: g.Token, TTL: time.Hour},
	})
	if err != nil || !errors.Is(errs[0], b.fails) || !errors.Is(errs[1], b.fails) {
		t.Errorf("got %v, %v, want twice that the name could not be read", errs, err)
	}
}

// TestForeignItemsAreNotKnown: an item that no store has written, which a watch has read, is not remembered.
func TestForeignItemsAreNotKnown(t *testing.T) {
	s := open(newMemory(true))
	for name, c := range map[string]struct {
		change func(*casstore.Item)
		want   bool
	}{
		"good":                           {func(*casstore.Item) {}, true},
		"of the last second":             {func(i *casstore.Item) { i.Record.Granted = lastSecond }, true},
		"of the first second":            {func(i *casstore.Item) { i.Record.Forget = firstSecond }, true},
		"of a second after it":           {func(i *casstore.Item) { i.Record.Granted = lastSecond.Add(time.Second) }, false},
		"of a second before it":          {func(i *casstore.Item) { i.Record.Forget = firstSecond.Add(-time.Second) }, false},
		"a mark below 0":                 {func(i *casstore.Item) { i.Record.Mark = -1 }, false},
		"a number as version, no token":  {func(i *casstore.Item) { i.Version, i.Record.Token = "7", 0 }, false},
		"an error of the backend beside": {func(i *casstore.Item) { i.Err = errKept }, false},
	} {
		good := casstore.Record{Holder: "x", Token: 1, TTL: time.Hour, Write: "w"}
		item := casstore.Item{Name: name, Version: "v", Record: good}
		c.change(&item)
		s.See(item)
		if known := s.Seen(name).Version != ""; known != c.want {
			t.Errorf("%s: remembered: %t", name, known)
		}
	}
	if s.See(casstore.Item{Name: "good"}); s.Seen("good").Version != "" {
		t.Error("what was forgotten since is remembered")
	}
}

// The first and the last second that have a text.
var (
	firstSecond = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// TestNewNamesOfOneBatchAreAboveTheFloor: each of several new names gets a token above the floor, not only the first,
// and also if another one has a token that is above it anyway.
func TestNewNamesOfOneBatchAreAboveTheFloor(t *testing.T) {
	m := newMemory(true)
	m.items[casstore.FloorName] = casstore.Record{Holder: "floor", Token: 100, Released: true, Write: "f"}
	for i, above := range [][]int64{{0, 0, 0}, {200, 0, 0}, {0, 0, 200}} {
		var claims []store.Claim
		for j, a := range above {
			claims = append(claims, store.Claim{Name: fmt.Sprint(i, j), Holder: "x", TTL: time.Hour, Above: a})
		}
		outcomes, err := open(m).Acquire(background, claims)
		if err != nil {
			t.Fatal(err)
		}
		for j, o := range outcomes {
			if want := max(100, above[j]) + 1; o.Err != nil || o.Grant.Token != want {
				t.Errorf("the name %d of %v: %+v, %v, want the token %d", j, above, o.Grant, o.Err, want)
			}
		}
	}
}

// TestInvalidRequestOfABatch: an extension or a release that is not valid is refused, and keeps no other of its batch
// from being carried out.
func TestInvalidRequestOfABatch(t *testing.T) {
	m := newMemory(true)
	s := open(m)
	g, err := acquire(t, s, store.Claim{Name: "a", Holder: "x", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	valid := store.Extension{Name: "a", Holder: "x", Token: g.Token, TTL: time.Hour, Mark: 5}
	errs, err := s.Extend(background, []store.Extension{{Name: "\n", Holder: "x", Token: 1, TTL: time.Hour}, valid})
	if err != nil || !errors.Is(errs[0], store.ErrInvalid) || errs[1] != nil || m.items["a"].Mark != 5 {
		t.Errorf("extensions: %v, %v, of %+v; want the second extended", errs, err, m.items)
	}
	errs, err = s.Release(background, []store.Release{
		{Name: "\n", Holder: "x", Token: 1}, {Name: "a", Holder: "x", Token: g.Token, Retain: time.Hour},
	})
	if err != nil || !errors.Is(errs[0], store.ErrInvalid) || errs[1] != nil || !m.items["a"].Released {
		t.Errorf("releases: %v, %v, of %+v; want the second released", errs, err, m.items)
	}
}

// TestRefusedWithoutAGrant: a claim that found a lease over, and was too late, is refused with nothing of a grant.
func TestRefusedWithoutAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &raced{memory: newMemory(true)}
		s, claim := casstore.New(b, b.config()), store.Claim{Name: "a", Holder: "x", TTL: time.Minute}
		if _, err := acquire(t, s, claim); err != nil {
			t.Fatal(err)
		}
		other := open(b.memory)
		_, _ = acquire(t, other, store.Claim{Name: "a", Holder: "faster", TTL: time.Minute})
		time.Sleep(time.Minute)
		b.before = func() { _, _ = acquire(t, other, store.Claim{Name: "a", Holder: "faster", TTL: time.Minute}) }
		if g, err := acquire(t, s, store.Claim{Name: "a", Holder: "y", TTL: time.Minute}); !errors.Is(err, store.ErrHeld) || g.ExpiredAge != 0 || g.Token != 0 {
			t.Errorf("got %+v, %v, want refused, and no grant", g, err)
		}
	})
}
