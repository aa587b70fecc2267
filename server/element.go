package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"time"

	"github.com/soloist-dev/soloist"
)

// ElementRequest is the body of a claim of an element.
type ElementRequest struct {
	TTL      float64 `json:"ttl,omitempty" jsonschema:"seconds that the claim lasts unless it is renewed; the default is 30"`
	Wait     float64 `json:"wait,omitempty" jsonschema:"seconds to wait while another has claimed it; the default is 0"`
	Replica  string  `json:"replica,omitempty" jsonschema:"what lists show as the holder"`
	Attempts int     `json:"attempts,omitempty" jsonschema:"after how many failed attempts the element is given up; the default is never. All callers should agree"`
	Backoff  float64 `json:"backoff,omitempty" jsonschema:"seconds after a failed attempt in which nobody can claim it, doubling each time; the default is 0"`
	Retain   float64 `json:"retain,omitempty" jsonschema:"seconds that it is remembered after it was processed; the default is forever"`
}

// BatchRequest is the body of a claim of many elements.
type BatchRequest struct {
	IDs []string `json:"ids" jsonschema:"the elements"`
	ElementRequest
}

// BatchResponse is what became of each element, in their order.
type BatchResponse struct {
	Elements []Claimed `json:"elements"`
}

// A Claimed is a lease of an element, or the problem why there is none.
type Claimed struct {
	ID      string         `json:"id"`
	Claim   *LeaseResponse `json:"claim,omitempty"`
	Problem *Problem       `json:"problem,omitempty"`
}

// EndRequest is the body that ends a claim.
type EndRequest struct {
	Lease  string `json:"lease" jsonschema:"the lease as it was granted"`
	Reason string `json:"reason,omitempty" jsonschema:"of a failed attempt: why it failed; it is shown in lists"`
}

// An elementTerm is what a ticket keeps of how an element is claimed.
type elementTerm struct {
	Attempts int
	Backoff  int64 // in milliseconds
	Retain   int64 // in milliseconds
}

func (e *elementTerm) options() soloist.ElementsOptions {
	if e == nil {
		return soloist.ElementsOptions{}
	}
	return soloist.ElementsOptions{
		Retain: time.Duration(e.Retain) * time.Millisecond,
		Retry:  soloist.Retry{Attempts: e.Attempts, Backoff: time.Duration(e.Backoff) * time.Millisecond},
	}
}

const maxBatch = 500

func (s *Server) elementRoutes() []route {
	element, end := "/v1/elements/{job}/{id}", reflect.TypeFor[EndRequest]()
	ending := func(what, summary string, do func(*call) (any, error)) route {
		return route{method: http.MethodPost, path: element + "/" + what, summary: summary, role: roleOperate, takes: true, in: end, needed: true,
			codes: []string{codeLost, codeUnknown}, do: do}
	}
	return []route{
		{method: http.MethodPost, path: element + "/claim", summary: "Claim an element, to process it", role: roleOperate, takes: true, key: true,
			in: reflect.TypeFor[ElementRequest](), out: reflect.TypeFor[LeaseResponse](), codes: []string{codeHeld, codeDone, codeFailed, codeBusy, codeUnknown}, do: (*call).claim},
		{method: http.MethodPost, path: "/v1/elements/{job}/claim", summary: "Claim many elements", role: roleOperate, takes: true, key: true,
			in: reflect.TypeFor[BatchRequest](), needed: true, out: reflect.TypeFor[BatchResponse](), codes: []string{codeBusy, codeUnknown}, do: (*call).claimMany},
		ending("done", "Record an element as processed", func(c *call) (any, error) {
			return c.end(func(e *soloist.Elements, d soloist.Detached, _ string) error { return e.DoneDetached(c.Context, d) })
		}),
		ending("fail", "Record a failed attempt at an element", func(c *call) (any, error) {
			return c.end(func(e *soloist.Elements, d soloist.Detached, reason string) error {
				return e.FailDetached(c.Context, d, errors.New(reason))
			})
		}),
		ending("release", "Give an element back, without an attempt", func(c *call) (any, error) {
			return c.end(func(_ *soloist.Elements, d soloist.Detached, _ string) error {
				return c.server.client.Detached().Release(c.Context, d)
			})
		}),
	}
}

// newElement returns a ticket for a claim.
func (c *call) newElement(job, id string, body ElementRequest) (t ticket, repeated bool, err error) {
	t, repeated, err = c.newTicket(soloist.KindElement, id, AcquireRequest{TTL: body.TTL, Replica: body.Replica})
	if err != nil {
		return t, repeated, err
	}
	t.Job = job
	if repeated {
		t.Secret = secretOf(c.Header.Get(keyHeader), c.caller.name, job, t.Replica, id)
	}
	backoff, err := seconds("backoff", body.Backoff)
	if err != nil {
		return t, repeated, err
	}
	retain, err := seconds("retain", body.Retain)
	if err != nil {
		return t, repeated, err
	}
	if body.Attempts < 0 || body.Attempts > math.MaxInt32 {
		return t, repeated, bad("attempts", fmt.Sprintf("must be a whole number from 0 to %d", math.MaxInt32))
	}
	if body.Attempts != 0 || backoff != 0 || retain != 0 {
		t.Element = &elementTerm{body.Attempts, backoff.Milliseconds(), retain.Milliseconds()}
	}
	return t, repeated, nil
}

func (c *call) claim() (any, error) {
	body := *c.body.(*ElementRequest)
	job, id := c.PathValue("job"), c.PathValue("id")
	t, repeated, err := c.newElement(job, id, body)
	if err == nil {
		err = c.caller.mayUse(job)
	}
	if err != nil {
		return nil, err
	}
	opts, err := c.options(t, body.Wait)
	if err != nil {
		return nil, err
	}
	leave, err := c.enter(c.server.waiting, roleOperate, "leases")
	if err != nil {
		return nil, err
	}
	defer leave()
	var el soloist.DetachedElement
	err = c.whileOpen(opts, func(ctx context.Context, opts soloist.Options) (err error) {
		el, err = c.server.client.With(opts).Elements(job, t.Element.options()).ClaimDetached(ctx, id, t.holder(), repeated)
		return err
	})
	if err != nil {
		return nil, c.cutShort(opts, err)
	}
	t.Token = el.Token
	if err := c.stillMayHold(t, repeated); err != nil {
		return nil, err
	}
	return c.claimed(t, el), nil
}

func (c *call) claimed(t ticket, el soloist.DetachedElement) *LeaseResponse {
	t.Token = el.Token
	r := c.response(t, el.Until)
	r.Attempt = el.Attempt
	return r
}

func (c *call) claimMany() (any, error) {
	body := *c.body.(*BatchRequest)
	job := c.PathValue("job")
	if err := c.caller.mayUse(job); err != nil {
		return nil, err
	}
	if len(body.IDs) == 0 || len(body.IDs) > maxBatch {
		return nil, bad("ids", fmt.Sprintf("give 1 to %d", maxBatch))
	}
	if body.Wait != 0 {
		return nil, bad("wait", "a claim of many elements does not wait")
	}
	seen := map[string]bool{}
	tickets := make([]ticket, len(body.IDs))
	repeated := false
	for i, id := range body.IDs {
		if seen[id] {
			return nil, bad("ids", fmt.Sprintf("%q is there twice", id))
		}
		seen[id] = true
		var err error
		if tickets[i], repeated, err = c.newElement(job, id, body.ElementRequest); err != nil {
			return nil, err
		}
	}
	holders := make([]string, len(tickets))
	for i, t := range tickets {
		holders[i] = t.holder()
	}
	opts, err := c.options(tickets[0], 0)
	if err != nil {
		return nil, err
	}
	opts.Overdue = -1 // nobody renews the others meanwhile
	leave, err := c.enter(c.server.waiting, roleOperate, "leases")
	if err != nil {
		return nil, err
	}
	defer leave()
	elements := c.server.client.With(opts).Elements(job, tickets[0].Element.options())
	out := &BatchResponse{make([]Claimed, len(tickets))}
	// The requests of all of them share batches.
	each(len(tickets), func(i int) {
		out.Elements[i].ID = body.IDs[i]
		el, err := elements.ClaimDetached(c.Context, body.IDs[i], holders[i], repeated)
		if err == nil {
			tickets[i].Token = el.Token
			err = c.stillMayHold(tickets[i], repeated)
		}
		if err != nil {
			out.Elements[i].Problem = c.server.problemOf(c.Context, err)
			return
		}
		out.Elements[i].Claim = c.claimed(tickets[i], el)
	})
	return out, nil
}

// end ends the claim of the element that the path names.
func (c *call) end(how func(*soloist.Elements, soloist.Detached, string) error) (any, error) {
	body := *c.body.(*EndRequest)
	t, err := c.held(body.Lease)
	switch {
	case err != nil:
		return nil, err
	case t.Kind != soloist.KindElement || t.Job != c.PathValue("job") || t.Name != c.PathValue("id"):
		return nil, bad("lease", "it is not a lease of this element")
	}
	return nil, how(t.client(c.server.client).Elements(t.Job, t.Element.options()), t.detached(), body.Reason)
}
