package sim

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
)

// health is what tells when a replica was well: while it ran its jobs, all its requests were answered within promptly, its machine was
// not suspended, and it was not about to end. A request that was not answered so makes it unwell from when it was sent until its end, and
// then for as long as a client may wait before it asks again.
type health struct {
	mu   sync.Mutex
	runs []lived // its jobs
	ill  []illness
}

// An illness is trouble with requests about some names, or with all if there are none.
type illness struct {
	pause
	replica string
	names   []string
}

// lived is a time in which a life of a replica ran its jobs.
type lived struct {
	pause
	replica string
}

const (
	// recovery is how long a client takes at most from the end of a request that failed to its next.
	recovery = 1600 * time.Millisecond
	// registering is how long a replica takes at most to begin with its jobs, if it is well.
	registering = 50 * time.Millisecond
)

// promptly is how long a request takes at most that meets no fault.
func (p *Plan) promptly() time.Duration { return p.Lag + 5*time.Millisecond }

// knows records that the replica runs its jobs from now on.
func (r *replica) knows() {
	h, now := &r.health, r.world.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = append(h.runs, lived{pause{now + registering, proof.Never}, r.name()})
}

// leaves records that the replica no longer runs them.
func (r *replica) leaves() {
	h, now := &r.health, r.world.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.runs); n > 0 {
		h.runs[n-1].to = min(h.runs[n-1].to, now)
	}
}

// unwell records that the replica has not been well since an instant, with requests about some names.
func (r *replica) unwell(since time.Duration, names ...string) {
	h, now := &r.health, r.world.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ill = append(h.ill, illness{pause{since, now}, r.name(), names})
}

// sleeps records that the replica's machine has been suspended for a while. Leases that were taken before end by so much sooner.
func (r *replica) sleeps(d time.Duration) {
	r.unwell(r.world.now())
	h := &r.health
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ill[len(h.ill)-1].to += d
}

// well returns when the replica was well. It is for the end of the history.
func (r *replica) well() (all proof.History) {
	h := &r.health
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.ill, func(a, b illness) int { return cmp.Compare(a.from, b.from) })
	for _, run := range h.runs {
		from := run.from
		until := func(to time.Duration) {
			if from < to {
				for _, j := range r.jobs() {
					all = append(all, proof.Event{Kind: proof.Well, At: from, Until: to, Replica: run.replica, Name: j.Name})
				}
			}
		}
		for _, ill := range h.ill {
			ill.to += recovery
			if ill.to <= from || ill.from >= run.to {
				continue
			}
			until(ill.from)
			from = max(from, ill.to)
		}
		until(run.to)
	}
	for _, ill := range h.ill {
		e := proof.Event{Kind: proof.Ill, At: ill.from, Until: ill.to, Replica: ill.replica}
		if len(ill.names) == 0 {
			all = append(all, e)
		}
		for _, e.Name = range ill.names {
			all = append(all, e)
		}
	}
	return all
}
