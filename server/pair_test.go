package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/soloisttest"
)

// BenchmarkPair measures what a lease that is acquired and released costs in the handler: two requests, on a store in memory, without the connection.
func BenchmarkPair(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	s, err := New(soloisttest.NewReplica(b, soloisttest.NewStore(), soloist.Config{Logger: log}), Config{OpenActions: true, Logger: log})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Drain()
	send := func(path, body string) []byte {
		uri, err := url.ParseRequestURI(path)
		if err != nil {
			b.Fatal(err)
		}
		r := &http.Request{Method: http.MethodPost, URL: uri, RequestURI: path, Host: "127.0.0.1:8420", RemoteAddr: "127.0.0.1:40000", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Length": {"2"}}, Body: http.NoBody, ContentLength: int64(len(body))}
		if body != "" {
			r.Header["Content-Type"] = []string{"application/json"}
			r.Body = io.NopCloser(bytes.NewReader([]byte(body)))
		}
		w := &answered{header: http.Header{}}
		s.ServeHTTP(w, r.WithContext(b.Context()))
		if w.status >= 300 {
			b.Fatalf("%d %s", w.status, w.body)
		}
		return w.body
	}
	b.ReportAllocs()
	before := load.CPU()
	defer func() { b.ReportMetric(load.Micros(load.CPU()-before)/float64(b.N), "CPU-µs/op") }()
	for b.Loop() {
		lease, _, _ := bytes.Cut(send("/v1/locks/close-month/acquire", `{"ttl": 30}`)[len(`{"lease":"`):], []byte(`"`))
		send("/v1/leases/"+string(lease)+"/release", "")
	}
}

// answered is a response that is kept, with as little as possible.
type answered struct {
	header http.Header
	status int
	body   []byte
}

func (a *answered) Header() http.Header    { return a.header }
func (a *answered) WriteHeader(status int) { a.status = status }

func (*answered) SetReadDeadline(time.Time) error  { return nil }
func (*answered) SetWriteDeadline(time.Time) error { return nil }

func (a *answered) Write(b []byte) (int, error) { a.body = append(a.body, b...); return len(b), nil }
