package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	api "github.com/soloist-dev/soloist/server"
)

// serviceName is how the service is called among the contenders.
const serviceName = "service, over HTTP"

// serviceOn is the service on what ours opens, in this process, and clients of it over HTTP/1.1 whose connections are kept.
func serviceOn(library spec) spec {
	return spec{name: serviceName, cases: "ABD", sends: library.sends, open: func(ctx context.Context, url string, ttl time.Duration) (contender, error) {
		c, err := library.open(ctx, url, ttl)
		if err != nil {
			return nil, err
		}
		handler, err := api.New(c.(ours).client, api.Config{OpenActions: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			c.Close()
			return nil, err
		}
		return serve(handler, ttl, func() {
			handler.Drain()
			c.Close()
		})
	}}
}

// bareService is a service that grants everything, without a store: what HTTP alone costs.
func bareService() spec {
	return spec{name: "HTTP alone, without a store", cases: "AB", open: func(_ context.Context, _ string, ttl time.Duration) (contender, error) {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/locks/{name}/acquire", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"lease":%q,"token":1,"expiresIn":%v}`, strings.Repeat("x", 200), ttl.Seconds()) // the client notices
		})
		mux.HandleFunc("POST /v1/leases/{lease}/release", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		return serve(mux, ttl, func() {})
	}}
}

// A service is an instance of a service and a client of it.
type service struct {
	run    *http.Server
	ended  chan struct{}
	end    func()
	url    string
	client http.Client
	ask    []byte // the body of a claim
}

// serve runs a handler. end is called before it ends.
func serve(handler http.Handler, ttl time.Duration, end func()) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		end()
		return nil, err
	}
	s := &service{
		run: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}, ended: make(chan struct{}), end: end, url: "http://" + listener.Addr().String(),
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}},
		ask:    fmt.Appendf(nil, `{"ttl": %v}`, ttl.Seconds()),
	}
	go func() {
		defer close(s.ended)
		_ = s.run.Serve(listener) // it ends when it is closed
	}()
	return s, nil
}

// post sends a request, and returns the status and what it answers.
func (s *service) post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func (s *service) Try(ctx context.Context, name string) (hold, error) {
	status, answer, err := s.post(ctx, "/v1/locks/"+name+"/acquire", s.ask)
	switch {
	case err != nil:
		return hold{}, err
	case status == http.StatusConflict:
		return hold{}, errHeld
	case status != http.StatusOK:
		return hold{}, fmt.Errorf("acquire answered %d: %s", status, answer)
	}
	var granted struct {
		Lease string `json:"lease"`
	}
	if err := json.Unmarshal(answer, &granted); err != nil {
		return hold{}, err
	}
	return hold{unlock: func() error {
		status, answer, err := s.post(ctx, "/v1/leases/"+granted.Lease+"/release", nil)
		if err == nil && status >= 300 {
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
	s.end()
	s.client.CloseIdleConnections()
	_ = s.run.Close()
	<-s.ended
}
