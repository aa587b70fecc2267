package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// The header fields of a fenced request.
const (
	TokenHeader = "Fencing-Token" // the token, in decimal
	ClaimHeader = "Fencing-Claim" // "1" asks to claim the resource without writing
)

// Handler guards an HTTP service: it passes a request to next only if its Fencing-Token is not stale. resource returns
// the name of what a request writes to; nil means the path of its URL. Requests that do not write (GET, HEAD, OPTIONS,
// TRACE) pass without a token.
//
// With a Memory next may write in any way, and other tokens for the resource wait until it has returned. A guard in a
// database guards only what next writes in the guard's transaction, which is found in the context of its request. The
// transaction is not carried out if next responds with a status of 400 or more.
//
// The response of next is kept in memory and sent when the guard has let the write pass, so it cannot be streamed. The
// response is 412 with the reason for a stale token, 428 for a missing one, 400 for a malformed one, and 503 if the
// guard failed: then it is not known whether a transaction was carried out. A request with Fencing-Claim: 1 claims the
// resource; its response is 204, and it is not passed to next. Another value of it is malformed.
func Handler(guard Guard, resource func(*http.Request) string, next http.Handler) http.Handler {
	if resource == nil {
		resource = func(r *http.Request) string { return r.URL.Path }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			next.ServeHTTP(w, r)
			return
		}
		token, status, err := tokenOf(r)
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		switch claims := r.Header.Values(ClaimHeader); {
		case len(claims) > 1 || len(claims) == 1 && claims[0] != "1": // a claim has no body: passed on, it might be a write of nothing
			http.Error(w, ClaimHeader+" must be 1, or left out for a write", http.StatusBadRequest)
			return
		case len(claims) == 1:
			if err = guard.Claim(r.Context(), resource(r), token); err == nil {
				w.WriteHeader(http.StatusNoContent)
			}
		default:
			var a *answer
			err = guard.Do(r.Context(), resource(r), token, func(ctx context.Context) error {
				a = &answer{header: w.Header().Clone(), status: http.StatusOK}
				next.ServeHTTP(a, r.WithContext(ctx))
				return a.failed()
			})
			if err == nil || errors.Is(err, errAnswered) {
				a.send(w)
				return
			}
		}
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
		}
	})
}

// errAnswered makes a guard discard what was written before a service responded that it had failed.
var errAnswered = errors.New("the service responded with an error")

// An answer is the response of a service, until the guard has let its write pass.
type answer struct {
	header  http.Header
	status  int
	decided bool // the status is that of the service
	body    bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

// WriteHeader keeps the first status, as a server does, and drops those that only inform.
func (a *answer) WriteHeader(status int) {
	if !a.decided && status >= http.StatusOK {
		a.status, a.decided = status, true
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.decided = true
	return a.body.Write(p)
}

func (a *answer) failed() error {
	if a.status >= http.StatusBadRequest {
		return errAnswered
	}
	return nil
}

func (a *answer) send(w http.ResponseWriter) {
	clear(w.Header())
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // a client that is gone is no error of the guard
}

func tokenOf(r *http.Request) (int64, int, error) {
	text := r.Header.Get(TokenHeader)
	if text == "" {
		return 0, http.StatusPreconditionRequired, fmt.Errorf("this resource is fenced: send the lease's token in %s", TokenHeader)
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || token <= 0 || len(r.Header.Values(TokenHeader)) > 1 {
		return 0, http.StatusBadRequest, fmt.Errorf("%s must be one decimal number greater than 0", TokenHeader)
	}
	return token, 0, nil
}

func statusOf(err error) int {
	if errors.Is(err, ErrStale) {
		return http.StatusPreconditionFailed
	}
	return http.StatusServiceUnavailable
}

// Transport is an http.RoundTripper that sends the token of a lease with every request, for clients of a guarded
// service. A *soloist.Lease can be its Lease.
type Transport struct {
	Lease interface{ Token() int64 }
	Base  http.RoundTripper // nil means http.DefaultTransport
}

// RoundTrip is as in http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(TokenHeader, strconv.FormatInt(t.Lease.Token(), 10))
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(r)
}

// ClaimURL claims the resource at url of a guarded service. A new holder should call it first. The client must have a
// Transport. The error is ErrStale if the token is stale.
func ClaimURL(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return fmt.Errorf("claiming %s: %w", url, err)
	}
	r.Header.Set(ClaimHeader, "1")
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("claiming: %w", err)
	}
	defer answer.Body.Close()
	why, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	switch answer.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusPreconditionFailed:
		return fmt.Errorf("claiming %s: %w: %s", url, ErrStale, strings.TrimSpace(string(why)))
	}
	return fmt.Errorf("claiming %s: the service responded %s: %s", url, answer.Status, strings.TrimSpace(string(why)))
}
