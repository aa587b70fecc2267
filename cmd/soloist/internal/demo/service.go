package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/fence"
)

// What the service has paths for.
const (
	ledgerPaths  = "/ledger/"
	invoicePaths = "/invoices/"
)

// resourceOf is what a path belongs to, as the guard counts tokens: the whole ledger, for its lease is that of the job;
// and each invoice by itself, for it has its own lease.
func resourceOf(path string) string {
	if strings.HasPrefix(path, ledgerPaths) {
		return ledgerPaths
	}
	return path
}

// A service is the third party: it does what it is asked, as often as it is asked, and takes its time. Only its guard
// keeps it from listening to those whose lease is gone.
type service struct {
	note   func(event)
	server *http.Server
	url    string

	mu    sync.Mutex
	there map[string]bool
	first time.Time // when the first invoice was asked for
	asked int       // invoices so far
}

// serve starts the service on loopback. It notes every claim and every write, refused ones too.
func serve(note func(event)) (*service, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the service: %w", err)
	}
	s := &service{note: note, url: "http://" + listener.Addr().String(), there: map[string]bool{}}
	guard := fence.Handler(&fence.Memory{}, func(r *http.Request) string { return resourceOf(r.URL.Path) }, s)
	s.server = &http.Server{Handler: s.noted(guard), ReadHeaderTimeout: requestTime}
	go func() { _ = s.server.Serve(listener) }() // it ends with close
	return s, nil
}

// close waits for the requests in progress.
func (s *service) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		return errors.Join(err, s.server.Close())
	}
	return nil
}

// ServeHTTP returns what the guard lets through. It does not look at the request's context: what was begun is done,
// even if the replica that asked for it has been killed.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if r.Method != http.MethodPost {
		s.mu.Lock()
		there := s.there[path]
		s.mu.Unlock()
		if !there {
			http.NotFound(w, r)
		}
		return
	}
	if resourceOf(path) == ledgerPaths {
		time.Sleep(writeTime)
	} else {
		time.Sleep(time.Until(s.turn()))
	}
	s.mu.Lock()
	s.there[path] = true
	s.mu.Unlock()
	s.note(requested(write, r, http.StatusCreated)) // while the guard lets nobody else in, so in the order of the writes
	w.WriteHeader(http.StatusCreated)
}

// turn is when the next invoice may be issued.
func (s *service) turn() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == 0 {
		s.first = time.Now()
	}
	s.asked++
	return s.first.Add(time.Duration(s.asked) * issueEvery)
}

// noted notes what does not reach ServeHTTP: claims, and writes that were refused.
func (s *service) noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(answer, r)
		switch {
		case r.Method != http.MethodPost:
		case r.Header.Get(fence.ClaimHeader) != "":
			s.note(requested(claim, r, answer.code))
		case answer.code != http.StatusCreated:
			s.note(requested(write, r, answer.code))
		}
	})
}

func requested(k kind, r *http.Request, code int) event {
	var token int64
	_, _ = fmt.Sscan(r.Header.Get(fence.TokenHeader), &token) // the guard has refused what is none
	return event{Kind: k, Replica: r.Header.Get(replicaHeader), Path: r.URL.Path, Token: token, Status: code}
}

// status remembers the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}
