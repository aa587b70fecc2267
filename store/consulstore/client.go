package consulstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/soloist-dev/soloist/store"
)

// A client sends requests to Consul.
type client struct {
	cfg       Config
	transport *http.Transport
	http      http.Client
	at        atomic.Int64 // which of the addresses is used
	closed    context.Context
	close     context.CancelFunc
}

func newClient(cfg Config) *client {
	c := &client{cfg: cfg, transport: cfg.transport()}
	c.http = http.Client{Transport: c.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.closed, c.close = context.WithCancel(context.Background())
	return c
}

// A reply is one that could be read to its end.
type reply struct {
	header http.Header
	status int
	body   []byte
}

// longestReply bounds what is read of a reply: more than the keys of a million names.
const longestReply = 256 << 20

// A requestError reports that there is no reply, or one that is an error of Consul.
type requestError struct {
	err    error
	sent   bool // a part of the request may have been sent
	status int  // of the reply; 0 without one
}

func (e *requestError) Error() string { return e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

// do makes a request at the address that is used, and at the next ones while nothing could be sent. After an error the next requests use the next address, unless the caller
// has given up. The status of a reply is OK or one of those that are accepted. Any
// error is a *requestError.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body []byte, accepted ...int) (*reply, error) {
	if c.closed.Err() != nil {
		return nil, &requestError{err: store.ErrClosed}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.closed, func() { cancel(store.ErrClosed) })()
	token, err := c.token()
	if err != nil {
		return nil, &requestError{err: err}
	}
	var r *reply
	for range c.cfg.Addresses {
		at := c.at.Load()
		var sent bool
		r, sent, err = c.attempt(ctx, c.url(at, path, query), method, token, body)
		if err == nil && r.status < http.StatusInternalServerError {
			break
		}
		if !errors.Is(ctx.Err(), context.Canceled) {
			c.leave(at, err)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, &requestError{err: context.Cause(ctx), sent: sent}
		case !sent:
			continue
		default:
			return nil, &requestError{err: err, sent: true}
		}
		break
	}
	switch {
	case err != nil:
		return nil, &requestError{err: err}
	case r.status == http.StatusOK:
		return r, nil
	}
	for _, status := range accepted {
		if r.status == status {
			return r, nil
		}
	}
	return nil, &requestError{err: errors.New(described(r, token)), sent: true, status: r.status}
}

// leave makes the next requests use the next address. If there was no reply, they make new connections: all that were made before may be gone without a word.
func (c *client) leave(at int64, err error) {
	c.at.CompareAndSwap(at, at+1) // other requests may have left it already
	if err != nil {
		c.transport.CloseIdleConnections()
	}
}

// attempt makes a request at one address. It reports whether a part of it may have been sent.
func (c *client) attempt(ctx context.Context, url, method, token string, body []byte) (r *reply, sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("User-Agent", "soloist")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("X-Consul-Token", token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, connected.Load(), bare(err)
	}
	defer response.Body.Close()
	r = &reply{header: response.Header, status: response.StatusCode}
	if r.body, err = io.ReadAll(io.LimitReader(response.Body, longestReply+1)); err != nil {
		return nil, true, fmt.Errorf("the reply broke off: %w", err)
	}
	if len(r.body) > longestReply {
		return nil, true, fmt.Errorf("the reply has more than %d bytes", longestReply)
	}
	return r, true, nil
}

// bare returns an error of net/http without method and URL, and with what to do if the server is none of Consul.
func bare(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	switch text := err.Error(); {
	case strings.Contains(text, "malformed HTTP"): // and what the server has sent
		return errors.New("the reply is not HTTP: is it the address of Consul's HTTP API?")
	case strings.Contains(text, "gave HTTP response to HTTPS client"):
		return fmt.Errorf("%w: name the port for HTTPS, or leave out tls=true", err)
	}
	return err
}

// url returns that of a path at an address.
func (c *client) url(at int64, path string, query url.Values) string {
	scheme := "http"
	if c.cfg.TLS != nil {
		scheme = "https"
	}
	all := url.Values{}
	maps.Copy(all, query)
	if c.cfg.Datacenter != "" {
		all.Set("dc", c.cfg.Datacenter)
	}
	u := url.URL{Scheme: scheme, Host: c.cfg.Addresses[at%int64(len(c.cfg.Addresses))], Path: path, RawQuery: all.Encode()}
	return u.String()
}

// token returns the ACL token.
func (c *client) token() (string, error) {
	if c.cfg.TokenFile == "" {
		return string(c.cfg.Token), nil
	}
	text, err := os.ReadFile(c.cfg.TokenFile)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || !sendable(token) {
		return "", fmt.Errorf("the file %q has no token", c.cfg.TokenFile)
	}
	return token, nil
}

// described returns what a reply says, without the token.
func described(r *reply, token string) string {
	text := string(r.body[:min(len(r.body), 300+len(token))]) // a token that begins within what is shown is complete here
	if token != "" {
		text = strings.ReplaceAll(text, token, "(token)")
	}
	return fmt.Sprintf("%d %s: %q", r.status, http.StatusText(r.status), strings.TrimSpace(text[:min(len(text), 300)]))
}

// end ends all requests, and closes the connections that nobody uses any more.
func (c *client) end() {
	c.close()
	c.transport.CloseIdleConnections()
}
