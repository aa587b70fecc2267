package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// Calls that arrive while one is in flight share the next batch; none is answered with another's answer.
func TestCallsShareBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Slow(10 * time.Millisecond)
		start := time.Now()
		var wg sync.WaitGroup
		leases := make([]*soloist.Lease, 64)
		for i := range leases {
			wg.Go(func() { leases[i] = mustLock(t, a, fmt.Sprint("x", i)) })
		}
		wg.Wait()
		if calls, took := s.Calls(), time.Since(start); calls > 2 || took > 20*time.Millisecond {
			t.Errorf("64 locks took %d calls and %v", calls, took)
		}
		for i, l := range leases {
			if l.Name() != fmt.Sprint("x", i) || l.Check(background) != nil {
				t.Errorf("lease %d is of %q: %v", i, l.Name(), l.Err())
			}
		}
	})
}

// Many goroutines to which one reply comes ask again at the same time. Once calls of that verb have shared a request, the
// first of them is not sent alone, so that the others need no second request; unless the scheduler runs it apart.
func TestThoseWhomAReplyWakesShareTheNextRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Slow(10 * time.Millisecond)
		calls := 0
		for try := 0; try < 1000 && calls != 4; try++ { // for the first lock, the others, their releases, and the first one's
			before := s.Calls()
			var wg sync.WaitGroup
			wg.Go(func() {
				first := mustLock(t, a, "first")
				time.Sleep(time.Second)
				_ = first.Release()
			})
			synctest.Wait()
			for i := range 16 {
				wg.Go(func() { _ = mustLock(t, a, fmt.Sprint("x", i)).Release() })
			}
			wg.Wait()
			if calls = s.Calls() - before; calls != 4 && calls != 5 { // one more if the first of the others' releases was sent before another was ready
				t.Fatalf("%d calls in round %d", calls, try)
			}
		}
		if calls != 4 {
			t.Errorf("%d calls, want 4 at some time", calls)
		}
	})
}

// A request that hangs does not hold up those that come after it, be it at once or later.
func TestHangingRequestDoesNotHoldUpOthers(t *testing.T) {
	for _, later := range []time.Duration{time.Millisecond, 99 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := soloisttest.NewReplica(t, hanging{memstore.New()}, soloist.Config{})
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = c.TryLock(background, "hangs") })
			defer wg.Wait()
			time.Sleep(later)
			start := time.Now()
			l := mustLock(t, c, "later")
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("a call %v later took %v", later, took)
			}
			_ = l.Release()
		})
	}
}

// What a batch that hangs is granted is given back when its caller has gone, also when another look has gone past the batch meanwhile and
// has seen nothing.
func TestGrantOfAHangingBatchIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.Slow(5 * time.Millisecond)
		first := make(chan *soloist.Lease)
		go func() { first <- mustLock(t, a, "first") }()
		time.Sleep(time.Millisecond)
		s.Slow(2 * time.Second) // for the next batch, which leaves when the first is back
		begin := time.Now()
		time.AfterFunc(10*time.Millisecond, s.Heal)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		if _, err := a.TryLock(ctx, "second"); !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("got: %v", err)
		}
		_ = (<-first).Release()
		mustLock(t, b, "second").Release()
		time.Sleep(time.Until(begin.Add(2100 * time.Millisecond)))
		mustLock(t, b, "second")
	})
}

// What a late batch was granted is given back in one request, not in one for each name: the store is slow enough.
func TestALateBatchIsGivenBackAsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		ids := make([]string, 500)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		s.Slow(time.Second)
		go func() { _, _ = a.TryLock(background, "first") }() // so that the batch waits for its turn
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(background, time.Second) // it is answered after a little more
		defer cancel()
		if _, err := a.Elements("x", soloist.ElementsOptions{}).ClaimAll(ctx, ids); !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("got: %v", err)
		}
		before := s.Calls()
		time.Sleep(20 * time.Second) // less than a TTL
		s.Heal()
		if calls := s.Calls() - before; calls > 10 {
			t.Errorf("giving a batch back took %d calls", calls)
		}
		claimed, err := b.Elements("x", soloist.ElementsOptions{}).ClaimAll(background, ids)
		for _, c := range claimed {
			err = errors.Join(err, c.Err)
		}
		if err != nil {
			t.Errorf("the elements are not free: %v", err)
		}
	})
}

// partly is a store that carries out all of a batch once, and tells the outcome of its first element only.
type partly struct {
	*memstore.Store
	told *atomic.Bool
}

func (s partly) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	if len(claims) > 1 && s.told.CompareAndSwap(false, true) {
		for i := range outs[1:] {
			outs[i+1] = store.Outcome{Err: store.ErrUnknown}
		}
	}
	return outs, err
}

// What a batch was told a part of is asked for again at once, as the same holders: it may have been granted.
func TestABatchThatIsPartlyAnsweredIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, partly{memstore.New(), new(atomic.Bool)}, soloist.Config{})
		start := time.Now()
		claimed, err := c.Elements("x", soloist.ElementsOptions{}).ClaimAll(background, []string{"a", "b", "c"})
		if err != nil || time.Since(start) != 0 {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		for _, one := range claimed {
			if one.Err != nil || one.Element.Done() != nil {
				t.Errorf("%s: %v", one.ID, one.Err)
			}
		}
	})
}

// hanging is a store that never answers claims of the lock "hangs".
type hanging struct{ *memstore.Store }

func (s hanging) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Name == "lock/hangs" }) {
		<-ctx.Done()
		return nil, store.AsUnknown(ctx.Err())
	}
	return s.Store.Acquire(ctx, claims)
}

// A call whose context ends while it waits for its batch has not been made; one whose batch has left is unknown, and is given
// back.
func TestCallsThatAreGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		held, other := mustLock(t, a, "held"), mustLock(t, a, "other")
		s.Slow(20 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() { must(t, held.Check(background)) })
		time.Sleep(time.Millisecond)
		late, end := context.WithTimeout(background, 25*time.Millisecond)
		defer end()
		if err := other.Check(late); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("an extension, after its batch left: %v", err)
		}
		wg.Wait()
		wg.Go(func() { _ = mustLock(t, a, "first").Release() })
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
		defer cancel()
		if _, err := a.TryLock(ctx, "second"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("before its batch left: %v", err)
		}
		ctx, cancel = context.WithTimeout(background, 25*time.Millisecond)
		defer cancel()
		if _, err := a.TryLock(ctx, "third"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its batch left: %v", err)
		}
		wg.Wait()
		s.Heal()
		time.Sleep(time.Second)
		for _, name := range []string{"second", "third"} {
			mustLock(t, b, name)
		}
	})
}

// By effect: a plain counter that is read and written under the lock loses no update.
func TestManyGoroutinesOnOneLock(t *testing.T) {
	s := soloisttest.NewStore()
	clients := []*soloist.Client{soloisttest.NewReplica(t, s, soloist.Config{}), soloisttest.NewReplica(t, s.Share(), soloist.Config{})}
	const goroutines, each = 32, 20
	counter := 0
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for range each {
				l, err := clients[i%2].Lock(background, "x")
				if err != nil {
					t.Error(err)
					return
				}
				counter++
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if counter != goroutines*each {
		t.Errorf("%d of %d", counter, goroutines*each)
	}
}

// hangsOnce is a store that does not answer the next claim after it was told so.
type hangsOnce struct {
	*soloisttest.Store
	next *atomic.Bool
}

func (s hangsOnce) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if s.next.Swap(false) {
		<-ctx.Done()
		return nil, store.AsUnknown(ctx.Err())
	}
	return s.Store.Acquire(ctx, claims)
}

// A request that hangs does not hold up those that come after it, also if it is not the first that hangs, or the first
// behind which a call has waited.
func TestEachHangingRequestHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, next := soloisttest.NewStore(), new(atomic.Bool)
		s.Slow(10 * time.Millisecond)
		c := soloisttest.NewReplica(t, hangsOnce{s, next}, soloist.Config{})
		for i := range 3 {
			go func() { _, _ = c.TryLock(background, fmt.Sprint("answered ", i)) }()
			synctest.Wait()
			mustLock(t, c, fmt.Sprint("behind it ", i)) // sent when the one before is answered
			time.Sleep(time.Minute)
			next.Store(true)
			go func() { _, _ = c.TryLock(background, fmt.Sprint("hangs ", i)) }()
			synctest.Wait()
			begin := time.Now()
			mustLock(t, c, fmt.Sprint("later ", i))
			if took := time.Since(begin); took > 110*time.Millisecond {
				t.Errorf("a call behind request %d that hangs took %v", i+1, took)
			}
			time.Sleep(time.Minute)
		}
	})
}

// largestBatch is how many names were in one request to acquire.
type largestBatch struct {
	*soloisttest.Store
	most atomic.Int64
}

func (s *largestBatch) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	s.most.Store(max(s.most.Load(), int64(len(claims))))
	return s.Store.Acquire(ctx, claims)
}

// No request has more names than a batch may have, however many calls share it.
func TestBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &largestBatch{Store: soloisttest.NewStore()}
		s.Slow(10 * time.Millisecond)
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				ids := make([]string, 700)
				for j := range ids {
					ids[j] = fmt.Sprint(i, "-", j)
				}
				if _, err := c.Elements("x", soloist.ElementsOptions{}).ClaimAll(background, ids); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most := s.most.Load(); most != 700 {
			t.Errorf("a request has %d names; want 700, for two calls are more than 1024", most)
		}
		start(t, c, manyJobs(3000)...)
		time.Sleep(time.Minute)
		if most := s.most.Load(); most != 1024 {
			t.Errorf("a request for 3000 jobs has %d names; want 1024", most)
		}
	})
}

// A request that was sent when another one landed is no request that hangs: what is asked then waits for its end, however long requests have
// been under way without a pause.
func TestBatchesThatFollowOneAnotherAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Slow(90 * time.Millisecond)
		var wg sync.WaitGroup
		for i, ms := range []int{0, 10, 105, 110} { // the second is sent at 90 ms, and the others at 180 ms
			wg.Go(func() {
				time.Sleep(time.Duration(ms) * time.Millisecond)
				mustLock(t, a, fmt.Sprint("x", i))
			})
		}
		wg.Wait()
		check(t, "requests", s.Calls(), 3)
	})
}

// A store that does not answer has only so many requests of one kind under way, however many calls there are, and all are made when it answers again.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Stall()
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				if _, err := a.TryLock(background, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
		check(t, "requests under way", s.Calls(), 4)
		s.Heal()
		wg.Wait()
	})
}
