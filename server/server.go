package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/listen"
)

// Config configures a Server. The zero value is for programs of the same machine.
type Config struct {
	// Tokens are those that callers may have. If it is nil, every caller may read, and take leases and end its own; the actions of operators
	// are refused unless OpenActions is set.
	Tokens *Tokens

	// OpenActions lets callers without a token do what needs the role operate or admin. It has no effect with Tokens.
	OpenActions bool

	// Hosts are the values of the header Host that are served besides loopback addresses and localhost: names, or IP addresses, without a
	// port. Requests for other hosts get 421, so that a web page cannot call the API under a name that it resolves to this server. "*"
	// serves all hosts; that is safe only with Tokens.
	Hosts []string

	// BehindProxy is that browsers reach the server by a proxy that has TLS: they are told to send the cookie with the token by HTTPS alone, as
	// they are for requests that have TLS themselves.
	BehindProxy bool

	// MaxWaiting is how many requests can wait for a lease, or hold one, at the same time, and how many can receive events: who may only read takes no
	// place of a holder. More get 503. Of several tokens that may do the same none gets more places than it leaves free. The default is 1000.
	MaxWaiting int

	// Logger receives the errors of the store, which callers are not told, and the actions of operators. The default is slog.Default().
	Logger *slog.Logger
}

// A Server is the handler of the API. It is safe for concurrent use. A client whose machine vanishes keeps its place, and a lease that it holds by its connection, until
// that connection ends. Linux takes a quarter of an hour for that unless the option TCP_USER_TIMEOUT of the listener says less; for soloist serve it is 10 s.
type Server struct {
	Config
	client    *soloist.Client
	routes    []route
	mux       *http.ServeMux
	handler   http.Handler
	waiting   *places // of requests for leases
	listening *places // and of those for events
	watch     *watcher
	menu      []*page
	openapi   []byte

	closing context.Context // ends when waiting requests and holds are to end
	end     context.CancelFunc
}

// New returns the API of the store and namespace of c. The leases of callers have the options of their requests, and a request that does not say how long it
// waits does not wait.
func New(c *soloist.Client, cfg Config) (*Server, error) {
	c = c.With(soloist.Options{AtLeast: -1, AtMost: -1, Wait: soloist.NoWait})
	if cfg.MaxWaiting <= 0 {
		cfg.MaxWaiting = 1000
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{Config: cfg, client: c, mux: http.NewServeMux(), waiting: newPlaces(cfg.MaxWaiting), listening: newPlaces(cfg.MaxWaiting)}
	s.closing, s.end = context.WithCancel(context.Background())
	s.watch = newWatcher(s.closing, c.Admin())
	s.routes = slices.Concat(s.leaseRoutes(), s.elementRoutes(), s.viewRoutes(), s.actionRoutes(), s.eventRoutes())
	var err error
	if s.openapi, err = s.describe(); err != nil {
		return nil, err
	}
	for _, r := range s.routes {
		s.handle(r.method+" "+r.path, s.serve(r))
	}
	s.handle("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		writeBytes(w, http.StatusOK, "application/json", s.openapi)
	})
	if err := s.dashboardRoutes(); err != nil {
		return nil, err
	}
	csrf := http.NewCrossOriginProtection()
	csrf.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(http.StatusForbidden, codeCrossSite, "the request comes from a page of another site").write(w)
	}))
	s.handler = s.hosts(csrf.Handler(http.HandlerFunc(s.route)))
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header["Cache-Control"], header["Content-Security-Policy"], header["X-Content-Type-Options"] = noStore, nothing, noSniff
	if r.Body != http.NoBody {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	}
	s.handler.ServeHTTP(w, r)
}

// Values of headers that responses share. What sets another value replaces the slice.
var (
	noStore = []string{"no-store"}
	nothing = []string{"default-src 'none'; frame-ancestors 'none'"}
	noSniff = []string{"nosniff"}
)

// Drain ends the requests that wait or hold a lease, within some seconds: a client that holds one is told first, and can stop. Call it before
// http.Server.Shutdown, which waits for all requests. By HTTP/2 a lease whose client has stopped in time also stays taken until its TTL ends: there it cannot
// be told who closed the connection.
func (s *Server) Drain() { s.end() }

// hosts refuses requests that are for another host.
func (s *Server) hosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !listen.Served(r.Host, s.Hosts) {
			problem(http.StatusMisdirectedRequest, codeHost, "this server is not for that host").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// route calls the handler of a request, and responds with a problem if there is none.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" && !plainPath(r.URL.EscapedPath()) { // the mux would redirect; to clients that do not follow, that looks like success
		problem(http.StatusNotFound, codeNotFound, "there is no such path: a part of it is empty, . or ..; write a slash in a name as %2F").write(w)
		return
	}
	m := &match{w: w}
	s.mux.ServeHTTP(m, r)
	switch {
	case m.found:
	case m.code == http.StatusMethodNotAllowed:
		allow := m.header.Get("Allow")
		w.Header().Set("Allow", allow)
		problem(http.StatusMethodNotAllowed, codeMethod, "use one of the methods "+allow).write(w)
	default:
		problem(http.StatusNotFound, codeNotFound, "there is no such path; see /openapi.json").write(w)
	}
}

// handle adds a handler to the mux.
func (s *Server) handle(pattern string, h http.HandlerFunc) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		m := w.(*match)
		m.found = true
		h(m.w, r)
	})
}

// plainPath reports whether no part of a path is empty, . or ...
func plainPath(path string) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// A match takes a response through the mux to the handler that it finds. If there is none, it notes what the mux responds.
type match struct {
	w      http.ResponseWriter
	found  bool
	header http.Header // of the mux's own response
	code   int
}

func (m *match) Header() http.Header {
	if m.header == nil {
		m.header = http.Header{}
	}
	return m.header
}

func (m *match) WriteHeader(code int)        { m.code = code }
func (m *match) Write(b []byte) (int, error) { return len(b), nil }
