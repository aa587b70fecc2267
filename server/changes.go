package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist"
)

// Event is a change that GET /v1/events tells. The fields that it has depend on event.
type Event struct {
	Event   string       `json:"event" jsonschema:"store, first, and when the store can be reached again or not any more; started and ended, of a run; taken and freed, of a lease; job, when it was paused, resumed, added or forgotten; replica; action; many, when so much has changed that lists should be read again; end, last"`
	Kind    string       `json:"kind,omitempty" jsonschema:"of taken and freed: lock, leader or permit"`
	Name    string       `json:"name,omitempty" jsonschema:"of a job or a lease"`
	Permit  *int         `json:"permit,omitempty" jsonschema:"of a semaphore, from 0"`
	Replica string       `json:"replica,omitempty"`
	Token   int64        `json:"token,omitempty"`
	Attempt int          `json:"attempt,omitempty" jsonschema:"of a run that has started, from 1"`
	At      *time.Time   `json:"at,omitempty" jsonschema:"when a run started or a lease was taken; of store, when the store was read"`
	Run     *Run         `json:"run,omitempty" jsonschema:"of ended"`
	Job     *Job         `json:"job,omitempty" jsonschema:"of job; absent if it was forgotten"`
	Process *Replica     `json:"process,omitempty" jsonschema:"of replica; absent if it has withdrawn"`
	Action  *Action      `json:"action,omitempty"`
	Store   *StoreStatus `json:"store,omitempty"`
	Why     string       `json:"why,omitempty" jsonschema:"of end: slow, if events were not read in time, or closing"`
}

// StoreStatus is whether the store could be read.
type StoreStatus struct {
	Reachable bool    `json:"reachable" jsonschema:"whether it could be read to its end, be it with records that something else has written"`
	Took      float64 `json:"took" jsonschema:"seconds that reading it took"`
}

// An event is one of a batch, in the form in which it is sent.
type event struct {
	name    string
	subject string // the name by which a caller's prefix goes; what has none is for callers without a prefix
	forAll  bool   // whatever prefix a caller has
	data    []byte
}

// eventForAll makes an event of nothing that a prefix is about.
func eventForAll(e Event) event {
	one := newEvent("", e)
	one.forAll = true
	return one
}

func newEvent(subject string, e Event) event {
	data, err := json.Marshal(e)
	if err != nil { // a time of a year with five digits
		data, _ = json.Marshal(Event{Event: e.Event, Kind: e.Kind, Name: e.Name, Token: e.Token})
	}
	return event{name: e.Event, subject: subject, data: data}
}

// maxChanges is how many changes a batch has at most.
const maxChanges = 1000

// changes returns what is different in two snapshots. What is in the second alone has changed only if the list could be read to its end before.
func changes(before, now *snapshot) []event {
	var all []event
	if before.cut() != now.cut() {
		all = append(all, storeEvent(now))
	}
	status := len(all)
	diff(before.jobs, now.jobs, jobName, func(old, job *soloist.JobInfo) { all = append(all, jobChanges(old, job)...) })
	diff(before.leases, now.leases, leaseKey, func(old, l *soloist.LeaseInfo) { all = append(all, leaseChanges(old, l, now.leases.at)...) })
	diff(permits(before), permits(now), leaseKey, func(old, l *soloist.LeaseInfo) { all = append(all, leaseChanges(old, l, now.semaphores.at)...) })
	diff(before.replicas, now.replicas, replicaKey, func(old, r *soloist.ReplicaInfo) {
		switch {
		case r == nil:
			all = append(all, eventForAll(Event{Event: "replica", Replica: old.Replica}))
		case old == nil || old.Alive != r.Alive || old.Jobs != r.Jobs:
			process := replicaOf(*r)
			all = append(all, eventForAll(Event{Event: "replica", Replica: r.Replica, Process: &process}))
		}
	})
	diff(before.actions, now.actions, actionKey, func(old, a *soloist.Action) {
		if old == nil {
			all = append(all, actionEvent(*a))
		}
	})
	if len(all)-status > maxChanges {
		all = append(all[:status], eventForAll(Event{Event: "many"}))
	}
	return all
}

// since returns what can be known of the changes after an instant from a snapshot alone: leases that were given back, and others that only the
// store's records of that time had, are not among it.
func (s *snapshot) since(t time.Time) (all []event) {
	for _, j := range s.jobs.items {
		for _, r := range j.Runs {
			if r.EndedAt.After(t.Add(-lateRecord)) {
				all = append(all, endedEvent(j.Name, r))
			}
		}
		if j.Running != nil && j.Running.Since.After(t) {
			all = append(all, startedEvent(j))
		}
	}
	for _, taken := range []*listed[soloist.LeaseInfo]{s.leases, permits(s)} {
		for _, l := range taken.items {
			if taken.at.Add(-l.Age).After(t) && l.Holder != "" {
				all = append(all, takenEvent(l, taken.at))
			}
		}
	}
	for _, a := range s.actions.items {
		if a.At.After(t) {
			all = append(all, actionEvent(a))
		}
	}
	if len(all) > maxChanges {
		return []event{eventForAll(Event{Event: "many"})}
	}
	return all
}

// diff calls change with each item of the lists that is not in the other one, beside nil, and with each that is in both. What a read that was cut has not is not
// known to have gone.
func diff[T any](old, new *listed[T], key func(T) string, change func(old, now *T)) {
	if old.at.IsZero() || old.at.Equal(new.at) { // it was not read before, or not again
		return
	}
	before, now := old.known(), new.known()
	was := make(map[string]*T, len(before))
	for i := range before {
		was[key(before[i])] = &before[i]
	}
	for i := range now {
		k := key(now[i])
		if was[k] != nil || !old.whole.IsZero() { // or it may have been there all the time
			change(was[k], &now[i])
		}
		delete(was, k)
	}
	if new.cut {
		return
	}
	for i := range before {
		if was[key(before[i])] == &before[i] {
			change(&before[i], nil)
		}
	}
}

// permits returns the permits of all semaphores, as they were read.
func permits(s *snapshot) *listed[soloist.LeaseInfo] {
	of := func(semaphores []soloist.SemaphoreInfo) (all []soloist.LeaseInfo) {
		for _, one := range semaphores {
			all = append(all, one.Permits...)
		}
		return all
	}
	return &listed[soloist.LeaseInfo]{items: of(s.semaphores.items), stood: of(s.semaphores.stood), at: s.semaphores.at, whole: s.semaphores.whole, cut: s.semaphores.cut}
}

func actionKey(a soloist.Action) string {
	return fmt.Sprint(a.At.UnixNano(), "\x00", a.By, "\x00", a.Verb, "\x00", a.Kind, "\x00", a.Name, "\x00", a.Job, "\x00", a.Permit)
}

func storeEvent(s *snapshot) event {
	at := s.at().UTC()
	return eventForAll(Event{Event: "store", At: &at, Store: &StoreStatus{!s.cut(), s.took().Seconds()}})
}

func actionEvent(a soloist.Action) event {
	one := actionOf(a)
	return newEvent(one.subject(), Event{Event: "action", Name: a.Name, Action: &one})
}

func startedEvent(j soloist.JobInfo) event {
	at := j.Running.Since.UTC()
	return newEvent(j.Name, Event{Event: "started", Name: j.Name, Replica: j.Running.Replica(), Token: j.Running.Token, Attempt: j.Running.Attempt, At: &at})
}

func endedEvent(job string, r soloist.RunRecord) event {
	run := runOf(r)
	return newEvent(job, Event{Event: "ended", Name: job, Replica: r.Replica, Token: r.Token, Run: &run})
}

func takenEvent(l soloist.LeaseInfo, read time.Time) event {
	at := read.Add(-l.Age).UTC()
	e := leaseEvent("taken", l)
	e.At, e.Replica = &at, l.Replica()
	return newEvent(l.Name, e)
}

func leaseEvent(what string, l soloist.LeaseInfo) Event {
	e := Event{Event: what, Kind: string(l.Kind), Name: l.Name, Token: l.Token}
	if l.Kind == soloist.KindPermit {
		e.Permit = &l.Permit
	}
	return e
}

func leaseChanges(old, l *soloist.LeaseInfo, read time.Time) (all []event) {
	held := func(l *soloist.LeaseInfo) bool { return l != nil && l.Holder != "" }
	if held(old) && held(l) && old.Token == l.Token {
		return nil
	}
	if held(old) {
		all = append(all, newEvent(old.Name, leaseEvent("freed", *old)))
	}
	if held(l) {
		all = append(all, takenEvent(*l, read))
	}
	return all
}

// jobChanges returns what is different in a job. Either may be nil.
func jobChanges(old, job *soloist.JobInfo) (all []event) {
	if job == nil {
		return []event{newEvent(old.Name, Event{Event: "job", Name: old.Name})}
	}
	if old == nil || differs(*old, *job) {
		one := jobOf(*job)
		one.Running = nil // its time left is old at once; started tells it
		all = append(all, newEvent(job.Name, Event{Event: "job", Name: job.Name, Job: &one}))
	}
	if old == nil {
		old = &soloist.JobInfo{}
	}
	for _, r := range job.Runs {
		if !slices.ContainsFunc(old.Runs, func(o soloist.RunRecord) bool { return sameRun(o, r) }) {
			all = append(all, endedEvent(job.Name, r))
		}
	}
	if job.Running != nil && (old.Running == nil || old.Running.Token != job.Running.Token) {
		all = append(all, startedEvent(*job))
	}
	return all
}

func sameRun(a, b soloist.RunRecord) bool {
	return a.Token == b.Token && a.Attempt == b.Attempt && a.StartedAt.Equal(b.StartedAt) && a.EndedAt.Equal(b.EndedAt)
}

// differs reports whether what people see of a job is different, besides its runs.
func differs(a, b soloist.JobInfo) bool {
	pause := func(i soloist.JobInfo) soloist.Pause {
		if i.Paused == nil {
			return soloist.Pause{}
		}
		p := *i.Paused
		p.At = p.At.UTC().Round(0)
		return p
	}
	byReplica := func(a, b soloist.Definition) int { return cmp.Compare(a.Replica, b.Replica) }
	return a.Schedule != b.Schedule || a.About != b.About || pause(a) != pause(b) || a.Manual != b.Manual ||
		!slices.Equal(slices.SortedFunc(slices.Values(a.Replicas), byReplica), slices.SortedFunc(slices.Values(b.Replicas), byReplica))
}
