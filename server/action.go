package server

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strconv"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// ReasonRequest is the body of an action.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty" jsonschema:"for the list of actions and for other operators"`
}

func (s *Server) actionRoutes() (all []route) {
	token := []parameter{
		{name: "token", about: "the token of the lease as a list showed it: another one is not released", least: 1, most: math.MaxInt64 - 1, needed: true},
		{name: "reason", about: "for the list of actions"},
	}
	forced := func(path, what string, seen func(*call) (soloist.LeaseInfo, error)) {
		all = append(all, route{method: http.MethodDelete, path: "/v1/" + path, summary: "Release " + what + " by force", role: roleOperate, query: token,
			codes: []string{codeStale, codeUnknown}, do: func(c *call) (any, error) { return c.force(seen) }})
	}
	named := func(kind soloist.Kind) func(*call) (soloist.LeaseInfo, error) {
		return func(c *call) (soloist.LeaseInfo, error) {
			return soloist.LeaseInfo{Kind: kind, Name: c.PathValue("name")}, nil
		}
	}
	forced("locks/{name}", "a lock", named(soloist.KindLock))
	forced("leaders/{name}", "a leadership", named(soloist.KindLeader))
	forced("jobs/{name}/run", "the run of a job", named(soloist.KindJob))
	forced("semaphores/{name}/{permit}", "a permit", func(c *call) (soloist.LeaseInfo, error) {
		n, err := strconv.Atoi(c.PathValue("permit"))
		if err != nil || n < 0 || n >= maxPermits {
			err = bad("permit", fmt.Sprintf("must be a whole number from 0 to %d", maxPermits-1))
		}
		return soloist.LeaseInfo{Kind: soloist.KindPermit, Name: c.PathValue("name"), Permit: n}, err
	})
	forced("elements/{job}/{id}", "an element", func(c *call) (soloist.LeaseInfo, error) {
		return soloist.LeaseInfo{Kind: soloist.KindElement, Name: c.PathValue("id"), Job: c.PathValue("job")}, nil
	})
	job := func(verb, summary string, role role, codes []string, do func(*call, *soloist.Admin, string, string) error) {
		all = append(all, route{method: http.MethodPost, path: "/v1/jobs/{name}/" + verb, summary: summary, role: role, in: reflect.TypeFor[ReasonRequest](),
			codes: append(codes, codeNotFound, codeUnknown), do: func(c *call) (any, error) {
				name := c.PathValue("name")
				if err := c.caller.mayUse(name); err != nil {
					return nil, err
				}
				reason := c.body.(*ReasonRequest).Reason
				err := c.change(func(a *soloist.Admin) error { return do(c, a, name, reason) })
				c.log(verb, soloist.LeaseInfo{Kind: soloist.KindJob, Name: name}, reason, err)
				return nil, err
			}})
	}
	job("trigger", "Run a job once now", roleOperate, []string{codeNoReplica}, func(c *call, a *soloist.Admin, name, _ string) error { return a.Trigger(c.Context, name) })
	job("pause", "Pause a job", roleOperate, nil, func(c *call, a *soloist.Admin, name, reason string) error { return a.Pause(c.Context, name, reason) })
	job("resume", "Resume a job", roleOperate, []string{codeAllPaused}, func(c *call, a *soloist.Admin, name, _ string) error { return a.Resume(c.Context, name) })
	job("forget", "Forget a job that no replica has", roleAdmin, []string{codeInUse, codeHeld}, func(c *call, a *soloist.Admin, name, _ string) error { return a.Forget(c.Context, name) })
	return all
}

// force releases a lease that a list has shown.
func (c *call) force(of func(*call) (soloist.LeaseInfo, error)) (any, error) {
	seen, err := of(c)
	if err != nil {
		return nil, err
	}
	if err := c.caller.mayUse(subjectOf(seen.Kind, seen.Name, seen.Job)); err != nil {
		return nil, err
	}
	if seen.Token, err = c.number("token", 0); err != nil {
		return nil, err
	}
	reason := c.URL.Query().Get("reason")
	err = c.change(func(a *soloist.Admin) error { return a.Release(c.Context, seen, reason) })
	c.log("release", seen, reason, err)
	return nil, err
}

// change makes a change by an operator, also if that one has gone: what has begun is also noted. If the store does not respond in time, it is not known
// how far it came.
func (c *call) change(do func(*soloist.Admin) error) error {
	c.Context = context.WithoutCancel(c.Context)
	defer c.within(storeWithin)()
	err := do(c.server.client.Admin().By(c.caller.who()))
	if c.Context.Err() != nil {
		err = store.AsUnknown(err)
	}
	return err
}

// log notes a change by an operator, with all that the list of actions has: the list keeps 100, and a caller could make that many.
func (c *call) log(verb string, of soloist.LeaseInfo, reason string, err error) {
	c.server.Logger.Info("action", "verb", verb, "kind", string(of.Kind), "name", of.Name, "job", of.Job, "permit", of.Permit, "token", of.Token,
		"reason", reason, "by", c.caller.who(), "from", c.caller.from, "err", err)
}
