package verify

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/internal/proof"
)

// A guarded resource is what replicas write to under their leases. It refuses stale tokens, and notes what it accepted
// in which order.
type guarded struct {
	guard  fence.Memory
	server *http.Server
	url    string
	tell   func(event)

	mu sync.Mutex // makes the order of the notes that of the writes
}

func serve(tell func(event)) (*guarded, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &guarded{url: "http://" + l.Addr().String() + "/", tell: tell}
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = g.server.Serve(l) }()
	return g, nil
}

// ServeHTTP takes a write: its resource and token are in the query.
func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	token, _ := strconv.ParseInt(r.URL.Query().Get("token"), 10, 64)
	e := event{Event: proof.Event{Kind: proof.Write, Name: name, Token: token, Result: proof.Okay}}
	g.mu.Lock()
	defer g.mu.Unlock()
	e.At = fleet.Now() // in the order in which the guard decides
	switch err := g.guard.Claim(r.Context(), name, token); {
	case errors.Is(err, fence.ErrStale):
		e.Result = proof.Stale
		w.WriteHeader(http.StatusConflict)
	case err != nil: // the replica has gone: nothing was decided
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	g.tell(e)
}

func (g *guarded) close() { _ = g.server.Close() }

// A resource is that as a replica sees it.
type resource struct {
	url    string
	client *http.Client
}

// write writes under a lease. What becomes of it is for the resource to note.
func (r *resource) write(ctx context.Context, name string, token int64) {
	query := url.Values{"name": {name}, "token": {strconv.FormatInt(token, 10)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"?"+query.Encode(), nil)
	if err != nil {
		return // the URL is ours
	}
	if resp, err := r.client.Do(req); err == nil {
		_ = resp.Body.Close()
	} else if !errors.Is(err, ctx.Err()) {
		return
	}
}
