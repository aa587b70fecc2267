package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// AcquireRequest is the body of a request for a lease.
type AcquireRequest struct {
	TTL     float64 `json:"ttl,omitempty" jsonschema:"seconds that the lease lasts unless it is renewed; the default is 30"`
	Wait    float64 `json:"wait,omitempty" jsonschema:"seconds to wait while another holds it or the store is away; the default is 0"`
	AtLeast float64 `json:"atLeast,omitempty" jsonschema:"seconds that the name stays taken from the grant on, even if the lease is released earlier; the default is 0"`
	Replica string  `json:"replica,omitempty" jsonschema:"what lists show as the holder; the default is the name of the token, or the address of the caller"`
}

// LeaseResponse is a lease that was granted or renewed.
type LeaseResponse struct {
	Lease     string  `json:"lease" jsonschema:"what renews and releases the lease: a secret of its holder"`
	Token     int64   `json:"token" jsonschema:"the fencing token"`
	ExpiresIn float64 `json:"expiresIn" jsonschema:"seconds that the lease is certainly held, from when the request was sent on; renew it before. 0 where nobody knows: of a lease that is looked at in a store without a clock"`
	Permit    *int    `json:"permit,omitempty" jsonschema:"of a semaphore: which permit it is, from 0"`
	Attempt   int     `json:"attempt,omitempty" jsonschema:"of an element: which attempt it is, from 1"`
}

// maxReplica bounds what a caller calls itself, in bytes, and maxPermits how many permits a semaphore has.
const (
	maxReplica = 100
	maxPermits = 1000
)

// The header by which a request for a lease can be repeated, and the bounds of its length.
const (
	keyHeader     = "Idempotency-Key"
	minKey, mxKey = 16, 128
)

// newTicket returns a ticket for a new lease. With an Idempotency-Key it is the same one for the same request of the same caller.
func (c *call) newTicket(kind soloist.Kind, name string, body AcquireRequest) (t ticket, repeated bool, err error) {
	t = ticket{Kind: kind, Name: name, Replica: cmp.Or(body.Replica, c.caller.who())}
	if store.CheckName(t.Replica) != nil || len(t.Replica) > maxReplica {
		return t, false, bad("replica", fmt.Sprintf("must have 1 to %d bytes of UTF-8 without control characters", maxReplica))
	}
	ttl, err := seconds("ttl", body.TTL)
	if err != nil {
		return t, false, err
	}
	atLeast, err := seconds("atLeast", body.AtLeast)
	if err != nil {
		return t, false, err
	}
	ttl = cmp.Or(ttl, 30*time.Second)
	if ttl < time.Second {
		return t, false, bad("ttl", "must be at least 1: a shorter lease could end before this response arrives")
	}
	t.TTL, t.AtLeast = ttl.Milliseconds(), atLeast.Milliseconds()
	keys := c.Header.Values(keyHeader)
	if len(keys) == 0 {
		t.Secret = newSecret()
		return t, false, nil
	}
	// Of characters beyond ASCII that are not UTF-8, secretOf would make one, and two keys could be the same.
	if len(keys) > 1 || len(keys[0]) < minKey || len(keys[0]) > mxKey || strings.ContainsFunc(keys[0], func(r rune) bool { return r < ' ' || r > '~' }) {
		return t, false, bad(keyHeader, fmt.Sprintf("give one, of %d to %d printable characters of ASCII, that is random and new for each lease, such as a UUID", minKey, mxKey))
	}
	t.Secret = secretOf(keys[0], c.caller.name, string(kind), t.Replica, name)
	return t, true, nil
}

// newSecret returns a secret that nobody else has.
func newSecret() string {
	var secret [secretSize]byte
	_, _ = rand.Read(secret[:]) // it never fails
	return string(secret[:])
}

// secretOf derives a secret from an Idempotency-Key and from what the lease is for.
func secretOf(parts ...string) string {
	text, _ := json.Marshal(parts) // of strings; it cannot fail
	hash := sha256.Sum256(append([]byte("soloist key\x00"), text...))
	return string(hash[:secretSize])
}

// A primitive is one of the things that are held by name.
type primitive struct {
	path  string
	kind  soloist.Kind
	what  string
	limit bool
}

var primitives = []primitive{
	{"locks", soloist.KindLock, "lock", false},
	{"leaders", soloist.KindLeader, "leadership", false},
	{"semaphores", soloist.KindPermit, "semaphore", true},
}

func (p primitive) query() []parameter {
	if !p.limit {
		return nil
	}
	return []parameter{{name: "limit", about: "how many permits the semaphore has; all callers should agree", least: 1, most: maxPermits, needed: true}}
}

func (s *Server) leaseRoutes() (all []route) {
	in, out := reflect.TypeFor[AcquireRequest](), reflect.TypeFor[LeaseResponse]()
	for _, p := range primitives {
		all = append(all,
			route{method: http.MethodPost, path: "/v1/" + p.path + "/{name}/acquire", summary: "Acquire a " + p.what, role: roleOperate, takes: true, query: p.query(),
				key: true, in: in, out: out, codes: []string{codeHeld, codeBusy, codeUnknown}, do: func(c *call) (any, error) { return c.acquire(p) }},
			route{method: http.MethodPost, path: "/v1/" + p.path + "/{name}/hold", summary: "Hold a " + p.what + " for as long as the connection lives", role: roleOperate,
				takes: true, query: p.query(), in: in, out: reflect.TypeFor[HoldEvent](), stream: jsonLines, codes: []string{codeHeld, codeBusy, codeUnknown},
				do: func(c *call) (any, error) { return nil, c.hold(p) }})
	}
	return append(all,
		route{method: http.MethodGet, path: "/v1/leases/{lease}", summary: "See whether a lease is held", role: roleOperate, takes: true, out: out,
			codes: []string{codeLost}, do: (*call).look},
		route{method: http.MethodPost, path: "/v1/leases/{lease}/renew", summary: "Renew a lease to its TTL from now", role: roleOperate, takes: true, out: out,
			codes: []string{codeLost, codeUnknown}, do: (*call).renew},
		route{method: http.MethodPost, path: "/v1/leases/{lease}/release", summary: "Release a lease", role: roleOperate, takes: true,
			codes: []string{codeLost, codeUnknown}, do: (*call).release})
}

// enter takes one of the places of requests that wait for what, which callers with a role may have.
func (c *call) enter(places *places, role role, what string) (leave func(), err error) {
	token := c.caller.name
	if places.take(token, c.server.Tokens.several(role)) {
		return func() { places.give(token) }, nil
	}
	p := problem(http.StatusServiceUnavailable, codeBusy, "too many requests wait for "+what)
	p.retry = retryAfter
	return nil, p
}

// options returns how to wait for a lease of a ticket.
func (c *call) options(t ticket, wait float64) (soloist.Options, error) {
	d, err := seconds("wait", wait)
	if err == nil && wait > maxWait {
		err = bad("wait", fmt.Sprintf("must be at most %d; ask again after that", maxWait))
	}
	return soloist.Options{TTL: time.Duration(t.TTL) * time.Millisecond, Wait: d, Overdue: maxWait * time.Second}, err
}

// begin reads what a request for a lease has in common with others.
func (c *call) begin(p primitive) (ticket, bool, soloist.Options, error) {
	body := *c.body.(*AcquireRequest)
	name := c.PathValue("name")
	t, repeated, err := c.newTicket(p.kind, name, body)
	if err == nil {
		err = c.caller.mayUse(name)
	}
	if err == nil && p.limit {
		var limit int64
		limit, err = c.number("limit", 0)
		t.Limit = int(limit)
	}
	if err != nil {
		return t, repeated, soloist.Options{}, err
	}
	opts, err := c.options(t, body.Wait)
	return t, repeated, opts, err
}

// cutShort returns the error of a request that has waited as opts says. If the server is being shut down, the wait was cut short: another instance can go on with it.
func (c *call) cutShort(opts soloist.Options, err error) error {
	if opts.Wait == 0 || c.server.closing.Err() == nil || !errors.Is(err, soloist.ErrHeld) {
		return err
	}
	p := problem(http.StatusServiceUnavailable, codeUnavailable, "the service is shutting down, and does not wait for the name any more; nothing was changed by this request")
	p.retry = retryAfter
	return p
}

// whileOpen calls ask with a context that ends when the server is shut down, if the request waits. If it does not, only its wait for what is overdue ends then: it asks
// again after a certain refusal, and not after an unknown outcome, whose grant is given back whenever that comes.
func (c *call) whileOpen(opts soloist.Options, ask func(context.Context, soloist.Options) error) error {
	if opts.Wait != 0 {
		ctx, stop := c.untilClosing()
		defer stop()
		return ask(ctx, opts)
	}
	most := opts.Overdue
	opts.Overdue = -1
	refusal := ask(c.Context, opts)
	held, is := errors.AsType[*soloist.HeldError](refusal)
	if !is || held.Overdue() == 0 || held.Overdue() > most {
		return refusal
	}
	if deadline, bounded := c.Context.Deadline(); bounded && time.Until(deadline) < held.Overdue() {
		return refusal
	}
	select {
	case <-time.After(held.Overdue()):
		return ask(c.Context, opts)
	case <-c.server.closing.Done():
	case <-c.Context.Done():
	}
	return refusal
}

func (c *call) acquire(p primitive) (any, error) {
	t, repeated, opts, err := c.begin(p)
	if err != nil {
		return nil, err
	}
	leave, err := c.enter(c.server.waiting, roleOperate, "leases")
	if err != nil {
		return nil, err
	}
	defer leave()
	var until time.Time
	err = c.whileOpen(opts, func(ctx context.Context, opts soloist.Options) (err error) {
		t, until, err = c.grant(ctx, t, opts, repeated)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.response(t, until), nil
}

// grant acquires the lease of a ticket. It returns until when it is certainly held.
func (c *call) grant(ctx context.Context, t ticket, opts soloist.Options, repeated bool) (ticket, time.Time, error) {
	got, until, err := c.server.client.With(opts).Detached().Acquire(ctx, t.detached(), repeated)
	if err != nil {
		return t, time.Time{}, c.cutShort(opts, err)
	}
	t.Token, t.Permit, t.Plain = got.Token, got.Permit, got.Plain
	return t, until, c.stillMayHold(t, repeated)
}

// stillMayHold returns the problem of a caller whose token went while it waited for the lease of a ticket. The lease is released, or, if a repeated
// request may have it, ends with its TTL.
func (c *call) stillMayHold(t ticket, repeated bool) error {
	if c.stillKnown() {
		return nil
	}
	if !repeated {
		t.AtLeast = 0 // nothing was done under the lease
		c.giveBack(t)
	}
	return unauthenticated()
}

// giveBack releases a lease that its caller does not have any more.
func (c *call) giveBack(t ticket) {
	err := t.client(c.server.client).Detached().Release(context.WithoutCancel(c.Context), t.detached())
	if err != nil && !errors.Is(err, soloist.ErrLost) {
		c.server.Logger.Warn("releasing the lease of a caller that is gone", "err", err)
	}
}

// response returns the response with a lease that is certainly held until an instant. Its caller counts from when the request was sent, which was
// before it was received.
func (c *call) response(t ticket, until time.Time) *LeaseResponse {
	r := &LeaseResponse{Lease: t.String(), Token: t.Token, ExpiresIn: max(0, until.Sub(c.arrived)).Seconds()}
	if t.Kind == soloist.KindPermit {
		r.Permit = &t.Permit
	}
	return r
}

// held returns the lease that a request is about.
func (c *call) held(text string) (ticket, error) {
	t, err := parseTicket(text)
	if err == nil {
		err = c.caller.mayUse(t.subject())
	}
	return t, err
}

func (c *call) look() (any, error) {
	t, err := c.held(c.PathValue("lease"))
	if err != nil {
		return nil, err
	}
	info, err := t.client(c.server.client).Detached().Look(c.Context, t.detached())
	if err != nil {
		return nil, err
	}
	return c.response(t, c.arrived.Add(info.Left)), nil
}

func (c *call) renew() (any, error) {
	t, err := c.held(c.PathValue("lease"))
	if err != nil {
		return nil, err
	}
	until, err := t.client(c.server.client).Detached().Extend(c.Context, t.detached())
	if err != nil {
		return nil, err
	}
	return c.response(t, until), nil
}

func (c *call) release() (any, error) {
	t, err := c.held(c.PathValue("lease"))
	if err != nil {
		return nil, err
	}
	return nil, t.client(c.server.client).Detached().Release(c.Context, t.detached())
}
