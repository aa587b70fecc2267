package server

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// leaseList lists the locks or the leaderships.
func (v *visit) leaseList(kind soloist.Kind) (any, error) {
	path, what, list := "/locks", "locks", (*soloist.Admin).Locks
	if kind == soloist.KindLeader {
		path, what, list = "/leaders", "leaderships", (*soloist.Admin).Leaders
	}
	s := sheet(v, source[soloist.LeaseInfo]{
		path: path, rows: pageRows, list: list, kept: v.leases, name: leaseName,
		is: func(l soloist.LeaseInfo) bool { return l.Kind == kind },
		found: func(l soloist.LeaseInfo, search string) bool {
			return matches(l.Name, search) || matches(l.Replica(), search)
		},
	})
	s.Kind, s.What = kind, what
	return s, nil
}

func (v *visit) semaphoreList() (any, error) {
	return sheet(v, source[soloist.SemaphoreInfo]{
		path: "/semaphores", rows: 20, list: (*soloist.Admin).Semaphores, kept: v.semaphores, name: semaphoreName,
		is:    func(soloist.SemaphoreInfo) bool { return true },
		found: func(i soloist.SemaphoreInfo, search string) bool { return matches(i.Name, search) },
	}), nil
}

// jobSheet returns a sheet of jobs.
func (v *visit) jobSheet(path string, rows int) Sheet[soloist.JobInfo] {
	return sheet(v, source[soloist.JobInfo]{
		path: path, rows: rows, list: (*soloist.Admin).Jobs, kept: v.jobs, name: jobName,
		is:    func(soloist.JobInfo) bool { return true },
		found: func(j soloist.JobInfo, search string) bool { return matches(j.Name, search) },
	})
}

// A replicaRow is a replica, and what it holds besides runs of jobs.
type replicaRow struct {
	soloist.ReplicaInfo
	Holds []soloist.LeaseInfo
	More  int
}

// Replicas is the page of all replicas: their number is that of processes.
type Replicas struct {
	Rows   []*replicaRow
	Search string
	Path   string
	Held   bool // whether it is known what they hold
}

func (v *visit) replicaList() (any, error) {
	v.reading = v.replicas.at.IsZero()
	p := Replicas{Search: v.search(), Path: "/replicas", Held: !v.snapshot.at().IsZero()}
	rows := map[string][]*replicaRow{}
	for _, r := range v.replicas.items {
		if matches(r.Replica, p.Search) {
			row := &replicaRow{ReplicaInfo: r}
			p.Rows = append(p.Rows, row)
			rows[r.Replica] = append(rows[r.Replica], row)
		}
	}
	add := func(l soloist.LeaseInfo) {
		for _, row := range rows[l.Replica()] {
			switch {
			case !v.maySee(l.Name):
			case len(row.Holds) < fewRows:
				row.Holds = append(row.Holds, l)
			default:
				row.More++
			}
		}
	}
	for _, j := range v.jobs.items {
		if j.Running != nil {
			add(j.Running.LeaseInfo)
		}
	}
	for _, all := range []*listed[soloist.LeaseInfo]{v.leases, permits(v.snapshot)} {
		for _, l := range all.items {
			add(l)
		}
	}
	return p, nil
}

// audit shows the actions that the store keeps, the newest first.
func (v *visit) audit() (any, error) {
	v.reading = v.actions.at.IsZero()
	var all []soloist.Action
	for _, a := range slices.Backward(v.actions.items) {
		if one := actionOf(a); v.caller.prefix == "" || v.maySee(one.subject()) {
			all = append(all, a)
		}
	}
	return struct{ Rows []soloist.Action }{all}, nil
}

// directWithin is how long a page may take that reads the store itself.
const directWithin = 2 * time.Second

// An ElementsPage is the jobs that have elements, or the elements of one of them.
type ElementsPage struct {
	Job, Search, State, After, Next string
	Jobs                            []string
	Elements                        []soloist.ElementInfo
	States                          []string
	Cut                             bool // the store has not told all in time
	Prefix                          string
}

var elementStates = []string{"processed", "claimed", "failed", "waiting", "abandoned"}

// elementList reads the elements that a page shows: there can be too many to keep them.
func (v *visit) elementList() (any, error) {
	q := v.URL.Query()
	p := &ElementsPage{Job: q.Get("job"), Search: q.Get("q"), State: q.Get("state"), After: q.Get("after"), States: elementStates}
	if p.State != "" && !slices.Contains(elementStates, p.State) {
		return nil, bad("state", "must be one of processed, claimed, failed, waiting and abandoned")
	}
	ctx, cancel := context.WithTimeout(v.Context, directWithin)
	defer cancel()
	var err error
	if p.Job == "" {
		err = p.readJobs(ctx, v)
	} else if err = v.caller.mayUse(p.Job); err == nil {
		err = p.readElements(ctx, v)
	}
	switch {
	case err != nil && ctx.Err() != nil && v.Err() == nil:
		p.Cut, err = true, nil
	case err != nil:
		v.unread, err = v.call.unread(err)
	}
	return p, err
}

func (p *ElementsPage) readJobs(ctx context.Context, v *visit) error {
	for job, err := range v.server.client.Admin().Part(v.caller.prefix, p.After).ElementJobs(ctx) {
		switch {
		case err != nil:
			return err
		case !matches(job, p.Search):
		case len(p.Jobs) == pageRows:
			p.Next = p.Jobs[pageRows-1]
			return nil
		default:
			p.Jobs = append(p.Jobs, job)
		}
	}
	return nil
}

func (p *ElementsPage) readElements(ctx context.Context, v *visit) error {
	for e, err := range v.server.client.Admin().Part("", p.After).Elements(ctx, p.Job) {
		switch {
		case err != nil:
			return err
		case p.State != "" && e.Status != p.State, !matches(e.ID, p.Search):
		case len(p.Elements) == pageRows:
			p.Next = p.Elements[pageRows-1].ID
			return nil
		default:
			p.Elements = append(p.Elements, e)
		}
	}
	return nil
}

// HolderOf returns the replica that a holder is.
func (p *ElementsPage) HolderOf(e soloist.ElementInfo) string {
	return soloist.LeaseInfo{Holder: e.Holder}.Replica()
}

// A StorePage is what the store is.
type StorePage struct {
	Capabilities store.Capabilities
	Promises     []promise
	Findings     []store.Finding
	Unread       string // what could not be found out
	Ping         time.Duration
	Snapshot     *snapshot
}

type promise struct {
	Name string
	store.Promise
}

// Took returns how long the last reading of the lists took.
func (p StorePage) Took() string {
	if p.Snapshot == nil || p.Snapshot.at().IsZero() {
		return ""
	}
	return span(p.Snapshot.took())
}

func (v *visit) storePage() (any, error) {
	ctx, cancel := context.WithTimeout(v.Context, directWithin)
	defer cancel()
	s := v.server.client.Store()
	p := StorePage{Ping: -1}
	fail := func(what string, err error) {
		v.server.Logger.Warn("looking at the store", "what", what, "err", err)
		p.Unread = what
	}
	begin := time.Now()
	if pinger, is := store.As[store.Pinger](s); is {
		if err := pinger.Ping(ctx); err != nil {
			fail("connection", err)
			return p, nil
		}
		p.Ping = time.Since(begin)
	}
	var err error
	if p.Capabilities, err = store.CapabilitiesOf(ctx, s); err != nil {
		fail("capabilities", err)
	} else {
		c := p.Capabilities
		p.Promises = []promise{{"fencing", c.Fencing}, {"durable", c.Durable}, {"waiting", c.Waiting}}
	}
	if examiner, is := store.As[store.Examiner](s); is {
		if p.Findings, err = examiner.Examine(ctx); err != nil {
			fail("settings", err)
		}
	}
	p.Snapshot = v.server.watch.now()
	return p, nil
}

// plural returns a number with its word.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
