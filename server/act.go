package server

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist"
)

// A formAction is what a form of a page can do.
type formAction struct {
	role   role
	kind   soloist.Kind // of what it changes; "" if the form has it
	reason bool         // a reason must be given
	do     func(*call, *soloist.Admin, soloist.LeaseInfo, string) error
}

var formActions = map[string]formAction{
	"trigger": {roleOperate, soloist.KindJob, false, func(c *call, a *soloist.Admin, i soloist.LeaseInfo, _ string) error {
		return a.Trigger(c.Context, i.Name)
	}},
	"pause": {roleOperate, soloist.KindJob, true, func(c *call, a *soloist.Admin, i soloist.LeaseInfo, reason string) error {
		return a.Pause(c.Context, i.Name, reason)
	}},
	"resume": {roleOperate, soloist.KindJob, false, func(c *call, a *soloist.Admin, i soloist.LeaseInfo, _ string) error {
		return a.Resume(c.Context, i.Name)
	}},
	"forget": {roleAdmin, soloist.KindJob, false, func(c *call, a *soloist.Admin, i soloist.LeaseInfo, _ string) error {
		return a.Forget(c.Context, i.Name)
	}},
	"retry": {roleOperate, soloist.KindElement, false, func(c *call, a *soloist.Admin, i soloist.LeaseInfo, _ string) error {
		return a.RetryElement(c.Context, i.Job, i.Name)
	}},
	"release": {roleOperate, "", true, func(c *call, a *soloist.Admin, i soloist.LeaseInfo, reason string) error {
		return a.Release(c.Context, i, reason)
	}},
}

// act does what a form of a page asks for, and shows that page again.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	c, ok := s.visitor(w, r)
	if !ok {
		return
	}
	if err := r.ParseForm(); err != nil {
		s.showProblem(w, c, bad("form", "it could not be read"))
		return
	}
	if err := c.actForm(); err != nil {
		s.showProblem(w, c, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), directWithin)
	defer cancel()
	s.watch.since(ctx, time.Now()) // so that the page shows what was done
	seeOther(w, localPath(r.PostFormValue("back")))
}

func (c *call) actForm() error {
	verb := c.PostFormValue("verb")
	action, known := formActions[verb]
	if !known {
		return bad("verb", "there is no such action")
	}
	if err := c.server.permit(&route{role: action.role}, c.caller); err != nil {
		return err
	}
	kind := cmp.Or(action.kind, soloist.Kind(c.PostFormValue("kind")))
	seen := soloist.LeaseInfo{Kind: kind, Name: c.PostFormValue("name")}
	if kind == soloist.KindElement { // nothing else has one, so that it permits nothing else
		seen.Job = c.PostFormValue("job")
	}
	if err := c.caller.mayUse(subjectOf(seen.Kind, seen.Name, seen.Job)); err != nil {
		return err
	}
	reason := c.PostFormValue("reason")
	if action.reason && reason == "" {
		return bad("reason", "give one, for the audit and for other operators")
	}
	if verb == "release" {
		var err error
		if seen.Token, err = strconv.ParseInt(c.PostFormValue("token"), 10, 64); err != nil || seen.Token < 1 || seen.Token == math.MaxInt64 {
			return bad("token", "give the token as the page shows it")
		}
		if text := c.PostFormValue("permit"); text != "" {
			if seen.Permit, err = strconv.Atoi(text); err != nil || seen.Permit < 0 || seen.Permit >= maxPermits {
				return bad("permit", fmt.Sprintf("must be a whole number from 0 to %d", maxPermits-1))
			}
		}
	}
	err := c.change(func(a *soloist.Admin) error { return action.do(c, a, seen, reason) })
	c.log(verb, seen, reason, err)
	return err
}
