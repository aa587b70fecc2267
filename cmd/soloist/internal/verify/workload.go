package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
)

// How a replica spends its time. The names are few, so that replicas meet; spans are parts of the TTL, so that leases
// are renewed, run out and are taken over.
const (
	lockers     = 3   // goroutines that take locks
	lockNames   = 4   // that they take
	permits     = 2   // of the semaphore
	firstBatch  = 10  // elements that a replica claims at once when it begins: a request that fails is an error for each of them
	batchSize   = 400 // the most elements that are claimed at once
	lookEvery   = 5 * time.Millisecond
	jobEvery    = 500 * time.Millisecond
	elementPace = 100 * time.Millisecond // a new batch of elements begins so often
	lookBack    = 30 * time.Second       // elements of the time before are asked for again, those of a moment ago most often
)

// A workload is what one replica does until its context ends.
type workload struct {
	client    *soloist.Client
	rec       *recorder
	service   *resource
	namespace string
	seed      uint64
	ttl       time.Duration
	epoch     time.Time     // from which all replicas count batches of elements, by their wall clocks
	sweeper   store.Sweeper // nil where the backend forgets by itself
	batch     int           // how many elements are claimed at once, so that the store answers well within the TTL; of the elements' goroutine
}

func (w *workload) run(ctx context.Context) error {
	var all sync.WaitGroup
	part := func(n uint64, step func(context.Context, *rand.Rand) error) {
		rng := rand.New(rand.NewPCG(w.seed, n))
		all.Go(func() {
			for failures := 0; ctx.Err() == nil; {
				if err := step(ctx, rng); proof.ResultOf(err) != proof.Failed {
					failures = 0
					continue
				}
				failures++
				sleep(ctx, w.backoff(failures, rng))
			}
		})
	}
	for i := range uint64(lockers) {
		part(10+i, w.lock)
	}
	part(20, w.permit)
	part(21, w.lead)
	part(22, w.elements)
	if w.sweeper != nil {
		part(23, w.sweep)
	}
	err := w.client.Run(ctx, soloist.Job{Name: "job", Schedule: soloist.Every(jobEvery), Missed: soloist.MissedAll, MissedCap: 1_000_000, Grace: time.Second, Do: w.job})
	all.Wait()
	return err
}

// backoff is how long a part of the work pauses after so many failures in a row. A store that is away refuses at once: without the pause those failures would outnumber by
// far what is done in as long a time when it is there.
func (w *workload) backoff(failures int, rng *rand.Rand) time.Duration {
	longest := min(w.ttl/4, 5*time.Millisecond<<min(failures, 20))
	return longest/2 + time.Duration(rng.Int64N(int64(longest/2+1)))
}

// span draws how long a lease is held: mostly short, now and then for longer than its TTL.
func (w *workload) span(rng *rand.Rand) time.Duration {
	switch rng.IntN(20) {
	case 0:
		return time.Duration(rng.Int64N(int64(2 * w.ttl)))
	case 1, 2, 3:
		return time.Duration(rng.Int64N(int64(w.ttl / 4)))
	}
	return time.Duration(rng.Int64N(int64(10 * time.Millisecond)))
}

func (w *workload) lock(ctx context.Context, rng *rand.Rand) error {
	name := w.now("lock-" + strconv.Itoa(rng.IntN(lockNames)))
	take := w.client.TryLock
	if rng.IntN(3) == 0 {
		take = w.client.Lock
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*w.ttl)
		defer cancel()
	}
	lease, err := take(ctx, name)
	if err != nil {
		w.rec.troubled(err)
		sleep(ctx, time.Duration(rng.Int64N(int64(20*time.Millisecond))))
		return err
	}
	w.hold(lease, w.record("lock/"+name), 1, w.span(rng), rng)
	w.release(ctx, lease)
	return nil
}

// release gives a lease back.
func (w *workload) release(ctx context.Context, lease *soloist.Lease) {
	begin := time.Now()
	w.rec.troubled(lease.Release())
	w.rest(ctx, time.Since(begin))
}

func (w *workload) permit(ctx context.Context, rng *rand.Rand) error {
	name := w.now("sem")
	lease, err := w.client.Semaphore(name, permits).TryAcquire(ctx)
	if err != nil {
		w.rec.troubled(err)
		sleep(ctx, time.Duration(rng.Int64N(int64(20*time.Millisecond))))
		return err
	}
	w.hold(lease, w.record("semaphore/"+name), permits, w.span(rng), rng)
	w.release(ctx, lease)
	return nil
}

func (w *workload) lead(ctx context.Context, rng *rand.Rand) error {
	lease, err := w.client.Campaign(ctx, "leader")
	if err != nil {
		w.rec.troubled(err)
		sleep(ctx, 10*time.Millisecond)
		return err
	}
	w.hold(lease, w.record("leader/leader"), 1, w.ttl/2+w.span(rng), rng)
	w.rec.troubled(lease.Release())
	sleep(ctx, time.Duration(rng.Int64N(int64(w.ttl))))
	return nil
}

// hold believes in a lease for d, or until it is lost, and writes to the resource under it. What is recorded of the
// belief are instants before which the lease was seen to be held.
func (w *workload) hold(lease *soloist.Lease, what string, limit int, d time.Duration, rng *rand.Rand) {
	belief := w.rec.belief(what, limit, lease.Holder(), lease.Token())
	defer belief.end()
	writes := limit == 1 && rng.IntN(2) == 0
	for end := time.Now().Add(d); ; {
		if !belief.look(lease) {
			return
		}
		if writes {
			w.service.write(lease.Context(), what, lease.Token())
		}
		left := time.Until(end)
		if left <= 0 {
			return
		}
		sleep(lease.Context(), min(left, lookEvery))
	}
}

// elements claims and processes the batch that is due by the wall clock, as do all replicas. After a failure it claims one: a request that
// fails is an error for each of them.
func (w *workload) elements(ctx context.Context, rng *rand.Rand) error {
	batch := int(time.Since(w.epoch) / elementPace)
	if rng.IntN(3) == 0 { // what was recorded must still be known
		batch = max(0, batch-int(float64(lookBack/elementPace)*math.Pow(rng.Float64(), 2)))
	}
	ids := make([]string, w.batch)
	for i := range ids {
		ids[i] = fmt.Sprintf("%d-%d", batch, i)
	}
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	elements := w.client.Elements("elements", soloist.ElementsOptions{Retain: time.Hour})
	begin := time.Now()
	claimed, err := elements.ClaimAll(ctx, ids[:1+rng.IntN(len(ids))])
	took := time.Since(begin)
	if w.batch = min(w.batch+1+w.batch/4, batchSize); took > w.ttl/20 {
		w.batch = max(len(ids)/2, 2)
	}
	if err != nil {
		w.rec.troubled(err)
		w.batch = 1
		sleep(ctx, elementPace/4)
		return err
	}
	defer w.rest(ctx, took)
	var failed error
	var mine []*soloist.Element
	var beliefs []*belief
	for _, c := range claimed {
		if c.Err != nil {
			if w.rec.troubled(c.Err); proof.ResultOf(c.Err) == proof.Failed {
				failed = c.Err
			}
			continue
		}
		name := w.record("element/elements/" + c.ID)
		b := w.rec.belief(name, 1, c.Element.Holder(), c.Element.Token())
		if b.look(c.Element.Lease) {
			w.rec.processing(name, c.Element, b.e.At)
		}
		mine, beliefs = append(mine, c.Element), append(beliefs, b)
	}
	sleep(ctx, time.Duration(rng.Int64N(int64(5*time.Millisecond))))
	for i, el := range mine {
		beliefs[i].look(el.Lease)
		beliefs[i].end()
	}
	if failed != nil {
		w.batch = 1
	}
	if len(mine) == 0 {
		sleep(ctx, elementPace/4)
		return failed
	}
	for _, err := range elements.DoneAll(mine) {
		w.rec.troubled(err)
	}
	return nil
}

// sweep lets the store forget what it may, now and then, at once or some of it. It is done by the store itself: a
// request that is lost or late would be one that came at another time.
func (w *workload) sweep(ctx context.Context, rng *rand.Rand) error {
	if !sleep(ctx, time.Duration(rng.Int64N(int64(w.ttl/2)))) {
		return nil
	}
	begin := fleet.Now()
	bound, cancel := context.WithTimeout(ctx, w.ttl)
	defer cancel()
	if _, err := w.rec.swept(bound, w.sweeper, 1+rng.IntN(1000)); err != nil && ctx.Err() == nil {
		w.rec.troubled(err)
	}
	w.rest(ctx, fleet.Now()-begin)
	return nil // it pauses anyway
}

// job is one run.
func (w *workload) job(ctx context.Context, run soloist.Run) error {
	b := w.rec.belief(w.record("job/"+run.Job), 1, run.Lease.Holder(), run.Lease.Token())
	defer b.end()
	if !b.look(run.Lease) {
		return errors.New("the lease was lost before the run did anything")
	}
	told := w.rec.running(run, b.e.At)
	sleep(ctx, time.Duration(rand.Int64N(int64(10*time.Millisecond))))
	var err error
	if !b.look(run.Lease) {
		err = errors.New("the lease was lost in the run")
	}
	w.rec.ran(told, err)
	return err
}

// rest lets a store that is slow to answer do something else.
func (w *workload) rest(ctx context.Context, took time.Duration) {
	if took > w.ttl/20 {
		sleep(ctx, 2*took)
	}
}

// record is the name of a record in the store.
func (w *workload) record(name string) string { return records.In(w.namespace) + name }

// now makes names that serve for a while, so that the history of none of them grows too long to be checked.
func (w *workload) now(name string) string {
	return fmt.Sprintf("%s@%d", name, time.Since(w.epoch)/(4*w.ttl))
}
