package server

import (
	"iter"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
)

// each calls do for 0 to n-1 concurrently.
func each(n int, do func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// A Page is a part of a list, in the order of the names.
type Page[T any] struct {
	Items  []T    `json:"items"`
	Next   string `json:"next,omitempty" jsonschema:"pass it as after to get what follows; absent at the end"`
	Unread bool   `json:"unread,omitempty" jsonschema:"at the end: something else has written records of the list, which are not here, or not as they are; the log of the service says which"`
}

// Lease is a name that is taken, in a list.
type Lease struct {
	Name    string  `json:"name"`
	Replica string  `json:"replica" jsonschema:"who holds it; empty while it lingers after a release"`
	Token   int64   `json:"token"`
	Left    float64 `json:"left" jsonschema:"seconds until it ends, unless it is renewed"`
	Age     float64 `json:"age" jsonschema:"seconds since it was granted"`
	Permit  *int    `json:"permit,omitempty" jsonschema:"of a semaphore, from 0"`
}

func leaseOf(l soloist.LeaseInfo) Lease {
	one := Lease{l.Name, l.Replica(), l.Token, l.Left.Seconds(), l.Age.Seconds(), nil}
	if l.Kind == soloist.KindPermit {
		one.Permit = &l.Permit
	}
	return one
}

// Semaphore is a semaphore, in a list.
type Semaphore struct {
	Name    string  `json:"name"`
	Limit   int     `json:"limit" jsonschema:"how many permits there are; 0 if none is held"`
	Permits []Lease `json:"permits"`
}

// Element is an element, in a list.
type Element struct {
	ID       string  `json:"id"`
	Status   string  `json:"status" jsonschema:"processed, claimed, failed, waiting or abandoned"`
	Replica  string  `json:"replica" jsonschema:"who has claimed it last"`
	Token    int64   `json:"token"`
	Left     float64 `json:"left"`
	Age      float64 `json:"age"`
	Attempts int     `json:"attempts" jsonschema:"that have failed"`
	Error    string  `json:"error,omitempty"`
}

// Replica is a process that runs jobs.
type Replica struct {
	Name    string    `json:"name"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Alive   bool      `json:"alive"`
	Jobs    int       `json:"jobs"`
}

// Job is a job that a replica has registered.
type Job struct {
	Name     string      `json:"name"`
	Schedule string      `json:"schedule"`
	About    string      `json:"about,omitempty"`
	Next     []time.Time `json:"next" jsonschema:"the next five scheduled times, as far as they are known"`
	Running  *Lease      `json:"running,omitempty"`
	Paused   *Pause      `json:"paused,omitempty"`
	Manual   bool        `json:"manual" jsonschema:"a run was requested and has not ended"`
	Replicas []string    `json:"replicas" jsonschema:"that are alive and have it"`
	Runs     []Run       `json:"runs,omitempty" jsonschema:"the last 20, the newest last; of one job alone"`
}

// Pause is why a job does not run.
type Pause struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	All    bool      `json:"all"`
}

// Run is a run in the history of a job.
type Run struct {
	ScheduledAt time.Time `json:"scheduledAt"`
	StartedAt   time.Time `json:"startedAt"`
	EndedAt     time.Time `json:"endedAt"`
	Replica     string    `json:"replica"`
	Attempt     int       `json:"attempt"`
	Token       int64     `json:"token"`
	Manual      bool      `json:"manual"`
	Outcome     string    `json:"outcome"`
	Error       string    `json:"error,omitempty"`
	ExitCode    *int      `json:"exitCode,omitempty"`
}

// Action is a change that an operator made.
type Action struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Verb   string    `json:"verb"`
	Kind   string    `json:"kind"`
	Name   string    `json:"name"`
	Job    string    `json:"job,omitempty"`
	Token  int64     `json:"token,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

var pageQuery = []parameter{{name: "after", about: "only names after this one"}, {name: "limit", about: "how many at most; the default is 100", least: 1, most: 1000}}

// list returns the route of a list. all lists what the caller may see after the last name that it has; name is that name.
func list[I, T any](path, summary string, all func(*call, *soloist.Admin) iter.Seq2[I, error], name func(I) string, of func(I) T) route {
	return route{method: http.MethodGet, path: path, summary: summary, role: roleRead, query: pageQuery, out: reflect.TypeFor[Page[T]](), do: func(c *call) (any, error) {
		limit, err := c.number("limit", 100)
		if err != nil {
			return nil, err
		}
		prefix := c.caller.prefix
		if job := c.PathValue("job"); job != "" { // it goes by the name of the job
			prefix = ""
		}
		page := &Page[T]{Items: []T{}}
		last := ""
		for info, err := range all(c, c.server.client.Admin().Part(prefix, c.URL.Query().Get("after"))) {
			if err != nil {
				page.Unread, err = c.unread(err)
				return page, err
			}
			if len(page.Items) == int(limit) {
				page.Next = last
				break
			}
			page.Items, last = append(page.Items, of(info)), name(info)
		}
		return page, nil
	}}
}

func (s *Server) viewRoutes() []route {
	admin := s.client.Admin()
	self := func(name string) string { return name }
	return []route{
		list("/v1/locks", "List the locks that are taken", func(c *call, part *soloist.Admin) iter.Seq2[soloist.LeaseInfo, error] {
			return part.Locks(c.Context)
		}, leaseName, leaseOf),
		list("/v1/leaders", "List the leaderships that are taken", func(c *call, part *soloist.Admin) iter.Seq2[soloist.LeaseInfo, error] {
			return part.Leaders(c.Context)
		}, leaseName, leaseOf),
		list("/v1/semaphores", "List the semaphores", func(c *call, part *soloist.Admin) iter.Seq2[soloist.SemaphoreInfo, error] {
			return part.Semaphores(c.Context)
		}, semaphoreName, semaphoreOf),
		list("/v1/elements", "List the jobs that have elements", func(c *call, part *soloist.Admin) iter.Seq2[string, error] {
			return part.ElementJobs(c.Context)
		}, self, self),
		list("/v1/elements/{job}", "List the elements of a job", elementsOf, func(e soloist.ElementInfo) string { return e.ID }, elementOf),
		list("/v1/jobs", "List the jobs", func(c *call, part *soloist.Admin) iter.Seq2[soloist.JobInfo, error] {
			return part.Jobs(c.Context)
		}, jobName, jobOf),
		{method: http.MethodGet, path: "/v1/jobs/{name}", summary: "See a job and its last runs", role: roleRead, out: reflect.TypeFor[Job](), codes: []string{codeNotFound}, do: (*call).job},
		{method: http.MethodGet, path: "/v1/replicas", summary: "List the replicas that run jobs", role: roleRead, out: reflect.TypeFor[Page[Replica]](), do: func(c *call) (any, error) {
			return collect(c, admin.Replicas(c.Context), func(r soloist.ReplicaInfo) (Replica, bool) {
				return replicaOf(r), true
			})
		}},
		{method: http.MethodGet, path: "/v1/actions", summary: "List the last 100 changes by operators, the newest last", role: roleRead, out: reflect.TypeFor[Page[Action]](), do: func(c *call) (any, error) {
			return collect(c, admin.Actions(c.Context), func(a soloist.Action) (Action, bool) {
				one := actionOf(a)
				return one, c.caller.prefix == "" || c.caller.mayUse(one.subject()) == nil
			})
		}},
	}
}

// subject is the name by which a caller's prefix goes.
func (a Action) subject() string { return subjectOf(soloist.Kind(a.Kind), a.Name, a.Job) }

func replicaOf(r soloist.ReplicaInfo) Replica {
	return Replica{r.Replica, r.Host, r.PID, r.Version, inJSON(r.Started), r.Alive, r.Jobs}
}

func actionOf(a soloist.Action) Action {
	return Action{a.At, a.By, a.Verb, string(a.Kind), a.Name, a.Job, a.Token, a.Reason}
}

func runOf(r soloist.RunRecord) Run {
	return Run{r.ScheduledAt, r.StartedAt, r.EndedAt, r.Replica, r.Attempt, r.Token, r.Manual, r.Outcome, r.Error, r.ExitCode}
}

// unread reports whether a list has ended with records that cannot be read, and no more. Any other error it returns.
func (c *call) unread(err error) (bool, error) {
	if !soloist.OnlyUnreadable(err) {
		return false, err
	}
	c.server.Logger.Warn("a list has records that cannot be read", "err", err)
	return true, nil
}

// collect returns a list that is short as one page.
func collect[I, T any](c *call, all iter.Seq2[I, error], of func(I) (T, bool)) (any, error) {
	page := &Page[T]{Items: []T{}}
	for info, err := range all {
		if err != nil {
			page.Unread, err = c.unread(err)
			return page, err
		}
		if one, show := of(info); show {
			page.Items = append(page.Items, one)
		}
	}
	return page, nil
}

func semaphoreOf(i soloist.SemaphoreInfo) Semaphore {
	one := Semaphore{i.Name, i.Limit, []Lease{}}
	for _, p := range i.Permits {
		one.Permits = append(one.Permits, leaseOf(p))
	}
	return one
}

func elementsOf(c *call, part *soloist.Admin) iter.Seq2[soloist.ElementInfo, error] {
	job := c.PathValue("job")
	if err := c.caller.mayUse(job); err != nil {
		return func(yield func(soloist.ElementInfo, error) bool) { yield(soloist.ElementInfo{}, err) }
	}
	return part.Elements(c.Context, job)
}

// inJSON returns a time as JSON can have it: the first or the last one instead of those of other years than 0 to 9999.
func inJSON(t time.Time) time.Time {
	first, end := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	switch t = t.UTC(); {
	case t.Before(first):
		return first
	case !t.Before(end):
		return end.Add(-1)
	}
	return t
}

func elementOf(e soloist.ElementInfo) Element {
	return Element{e.ID, e.Status, soloist.LeaseInfo{Holder: e.Holder}.Replica(), e.Token, e.Left.Seconds(), e.Age.Seconds(), e.Attempts, e.Error}
}

func jobOf(i soloist.JobInfo) Job {
	one := Job{Name: i.Name, Schedule: i.Schedule, About: i.About, Next: []time.Time{}, Manual: i.Manual, Replicas: []string{}}
	for at := range i.NextTimes(time.Now()) {
		if one.Next = append(one.Next, inJSON(at)); len(one.Next) == 5 {
			break
		}
	}
	if i.Running != nil {
		lease := leaseOf(i.Running.LeaseInfo)
		one.Running = &lease
	}
	if i.Paused != nil {
		one.Paused = &Pause{i.Paused.Reason, i.Paused.By, inJSON(i.Paused.At), i.Paused.All}
	}
	for _, d := range i.Replicas {
		one.Replicas = append(one.Replicas, d.Replica)
	}
	slices.Sort(one.Replicas)
	return one
}

func (c *call) job() (any, error) {
	name := c.PathValue("name")
	if err := c.caller.mayUse(name); err != nil {
		return nil, err
	}
	info, err := c.server.client.Admin().Job(c.Context, name)
	if err != nil {
		return nil, err
	}
	job := jobOf(info)
	for _, r := range info.Runs {
		job.Runs = append(job.Runs, runOf(r))
	}
	return job, nil
}
