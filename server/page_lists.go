package server

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// pageRows is how many rows a page has.
const pageRows = 100

// A Sheet is a part of a list, by number.
type Sheet[T any] struct {
	Rows             []T
	Search           string
	Total, From, To  int
	Before, After    int // numbers of the sheets beside it, from 1; 0 if there is none
	Kind, What, Path string
}

// sheet returns the part of a list that a request is for.
func sheet[T any](v *visit, path string, rows int, all []T) (Sheet[T], error) {
	n, err := v.number("page", 1, 1<<30, 1)
	if err != nil {
		return Sheet[T]{}, err
	}
	s := Sheet[T]{Search: v.search(), Total: len(all), Path: path}
	from := min((int(n)-1)*rows, len(all))
	to := min(from+rows, len(all))
	if s.Rows = all[from:to]; to > from {
		s.From, s.To = from+1, to
	}
	if n > 1 {
		s.Before = int(n) - 1
	}
	if to < len(all) {
		s.After = int(n) + 1
	}
	return s, nil
}

func (v *visit) search() string { return v.URL.Query().Get("q") }

// leaseList lists the locks or the leaderships.
func (v *visit) leaseList(kind soloist.Kind) (any, error) {
	var all []soloist.LeaseInfo
	for _, l := range v.leases.items {
		if l.Kind == kind && v.caller.mayUse(l.Name) == nil && (matches(l.Name, v.search()) || matches(l.Replica(), v.search())) {
			all = append(all, l)
		}
	}
	path, what := "/locks", "locks"
	if kind == soloist.KindLeader {
		path, what = "/leaders", "leaderships"
	}
	s, err := sheet(v, path, pageRows, all)
	s.Kind, s.What = string(kind), what
	return s, err
}

func (v *visit) semaphoreList() (any, error) {
	var all []soloist.SemaphoreInfo
	for _, i := range v.semaphores.items {
		if v.caller.mayUse(i.Name) == nil && matches(i.Name, v.search()) {
			all = append(all, i)
		}
	}
	return sheet(v, "/semaphores", 20, all)
}

// A replicaRow is a replica, and what it holds besides runs of jobs.
type replicaRow struct {
	soloist.ReplicaInfo
	Holds []soloist.LeaseInfo
	More  int
}

func (v *visit) replicaList() (any, error) {
	held := map[string][]soloist.LeaseInfo{}
	add := func(l soloist.LeaseInfo) {
		if v.caller.mayUse(l.Name) == nil {
			held[l.Replica()] = append(held[l.Replica()], l)
		}
	}
	for _, j := range v.jobs.items {
		if j.Running != nil {
			add(j.Running.LeaseInfo)
		}
	}
	for _, l := range slices.Concat(v.leases.items, permits(v.snapshot)) {
		add(l)
	}
	var all []replicaRow
	for _, r := range v.replicas.items {
		if matches(r.Replica, v.search()) {
			holds := held[r.Replica]
			all = append(all, replicaRow{r, holds[:min(len(holds), fewRows)], max(0, len(holds)-fewRows)})
		}
	}
	return sheet(v, "/replicas", pageRows, all)
}

func (v *visit) audit() (any, error) {
	var all []soloist.Action
	for _, a := range slices.Backward(v.actions.items) {
		if one := actionOf(a); v.caller.prefix == "" || v.caller.mayUse(one.subject()) == nil {
			all = append(all, a)
		}
	}
	return sheet(v, "/audit", pageRows, all)
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
	if err != nil && ctx.Err() != nil && v.Err() == nil {
		p.Cut, err = true, nil
	}
	return p, err
}

func (p *ElementsPage) readJobs(ctx context.Context, v *visit) error {
	for job, err := range v.server.client.Admin().ElementJobs(ctx) {
		switch {
		case err != nil:
			return err
		case job <= p.After && p.After != "", v.caller.mayUse(job) != nil, !matches(job, p.Search):
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
	for e, err := range v.server.client.Admin().Elements(ctx, p.Job) {
		switch {
		case err != nil:
			return err
		case e.ID <= p.After && p.After != "", p.State != "" && e.Status != p.State, !matches(e.ID, p.Search):
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
	if p.Snapshot == nil {
		return ""
	}
	return span(p.Snapshot.took)
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
	p.Snapshot = v.server.watch.since(ctx, time.Time{})
	return p, nil
}

// plural returns a number with its word.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
