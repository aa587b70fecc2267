package soloist

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A LeaseInfo describes a name that is not free: it is held, or lingers after its release.
type LeaseInfo struct {
	Kind   Kind
	Name   string // as the user gave it; the ID of an element, the semaphore of a permit
	Job    string // of an element
	Permit int    // number of a permit in its semaphore, from 0
	Holder string // "" while the name lingers after a release
	Token  int64
	Left   time.Duration // until it expires, unless it is renewed
	Age    time.Duration // since it was granted
}

// Replica returns the name of the replica that has the lease; "" while the name lingers after a release.
func (l LeaseInfo) Replica() string { return replicaOf(l.Holder) }

func leaseInfo(kind Kind, name string, r store.Record) LeaseInfo {
	return LeaseInfo{Kind: kind, Name: name, Holder: r.Holder, Token: r.Token, Left: r.Left, Age: r.Age}
}

// Locks lists the locks that are held or linger.
func (a *Admin) Locks(ctx context.Context) iter.Seq2[LeaseInfo, error] {
	return a.taken(ctx, "locks", KindLock, kindLock)
}

// Leaders lists the leaderships that are held or linger.
func (a *Admin) Leaders(ctx context.Context) iter.Seq2[LeaseInfo, error] {
	return a.taken(ctx, "leaderships", KindLeader, kindLeader)
}

func (a *Admin) taken(ctx context.Context, what string, kind Kind, begin string) iter.Seq2[LeaseInfo, error] {
	return view(ctx, a.client.core, what, a.client.names.prefix+begin, a.part, func(name string, r store.Record) (LeaseInfo, bool, error) {
		return leaseInfo(kind, name, r), !r.Free(), nil
	})
}

// A SemaphoreInfo describes a semaphore.
type SemaphoreInfo struct {
	Name    string
	Limit   int         // how many permits there are according to the holders, the highest if they differ; 0 if no permit is held
	Permits []LeaseInfo // those that are held or linger
}

// Semaphores lists the semaphores that have a record in the store.
func (a *Admin) Semaphores(ctx context.Context) iter.Seq2[SemaphoreInfo, error] {
	return func(yield func(SemaphoreInfo, error) bool) {
		var one SemaphoreInfo
		for permit, err := range a.permits(ctx) {
			if permit.Name != one.Name && one.Name != "" && !yield(one, nil) {
				return
			}
			if err != nil {
				yield(SemaphoreInfo{}, err)
				return
			}
			if permit.Name != one.Name {
				one = SemaphoreInfo{Name: permit.Name}
			}
			if permit.Left > 0 {
				one.Permits, one.Limit = append(one.Permits, permit), max(one.Limit, limitOf(permit.Holder))
			}
		}
		if one.Name != "" {
			yield(one, nil)
		}
	}
}

// permits lists the permits of all semaphores, free ones included.
func (a *Admin) permits(ctx context.Context) iter.Seq2[LeaseInfo, error] {
	return view(ctx, a.client.core, "semaphores", a.client.names.prefix+kindSemaphore, a.part.escaped(), func(rest string, r store.Record) (LeaseInfo, bool, error) {
		name, number, _ := strings.Cut(rest, "/")
		n, err := strconv.Atoi(number)
		if err != nil {
			return LeaseInfo{}, false, unreadableRecord(fmt.Errorf("%q is not a permit of a semaphore", r.Name))
		}
		info := leaseInfo(KindPermit, unescape(name), r)
		info.Permit = n
		return info, true, nil
	})
}

// ElementJobs lists the jobs that have elements.
func (a *Admin) ElementJobs(ctx context.Context) iter.Seq2[string, error] {
	_, pager := store.As[store.Pager](a.client.store)
	return func(yield func(string, error) bool) {
		left, last := a.part.escaped(), ""
		for ended := false; !ended; left.after = afterParts(last) {
			ended = true
			same := 0
			for job, err := range a.elementJobs(ctx, left) {
				if err != nil {
					yield("", err)
					return
				}
				if job != last {
					if !yield(unescape(job), nil) {
						return
					}
					same, last = 0, job
				}
				if same++; pager && same > manyElements { // the next job is read without the rest of this one
					ended = false
					break
				}
			}
		}
	}
}

// manyElements is how many elements of a job are read on the way to the next job.
const manyElements = 100

// elementJobs lists the escaped job of each element.
func (a *Admin) elementJobs(ctx context.Context, p part) iter.Seq2[string, error] {
	return view(ctx, a.client.core, "elements", a.client.names.prefix+kindElement, p, func(rest string, _ store.Record) (string, bool, error) {
		job, _, _ := strings.Cut(rest, "/")
		return job, true, nil
	})
}

// Elements lists the elements of a job that have been claimed.
func (a *Admin) Elements(ctx context.Context, job string) iter.Seq2[ElementInfo, error] {
	what := fmt.Sprintf("the elements of %q", job)
	return view(ctx, a.client.core, what, a.client.names.prefix+partsOf(kindElement, job), a.part, func(id string, r store.Record) (ElementInfo, bool, error) {
		info, err := elementInfo(id, r)
		return info, true, unreadableRecord(err)
	})
}

// ErrNoElement reports that no replica has ever claimed an element of that name, or that it has been forgotten.
var ErrNoElement = errors.New("no such element")

// RetryElement lets a failed element be claimed again, as if it had never been tried. The error is ErrNoElement if there is no such element,
// ErrHeld while a replica has it or a back-off lasts, and ErrDone when it is processed. A back-off cannot be ended: the store keeps the name
// until then, and the error says how long that is. Where the end of either is overdue, RetryElement waits as Options.Overdue of the client says.
func (a *Admin) RetryElement(ctx context.Context, job, id string) error {
	c := a.patient()
	e := c.Elements(job, ElementsOptions{})
	if err := e.usable(); err != nil {
		return err
	}
	t, err := e.target(id)
	if err != nil {
		return err
	}
	records, err := c.peek(ctx, []string{t.name})
	if err != nil {
		return err
	}
	if records[0].Token == 0 {
		return ErrNoElement
	}
	l, err := c.persist(ctx, t, c.try)
	var held *HeldError
	switch {
	case errors.As(err, &held) && held.Holder == "" && held.Token > 0:
		return fmt.Errorf("its last attempt has failed, and the back-off after it cannot be ended: try again in %v: %w", held.Left.Round(time.Second), err)
	case err != nil:
		return err
	}
	err = released(l.release(store.Release{State: []byte{}}))
	return a.note(ctx, Action{Verb: ActionRetry, Kind: KindElement, Name: id, Job: job}, err)
}
