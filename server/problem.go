package server

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist"
)

// A Problem is the body of a response that is an error (RFC 9457).
type Problem struct {
	Type   string        `json:"type" jsonschema:"always about:blank; see code"`
	Title  string        `json:"title" jsonschema:"the text of the status"`
	Status int           `json:"status" jsonschema:"the status of the response"`
	Code   string        `json:"code" jsonschema:"what is wrong, for programs; it never changes"`
	Detail string        `json:"detail" jsonschema:"what is wrong, for people"`
	Errors []FieldError  `json:"errors,omitempty" jsonschema:"with the code invalid: what is wrong with which input"`
	Left   *float64      `json:"left,omitempty" jsonschema:"with the code held: seconds until the name is free, unless the lease is renewed or released"`
	Holder string        `json:"holder,omitempty" jsonschema:"with the code held: the replica that holds it; absent while the name lingers after a release"`
	header http.Header   // to send with it
	retry  time.Duration // when to try again; 0 if that does not help
}

// A FieldError is what is wrong with one input.
type FieldError struct {
	Field  string `json:"field" jsonschema:"the name of a field, parameter or header"`
	Detail string `json:"detail" jsonschema:"what would be right"`
}

// The codes of problems.
const (
	codeInvalid         = "invalid"
	codeHeld            = "held"
	codeDone            = "done"
	codeFailed          = "failed"
	codeLost            = "lost"
	codeStale           = "stale"
	codeUnknown         = "unknown"
	codeUnavailable     = "unavailable"
	codeBusy            = "busy"
	codeNotFound        = "not-found"
	codeInUse           = "in-use"
	codeNoReplica       = "no-replica"
	codeAllPaused       = "all-paused"
	codeUnauthenticated = "unauthenticated"
	codeForbidden       = "forbidden"
	codeCrossSite       = "cross-site"
	codeHost            = "host"
	codeMethod          = "method"
	codeMediaType       = "media-type"
	codeTooLarge        = "too-large"
)

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

func problem(status int, code, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// bad returns the problem that an input is wrong.
func bad(field, detail string) *Problem {
	p := problem(http.StatusBadRequest, codeInvalid, field+": "+detail)
	p.Errors = []FieldError{{field, detail}}
	return p
}

func (p *Problem) write(w http.ResponseWriter) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	if p.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	body, _ := json.Marshal(p) // of strings and numbers; it cannot fail
	writeBytes(w, p.Status, "application/problem+json", body)
}

// conflicts are the errors that the state of a name causes.
var conflicts = []struct {
	err    error
	status int
	code   string
}{
	{soloist.ErrDone, http.StatusConflict, codeDone},
	{soloist.ErrFailed, http.StatusConflict, codeFailed},
	{soloist.ErrHeld, http.StatusConflict, codeHeld},
	{soloist.ErrNotHeld, http.StatusConflict, codeStale},
	{soloist.ErrInUse, http.StatusConflict, codeInUse},
	{soloist.ErrNoReplica, http.StatusConflict, codeNoReplica},
	{soloist.ErrAllPaused, http.StatusConflict, codeAllPaused},
	{soloist.ErrNoJob, http.StatusNotFound, codeNotFound},
	{soloist.ErrNoElement, http.StatusNotFound, codeNotFound},
	{soloist.ErrLost, http.StatusGone, codeLost},
}

// retryAfter is when to try again what the store did not respond to.
const retryAfter = time.Second

// problemOf returns the problem that an error is. The text of an error of the store may name its host, so it goes to the log.
func (s *Server) problemOf(ctx context.Context, err error) *Problem {
	var p *Problem
	var invalid *soloist.InvalidError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		return bad(fieldOf(invalid.What), invalid.Rule)
	case errors.Is(err, soloist.ErrUnknown):
		p = problem(http.StatusServiceUnavailable, codeUnknown, "the store did not respond; it may have been done. Repeat the request with the same Idempotency-Key")
	default:
		for _, c := range conflicts {
			if errors.Is(err, c.err) {
				p = problem(c.status, c.code, err.Error())
				p.describe(err)
				return p
			}
		}
		p = problem(http.StatusServiceUnavailable, codeUnavailable, "the store cannot be used now, or the service is shutting down; nothing was changed by this request")
	}
	if ctx.Err() == nil {
		s.Logger.Warn("a request has failed", "err", err)
	}
	p.retry = retryAfter
	return p
}

// describe sets what is known of the holder. It is named by its replica, for nobody else needs the rest.
func (p *Problem) describe(err error) {
	var held *soloist.HeldError
	if !errors.As(err, &held) {
		return
	}
	left := held.Left.Seconds()
	info := soloist.LeaseInfo{Holder: held.Holder}
	p.Left, p.Holder, p.retry = &left, info.Replica(), max(held.Left, retryAfter)
	p.Detail = strconv.Quote(held.Name) + " is held"
	if p.Holder != "" {
		p.Detail += " by " + p.Holder
	}
}

// fields are the inputs that the library calls otherwise.
var fields = map[string]string{
	"TTL": "ttl", "Margin": "ttl", "AtLeast": "atLeast", "Retain": "retain", "Retry.Attempts": "attempts", "Retry.Backoff": "backoff",
}

func fieldOf(what string) string {
	if field, known := fields[what]; known {
		return field
	}
	return what
}
