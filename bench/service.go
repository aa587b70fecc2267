package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	api "github.com/soloist-dev/soloist/server"
	"github.com/soloist-dev/soloist/store"
)

// How the service and what it is compared with are called among the contenders.
const (
	serviceName = "service over HTTP"
	bareName    = "HTTP alone, without a store"
)

// httpClients are the clients by which a service is measured: what a Go program would use, and one that costs as little as it can, as load
// generators do, so that what is measured is the service.
var httpClients = []struct {
	name string
	dial func(address string) httpClient
}{
	{", net/http client", dialStandard},
	{", lean client", dialLean},
}

// serviceOn returns the service on the store of a backend, in a process of its own, once for each client.
func serviceOn(backend string, library spec, open func(context.Context, string) (store.Store, error)) (all []spec) {
	return overHTTP(serviceName, "ABD", backend, library.sends, func(ctx context.Context, url string) (http.Handler, func(), error) {
		s, err := open(ctx, url)
		if err != nil {
			return nil, nil, err
		}
		quiet := slog.New(slog.DiscardHandler)
		c, err := soloist.New(s, soloist.Config{Namespace: namespace, Logger: quiet})
		if err != nil {
			return nil, nil, errors.Join(err, s.Close())
		}
		handler, err := api.New(c, api.Config{OpenActions: true, Logger: quiet})
		if err != nil {
			return nil, nil, errors.Join(err, c.Close(), s.Close())
		}
		return handler, func() {
			handler.Drain()
			_ = c.Close()
			_ = s.Close()
		}, nil
	})
}

// bareService returns a service that grants everything, without a store: what HTTP alone costs. Its responses are as long as those of the service.
func bareService(backend string) []spec {
	return overHTTP(bareName, "AB", backend, nil, func(context.Context, string) (http.Handler, func(), error) {
		granted := fmt.Appendf(nil, `{"lease":"%s","token":1764000000000001,"expiresIn":29.399}`, strings.Repeat("x", 180))
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/locks/{name}/acquire", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(granted) // the client notices
		})
		mux.HandleFunc("POST /v1/leases/{lease}/release", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		return mux, func() {}, nil
	})
}

func overHTTP(name, cases, backend string, sends []string, serves func(context.Context, string) (http.Handler, func(), error)) (all []spec) {
	for _, client := range httpClients {
		s := spec{name: name + client.name, cases: cases, sends: sends, serves: serves}
		s.open = func(ctx context.Context, url string, ttl time.Duration) (contender, error) {
			i, err := startInstance(ctx, backend, s.name, url)
			if err != nil {
				return nil, err
			}
			return &service{instance: i, client: client.dial(i.address), ask: fmt.Appendf(nil, `{"ttl": %v}`, ttl.Seconds())}, nil
		}
		all = append(all, s)
	}
	return all
}

// A service is an instance of a service and a client of it.
type service struct {
	*instance
	client httpClient
	ask    []byte // the body of a claim
}

// An httpClient sends requests of HTTP/1.1 on connections that it keeps. It is safe for use by many goroutines at once.
type httpClient interface {
	// post sends a request, and returns the status and what was answered. body may be nil.
	post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error)
	close()
}

func (s *service) Try(ctx context.Context, name string) (hold, error) {
	status, answer, err := s.client.post(ctx, "/v1/locks/"+name+"/acquire", s.ask)
	switch {
	case err != nil:
		return hold{}, err
	case status == http.StatusConflict:
		return hold{}, errHeld
	case status != http.StatusOK:
		return hold{}, fmt.Errorf("acquire answered %d: %s", status, answer)
	}
	var granted struct{ Lease string }
	if err := json.Unmarshal(answer, &granted); err != nil || granted.Lease == "" {
		return hold{}, fmt.Errorf("acquire answered %s", answer)
	}
	return hold{unlock: func() error {
		status, answer, err := s.client.post(ctx, "/v1/leases/"+granted.Lease+"/release", nil)
		if err == nil && (status != http.StatusNoContent || len(answer) > 0) {
			err = fmt.Errorf("release answered %d: %s", status, answer)
		}
		return err
	}}, nil
}

// Lock implements contender; no case that the service takes part in waits.
func (s *service) Lock(context.Context, string) (hold, error) {
	return hold{}, errors.ErrUnsupported
}

func (s *service) Close() {
	s.client.close()
	s.end()
}
