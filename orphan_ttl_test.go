package soloist

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// An unreadableStore is one whose records cannot be read for a while.
type unreadableStore struct {
	*memstore.Store
	away  atomic.Bool
	part  atomic.Pointer[string] // a name whose record cannot be read; nil for none
	reads atomic.Int32
}

func (s *unreadableStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark < 0 {
		s.reads.Add(1)
	}
	if claims[0].Mark < 0 && s.away.Load() {
		return nil, errors.New("away")
	}
	outs, err := s.Store.Acquire(ctx, claims)
	if name := s.part.Load(); name != nil && err == nil {
		for i, c := range claims {
			if c.Name == *name && c.Mark < 0 {
				outs[i] = store.Outcome{Err: errors.New("this one cannot be read")}
			}
		}
	}
	return outs, err
}

// What a request for several TTLs may have been granted is looked for until the longest of them has ended.
func TestOrphansOfSeveralTTLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &unreadableStore{Store: memstore.New()}
		c := forceClient(t, s)
		claims := []store.Claim{{Name: "lock/long", Holder: "h", TTL: time.Minute}, {Name: "lock/short", Holder: "h", TTL: time.Second}}
		if outs, err := s.Acquire(t.Context(), claims); err != nil || outs[0].Err != nil || outs[1].Err != nil {
			t.Fatal(outs, err)
		}
		s.away.Store(true)
		c.releaseOrphans(claims, c.clock.earliest())
		time.Sleep(10 * time.Second)
		s.away.Store(false)
		time.Sleep(30 * time.Second)
		if l, err := c.TryLock(t.Context(), "long"); err != nil {
			t.Error(err)
		} else if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
}

// What cannot be read of a batch is looked for again, until it can. What has been given back is looked for until its TTL is over, and then no more.
func TestOrphanThatCannotBeReadAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &unreadableStore{Store: memstore.New()}
		c := forceClient(t, s)
		claims := []store.Claim{{Name: "lock/x", Holder: "h", TTL: time.Minute}, {Name: "lock/y", Holder: "h", TTL: time.Minute}}
		if outs, err := s.Acquire(t.Context(), claims); err != nil || outs[0].Err != nil || outs[1].Err != nil {
			t.Fatal(outs, err)
		}
		s.part.Store(&claims[1].Name)
		c.releaseOrphans(claims, c.clock.earliest())
		for i, name := range []string{"x", "y"} {
			time.Sleep(15 * time.Second)
			if l, err := c.TryLock(t.Context(), name); err != nil {
				t.Errorf("%s has not been given back: %v", name, err)
			} else if err := l.Release(); err != nil {
				t.Error(err)
			}
			if s.part.Store(nil); i == 1 {
				time.Sleep(30 * time.Second)
				reads := s.reads.Load()
				time.Sleep(time.Minute)
				if more := s.reads.Load() - reads; more != 0 {
					t.Errorf("%d more requests when the TTL is over", more)
				}
			}
		}
	})
}

// A releasedStore counts releases.
type releasedStore struct {
	*memstore.Store
	releases atomic.Int32
}

func (s *releasedStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	s.releases.Add(int32(len(releases))) //nolint:gosec // a few
	return s.Store.Release(ctx, releases)
}

// What a request was not granted, and another has been, is not released: nor is what nobody has.
func TestOrphansOfOthersAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &releasedStore{Store: memstore.New()}
		c := forceClient(t, s)
		claims := []store.Claim{{Name: "lock/theirs", Holder: "h", TTL: time.Minute}, {Name: "lock/free", Holder: "h", TTL: time.Minute}, {Name: "lock/ours", Holder: "h", TTL: time.Minute}}
		theirs := claims[0]
		theirs.Holder = "another"
		if outs, err := s.Acquire(t.Context(), []store.Claim{theirs, claims[2]}); err != nil || outs[0].Err != nil || outs[1].Err != nil {
			t.Fatal(outs, err)
		}
		c.releaseOrphans(claims, c.clock.earliest())
		time.Sleep(time.Second)
		if n := s.releases.Load(); n != 1 {
			t.Errorf("%d releases; want that of the one that was granted", n)
		}
	})
}

// Of a batch whose caller has gone, what was granted is given back, whatever was refused before it.
func TestWhatIsGrantedOfALateBatchIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		c := forceClient(t, s)
		taken := []store.Claim{{Name: "lock/a", Holder: "other", TTL: time.Minute}, {Name: "lock/c", Holder: "other", TTL: time.Minute}}
		var claims []store.Claim
		for _, name := range []string{"a", "b", "c", "d"} {
			claims = append(claims, store.Claim{Name: "lock/" + name, Holder: "h", TTL: time.Minute})
		}
		if outs, err := s.Acquire(t.Context(), taken); err != nil || outs[0].Err != nil || outs[1].Err != nil {
			t.Fatal(outs, err)
		}
		outs, err := s.Acquire(t.Context(), claims)
		if err != nil {
			t.Fatal(err)
		}
		c.releaseOutcomes(claims, outs, time.Now())
		for name, free := range map[string]bool{"a": false, "b": true, "c": false, "d": true} {
			if _, err := c.TryLock(t.Context(), name); (err == nil) != free {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// The record of a job whose claim was abandoned says when it was claimed, and not when it was given back: only then the next replica knows that the claim was in time.
func TestOrphanedClaimOfAJobIsOfWhenItWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &unreadableStore{Store: memstore.New()}
		c := forceClient(t, s)
		claims := []store.Claim{{Name: "job/x", Holder: "h", TTL: time.Hour, Mark: 7_000}}
		create := store.Claim{Name: "job/x", Holder: "maker", TTL: time.Hour}
		outs, err := s.Acquire(t.Context(), []store.Claim{create})
		if err != nil || outs[0].Err != nil {
			t.Fatal(outs, err)
		}
		state := (&jobState{Since: 1}).json()
		if errs, err := s.Release(t.Context(), []store.Release{{Name: "job/x", Holder: "maker", Token: outs[0].Grant.Token, State: state, Retain: Forever}}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		asked, before := time.Now(), c.clock.earliest()
		if outs, err := s.Acquire(t.Context(), claims); err != nil || outs[0].Err != nil {
			t.Fatal(outs, err)
		}
		time.Sleep(3 * time.Minute)
		c.releaseOrphans(claims, before)
		synctest.Wait()
		records, err := c.peek(t.Context(), []string{"job/x"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseJobState(records[0].State); err != nil || got.Claimed != 7_000 || got.Asked != asked.UnixMilli() {
			t.Errorf("%+v, %v; want that it was claimed at %d", got, err, asked.UnixMilli())
		}
	})
}

// Who is refused again and again because of one lease slows down, and who is refused because of one after the other does not: the name is busy then.
func TestRefusalsBecauseOfOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for same, slow := range map[bool]bool{true: true, false: false} {
			var r refusals
			begin := time.Now()
			for i := range 40 {
				token := int64(i)
				if same {
					token = 7
				}
				r.refused(t.Context(), token, time.Minute)
			}
			if took := time.Since(begin); (took > 0) != slow {
				t.Errorf("one lease %t: 40 refusals took %v", same, took)
			}
		}
	})
}
