package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A service is a running server.
type service struct {
	t       *testing.T
	store   *soloisttest.Store
	client  *soloist.Client
	server  *Server
	http    *httptest.Server
	token   string
	logged  *logged
	schemas map[string]*jsonschema.Schema // by method and path
}

// logged is a log that goroutines write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func start(t *testing.T, s *soloisttest.Store, cfg Config) *service {
	t.Helper()
	log := &logged{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	client := soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: 20 * time.Second})
	server, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	run := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Drain()
		run.Close()
	})
	return &service{t: t, store: s, client: client, server: server, http: run, logged: log}
}

// An answer is a response. Its body is that of the type that a test expects.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// as returns the body as a T.
func as[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	in := json.NewDecoder(bytes.NewReader(a.body))
	in.DisallowUnknownFields()
	if err := in.Decode(&v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return v
}

// request returns a request; a body that is not a string is sent as JSON.
func (s *service) request(method, path string, body any, headers ...string) *http.Request {
	s.t.Helper()
	text, is := body.(string)
	if !is && body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		text = string(b)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.http.URL+path, strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	if text != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	return r
}

// send sends a request, and checks that the response is one that the description of the API has.
func (s *service) send(method, path string, body any, headers ...string) answer {
	s.t.Helper()
	r, err := s.http.Client().Do(s.request(method, path, body, headers...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := answer{r.StatusCode, r.Header, text}
	s.checkDescribed(method, strings.Split(path, "?")[0], a)
	return a
}

// want sends a request and checks the status, and the code of the problem if there is one.
func (s *service) want(status int, code, method, path string, body any, headers ...string) answer {
	s.t.Helper()
	a := s.send(method, path, body, headers...)
	if a.status != status {
		s.t.Fatalf("%s %s: %d %s; want %d", method, path, a.status, a.body, status)
	}
	if code != "" {
		if p := as[Problem](s.t, a); p.Code != code || p.Status != status || p.Detail == "" {
			s.t.Fatalf("%s %s: %s; want the code %s", method, path, a.body, code)
		}
	}
	return a
}

// lease acquires a lease.
func (s *service) lease(path string, body any, headers ...string) LeaseResponse {
	s.t.Helper()
	return as[LeaseResponse](s.t, s.want(200, "", "POST", path, body, headers...))
}

// description returns the schema of each operation's response, with what it refers to.
func (s *service) description() map[string]*jsonschema.Schema {
	if s.schemas != nil {
		return s.schemas
	}
	var d struct {
		OpenAPI    string
		Components struct{ Schemas map[string]*jsonschema.Schema }
		Paths      map[string]map[string]struct {
			OperationID string
			Responses   map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal(s.server.openapi, &d); err != nil {
		s.t.Fatal(err)
	}
	if d.OpenAPI != "3.1.0" {
		s.t.Errorf("OpenAPI %q", d.OpenAPI)
	}
	s.schemas = map[string]*jsonschema.Schema{}
	for path, operations := range d.Paths {
		for method, op := range operations {
			for status, response := range op.Responses {
				for kind, content := range response.Content {
					schema := d.Components.Schemas[strings.TrimPrefix(content.Schema.Ref, "#/components/schemas/")]
					if schema == nil {
						s.t.Fatalf("%s %s: no schema %q", method, path, content.Schema.Ref)
					}
					s.schemas[strings.ToUpper(method)+" "+path+" "+status+" "+kind] = schema
				}
				if len(response.Content) == 0 {
					s.schemas[strings.ToUpper(method)+" "+path+" "+status+" "] = &jsonschema.Schema{}
				}
			}
		}
	}
	return s.schemas
}

// checkDescribed checks a response against the description of the API.
func (s *service) checkDescribed(method, path string, a answer) {
	s.t.Helper()
	r, _ := http.NewRequestWithContext(s.t.Context(), method, path, nil)
	_, pattern := s.server.mux.Handler(r)
	if !strings.Contains(pattern, "/v1/") || !plainPath(path) { // or the mux would only redirect to it
		return
	}
	kind, status := a.header.Get("Content-Type"), strconv.Itoa(a.status)
	if kind == "application/problem+json" {
		status = "default"
		codes := []string{codeInvalid, codeUnauthenticated, codeForbidden, codeUnavailable, codeHost, codeCrossSite, codeMediaType, codeTooLarge} // of any route
		for _, r := range s.server.routes {
			if r.method+" "+r.path == pattern {
				codes = append(codes, r.codes...)
			}
		}
		if p := as[Problem](s.t, a); !slices.Contains(codes, p.Code) {
			s.t.Errorf("%s: the description has no code %s", pattern, p.Code)
		}
	}
	schema := s.description()[pattern+" "+status+" "+kind]
	if schema == nil {
		s.t.Errorf("%s: the description has no %s %s", pattern, status, kind)
		return
	}
	if len(a.body) == 0 || kind == jsonLines || kind == eventStream {
		return
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var body any
	if err := json.Unmarshal(a.body, &body); err != nil {
		s.t.Fatal(err)
	}
	if err := resolved.Validate(body); err != nil {
		s.t.Errorf("%s: %s is not as described: %v", pattern, a.body, err)
	}
}

const aKey = "0123456789abcdef"

// A lease goes through its life, of each primitive, at any instance.
func TestLeases(t *testing.T) {
	store := soloisttest.NewStore()
	one, two := start(t, store, Config{}), start(t, store.Share(), Config{})
	for _, path := range []string{"/v1/locks/a%2Fb", "/v1/leaders/a%2Fb", "/v1/semaphores/a%2Fb"} {
		query := ""
		if strings.HasPrefix(path, "/v1/semaphores") {
			query = "?limit=1"
		}
		acquire := path + "/acquire" + query
		begin := time.Now()
		l := one.lease(acquire, AcquireRequest{TTL: 60, Replica: "printer"})
		if l.Token <= 0 || l.ExpiresIn < 30 || l.ExpiresIn > 54+time.Since(begin).Seconds() || (l.Permit != nil) != (query != "") {
			t.Errorf("%s: %+v", acquire, l)
		}
		refusal := two.want(409, codeHeld, "POST", acquire, nil)
		held := as[Problem](t, refusal)
		if again, err := strconv.Atoi(refusal.header.Get("Retry-After")); err != nil || held.Left != nil && float64(again) < *held.Left {
			t.Errorf("Retry-After %q, and the lease lasts for %v", refusal.header.Get("Retry-After"), *held.Left)
		}
		if held.Holder != "printer" || held.Left == nil || *held.Left <= 0 || *held.Left > 60 {
			t.Errorf("%+v", held)
		}
		list := as[Page[json.RawMessage]](t, two.want(200, "", "GET", "/v1/"+strings.Split(path, "/")[2], nil))
		if len(list.Items) != 1 || !strings.Contains(string(list.Items[0]), `"replica":"printer"`) || strings.Contains(string(list.Items[0]), "#") {
			t.Errorf("%s", list.Items)
		}
		if query != "" && !strings.Contains(string(list.Items[0]), `"permit":0`) {
			t.Errorf("%s lack the first permit", list.Items)
		}
		lease := "/v1/leases/" + l.Lease
		if again := as[LeaseResponse](t, two.want(200, "", "GET", lease, nil)); again.Token != l.Token || again.Lease != l.Lease {
			t.Errorf("%+v, want %+v", again, l)
		}
		if again := two.lease(lease+"/renew", nil); again.Lease != l.Lease || again.ExpiresIn < 30 {
			t.Errorf("%+v", again)
		}
		two.want(204, "", "POST", lease+"/release", nil)
		two.want(204, "", "POST", lease+"/release", nil) // its reply may have been lost
		one.want(410, codeLost, "GET", lease, nil)
		one.want(410, codeLost, "POST", lease+"/renew", nil)
		if next := one.lease(acquire, nil); next.Token <= l.Token {
			t.Errorf("token %d after %d", next.Token, l.Token)
		}
		one.want(410, codeLost, "POST", lease+"/release", nil)
	}
}

// A name whose lease was acquired with atLeast stays taken after a release.
func TestAtLeast(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	l := s.lease("/v1/locks/x/acquire", AcquireRequest{TTL: 60, AtLeast: 7200})
	s.want(204, "", "POST", "/v1/leases/"+l.Lease+"/release", nil)
	if p := as[Problem](t, s.want(409, codeHeld, "POST", "/v1/locks/x/acquire", nil)); p.Left == nil || *p.Left <= 60 || *p.Left > 7200 {
		t.Errorf("after the release: %+v", p)
	}
}

// A request that is repeated gets the same lease, from any instance; another caller's or another name's key is another one.
func TestRetries(t *testing.T) {
	store := soloisttest.NewStore()
	one, two := start(t, store, Config{}), start(t, store.Share(), Config{})
	l := one.lease("/v1/locks/x/acquire", nil, keyHeader, aKey)
	if again := two.lease("/v1/locks/x/acquire", nil, keyHeader, aKey); again.Lease != l.Lease || again.Token != l.Token || again.ExpiresIn > 27 {
		t.Errorf("%+v, want %+v", again, l)
	}
	two.want(409, codeHeld, "POST", "/v1/locks/x/acquire", nil, keyHeader, aKey+"0")
	two.want(409, codeHeld, "POST", "/v1/locks/x/acquire", nil, keyHeader, "! "+aKey+" ~")
	if other := two.lease("/v1/locks/y/acquire", nil, keyHeader, aKey); other.Lease == l.Lease {
		t.Error("two names have one lease")
	}
	for _, limit := range []string{"1", "2"} {
		first := one.lease("/v1/semaphores/s/acquire?limit="+limit, nil, keyHeader, aKey+limit)
		if again := two.lease("/v1/semaphores/s/acquire?limit="+limit, nil, keyHeader, aKey+limit); again.Lease != first.Lease {
			t.Errorf("limit %s: %+v, want %+v", limit, again, first)
		}
	}
	el := one.lease("/v1/elements/j/1/claim", nil, keyHeader, aKey)
	if again := two.lease("/v1/elements/j/1/claim", nil, keyHeader, aKey); again.Lease != el.Lease || again.Attempt != 1 {
		t.Errorf("%+v, want %+v", again, el)
	}
	el2 := one.lease("/v1/elements/k/1/claim", nil, keyHeader, aKey)
	if el2.Lease == el.Lease {
		t.Error("elements of two jobs have one lease")
	}
}

// What lists show is not enough to renew or release a lease.
func TestLeaseIsASecret(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	l := s.lease("/v1/locks/x/acquire", AcquireRequest{TTL: 3600})
	forged, err := parseTicket(l.Lease)
	if err != nil {
		t.Fatal(err)
	}
	forged.Secret = strings.Repeat("\x01", secretSize)
	s.want(410, codeLost, "POST", "/v1/leases/"+forged.String()+"/release", nil)
	s.want(410, codeLost, "POST", "/v1/leases/"+forged.String()+"/renew", nil)
	forged, _ = parseTicket(l.Lease)
	forged.Token++
	s.want(410, codeLost, "POST", "/v1/leases/"+forged.String()+"/renew", nil)
	forged.Kind, forged.Token = soloist.KindJob, forged.Token-1
	s.want(400, codeInvalid, "POST", "/v1/leases/"+forged.String()+"/renew", nil)
	s.want(200, "", "POST", "/v1/leases/"+l.Lease+"/renew", nil)
}

// An acquire waits for as long as it says.
func TestWaiting(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{MaxWaiting: 1})
	l := s.lease("/v1/locks/x/acquire", AcquireRequest{TTL: 3600})
	got := make(chan LeaseResponse)
	go func() { got <- s.lease("/v1/locks/x/acquire", AcquireRequest{Wait: 600}) }()
	s.untilOneWaits()
	s.want(503, codeBusy, "POST", "/v1/locks/y/acquire", nil)
	s.want(204, "", "POST", "/v1/leases/"+l.Lease+"/release", nil)
	if next := <-got; next.Token <= l.Token {
		t.Errorf("%+v after %+v", next, l)
	}
}

// A request that waits when the service shuts down is told that this instance cannot be used, and not that the name is held: another instance can go on waiting.
func TestWaitingIsCutShort(t *testing.T) {
	for _, path := range []string{"/v1/locks/x/acquire", "/v1/locks/x/hold", "/v1/semaphores/x/acquire?limit=1", "/v1/elements/x/1/claim"} {
		s := start(t, soloisttest.NewStore(), Config{})
		taken := strings.Replace(path, "hold", "acquire", 1)
		s.lease(taken, AcquireRequest{TTL: 3600})
		refused := make(chan answer)
		go func() { refused <- s.send("POST", path, AcquireRequest{Wait: 600}) }()
		s.untilOneWaits()
		s.server.Drain()
		if a := <-refused; a.status != 503 || as[Problem](t, a).Code != codeUnavailable || a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		s.want(503, codeUnavailable, "POST", path, AcquireRequest{Wait: 600})
		s.want(409, codeHeld, "POST", path, nil) // it does not wait
	}
}

// The options of an embedder's client are not those of the leases of callers: a name is free when it was released.
func TestLeasesHaveTheOptionsOfTheirRequests(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	api, err := New(s.client.With(soloist.Options{AtLeast: time.Hour, AtMost: 2 * time.Hour}), s.server.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Drain()
	s.server, s.http.Config.Handler = api, api
	for range 2 {
		l := s.lease("/v1/locks/x/acquire", AcquireRequest{TTL: 4 * 3600})
		if l.ExpiresIn < 3*3600 {
			t.Errorf("a lease of 4 h is held for %v s", l.ExpiresIn)
		}
		s.want(204, "", "POST", "/v1/leases/"+l.Lease+"/release", nil)
	}
}

// untilOneWaits waits until a request waits for a lease.
func (s *service) untilOneWaits() {
	for s.server.waiting.used() != 1 {
		time.Sleep(5 * time.Millisecond)
	}
}

// eventually repeats a request until it has a status.
func (s *service) eventually(status int, method, path string, body any) answer {
	s.t.Helper()
	for {
		a := s.send(method, path, body)
		if a.status == status {
			return a
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A connection holds a lease: it is renewed as long as the connection lives, and released at its end.
func TestHold(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	lines := s.hold(ctx, "/v1/locks/x/hold", AcquireRequest{TTL: 15})
	first := lines()
	if first.Event != "held" || first.Token <= 0 || first.ExpiresIn <= 0 {
		t.Errorf("%+v", first)
	}
	if next := lines(); next.Event != "alive" || next.Token != first.Token || next.ExpiresIn <= first.ExpiresIn {
		t.Errorf("%+v", next)
	}
	s.want(409, codeHeld, "POST", "/v1/locks/x/hold", nil)
	cut()
	waited := s.lease("/v1/locks/x/acquire", AcquireRequest{Wait: 600})
	if waited.Token <= first.Token {
		t.Errorf("%+v", waited)
	}

	lines = s.hold(t.Context(), "/v1/semaphores/s/hold?limit=2", AcquireRequest{TTL: 15})
	first = lines()
	s.want(204, "", "DELETE", "/v1/semaphores/s/0?token="+strconv.FormatInt(first.Token, 10), nil)
	last := lines()
	for last.Event == "alive" {
		last = lines()
	}
	if last.Event != "lost" || last.ExpiresIn != 0 {
		t.Errorf("%+v", last)
	}
}

// A client has what it was told when the service is shut down, also if the service closes the connection.
func TestHoldThatTheServiceCutsOff(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
			if version == "HTTP/2.0" {
				s.http = httptest.NewUnstartedServer(s.server)
				s.http.EnableHTTP2 = true
				s.http.StartTLS()
				t.Cleanup(s.http.Close)
			}
			r, err := s.http.Client().Do(s.request("POST", "/v1/locks/l/hold", AcquireRequest{TTL: 3600}))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			if r.Proto != version || r.StatusCode != http.StatusOK {
				t.Fatal(r.Proto, r.Status)
			}
			next := lines(t, r.Body)
			next()
			s.server.Drain()
			if last := next(); last.Event != "closing" || last.ExpiresIn <= 0 {
				t.Errorf("%+v", last)
			}
			_ = s.http.Config.Close() // as at the end of a drain
			for s.server.waiting.used() > 0 {
				time.Sleep(5 * time.Millisecond)
			}
			other := soloisttest.NewReplica(t, s.store.Share(), soloist.Config{})
			if _, err := other.TryLock(t.Context(), "l"); !errors.Is(err, soloist.ErrHeld) {
				t.Errorf("it was told to be held, and the service closed the connection: %v", err)
			}
		})
	}
}

// A client that is told that its lease is not renewed any more has it until it has stopped and closes the connection, or for as long as it was told.
func TestHoldThatTheServiceEnds(t *testing.T) {
	for _, closes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, p := startInBubble(t, Config{OpenActions: true})
			begin := time.Now()
			body := s.holdInBubble(p, AcquireRequest{TTL: 30})
			next := lines(t, body)
			next()
			s.server.Drain()
			last := next()
			if last.Event != "closing" || last.ExpiresIn != 27 {
				t.Errorf("%+v", last)
			}
			other := soloisttest.NewReplica(t, s.store.Share(), soloist.Config{})
			free := func() bool {
				t.Helper()
				synctest.Wait()
				l, err := other.TryLock(t.Context(), "x")
				if err != nil && !errors.Is(err, soloist.ErrHeld) {
					t.Fatal(err)
				}
				return err == nil && l.Release() == nil
			}
			if free() {
				t.Error("it is free, and its holder has not closed the connection")
			}
			if closes {
				_ = body.Close()
				if !free() {
					t.Error("its holder has closed the connection, and it is not free")
				}
				return
			}
			if end := next(); end.Event != "" || time.Since(begin) > 10*time.Second {
				t.Errorf("after %v: %+v; want the end", time.Since(begin), end)
			}
			time.Sleep(time.Until(begin.Add(27*time.Second - 1)))
			if free() {
				t.Error("it is free before the time that was told")
			}
			time.Sleep(4 * time.Second)
			if !free() {
				t.Error("it is not free after its TTL")
			}
		})
	}
}

// A connection shares its lease with no other request, whatever key it has: the first that ends would release what the others hold.
func TestAHoldIsOfOneRequest(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	for _, verbs := range [][2]string{{"hold", "hold"}, {"hold", "acquire"}, {"acquire", "hold"}} {
		for i, verb := range verbs {
			path := "/v1/locks/" + strings.Join(verbs[:], "-") + "/" + verb
			r, err := s.http.Client().Do(s.request("POST", path, AcquireRequest{TTL: 3600}, keyHeader, aKey))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close() // a hold goes on until then
			if want := [...]int{http.StatusOK, http.StatusConflict}[i]; r.StatusCode != want {
				t.Errorf("%s, of %v with one key: %s, want %d", verb, verbs, r.Status, want)
			}
		}
	}
}

// hold begins a hold, and returns what reads its lines; at the end they are empty.
func (s *service) hold(ctx context.Context, path string, body any) func() HoldEvent {
	s.t.Helper()
	r, err := s.http.Client().Do(s.request("POST", path, body).WithContext(ctx))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = r.Body.Close() })
	mustStream(s.t, r, jsonLines)
	return lines(s.t, r.Body)
}

// lines returns what reads the lines of a hold.
func lines(t *testing.T, body io.Reader) func() HoldEvent {
	in := bufio.NewScanner(body)
	return func() (e HoldEvent) {
		t.Helper()
		if !in.Scan() {
			return e
		}
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// A time that is shorter than the service counts is not none, which would mean a default, or forever.
func TestShortTimesAreNotNone(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	lock, err := parseTicket(s.lease("/v1/locks/x/acquire", AcquireRequest{AtLeast: 0.0004}).Lease)
	if err != nil || lock.AtLeast != 1 {
		t.Errorf("%+v, %v", lock, err)
	}
	element, err := parseTicket(s.lease("/v1/elements/invoices/1/claim", ElementRequest{Retain: 1e-10, Backoff: 1.0004}).Lease)
	if err != nil || element.Element == nil || *element.Element != (elementTerm{Backoff: 1001, Retain: 1}) {
		t.Errorf("%+v, %v", element.Element, err)
	}
}

func TestElements(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	claim := "/v1/elements/invoices/4711/claim"
	el := s.lease(claim, ElementRequest{Attempts: 2})
	if el.Attempt != 1 {
		t.Errorf("%+v", el)
	}
	s.want(409, codeHeld, "POST", claim, nil)
	end := EndRequest{Lease: el.Lease, Reason: "no paper"}
	s.want(400, codeInvalid, "POST", "/v1/elements/invoices/4712/fail", end)
	s.want(204, "", "POST", "/v1/elements/invoices/4711/fail", end)
	s.want(204, "", "POST", "/v1/elements/invoices/4711/fail", end)
	el = s.lease(claim, ElementRequest{Attempts: 2})
	if el.Attempt != 2 {
		t.Errorf("%+v", el)
	}
	s.want(204, "", "POST", "/v1/elements/invoices/4711/release", EndRequest{Lease: el.Lease})
	el = s.lease(claim, ElementRequest{Attempts: 2})
	s.want(204, "", "POST", "/v1/elements/invoices/4711/done", EndRequest{Lease: el.Lease})
	s.want(204, "", "POST", "/v1/elements/invoices/4711/done", EndRequest{Lease: el.Lease})
	s.want(409, codeDone, "POST", claim, nil)
	s.want(410, codeLost, "POST", "/v1/elements/invoices/4711/fail", EndRequest{Lease: strings.Replace(el.Lease, el.Lease, s.stale(el.Lease), 1)})

	for range 2 {
		el = s.lease("/v1/elements/invoices/bad/claim", ElementRequest{Attempts: 2})
		s.want(204, "", "POST", "/v1/elements/invoices/bad/fail", EndRequest{Lease: el.Lease, Reason: "<script>"})
	}
	s.want(409, codeFailed, "POST", "/v1/elements/invoices/bad/claim", ElementRequest{Attempts: 2})

	batch := as[BatchResponse](t, s.want(200, "", "POST", "/v1/elements/invoices/claim", BatchRequest{IDs: []string{"4711", "a", "b"}, ElementRequest: ElementRequest{TTL: 60}}))
	if len(batch.Elements) != 3 || batch.Elements[0].Problem == nil || batch.Elements[0].Problem.Code != codeDone || batch.Elements[1].Claim == nil || batch.Elements[2].ID != "b" {
		t.Errorf("%+v", batch)
	}
	s.want(204, "", "POST", "/v1/elements/invoices/a/done", EndRequest{Lease: batch.Elements[1].Claim.Lease})
	page := as[Page[Element]](t, s.want(200, "", "GET", "/v1/elements/invoices?limit=2", nil))
	rest := as[Page[Element]](t, s.want(200, "", "GET", "/v1/elements/invoices?limit=2&after="+page.Next, nil))
	var got []string
	for _, e := range append(page.Items, rest.Items...) {
		got = append(got, e.ID+" "+e.Status)
	}
	if !slices.Equal(got, []string{"4711 processed", "a processed", "b claimed", "bad failed"}) || rest.Next != "" {
		t.Errorf("%q, %+v", got, rest)
	}
	if jobs := as[Page[string]](t, s.want(200, "", "GET", "/v1/elements", nil)); !slices.Equal(jobs.Items, []string{"invoices"}) {
		t.Errorf("%+v", jobs)
	}
	s.want(204, "", "DELETE", "/v1/elements/invoices/b?token="+strconv.FormatInt(batch.Elements[2].Claim.Token, 10), nil)
}

// stale returns the lease with another token.
func (s *service) stale(lease string) string {
	t, err := parseTicket(lease)
	if err != nil {
		s.t.Fatal(err)
	}
	t.Token--
	return t.String()
}

func TestJobs(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	runner := soloisttest.NewReplica(t, s.store.Share(), soloist.Config{Replica: "worker"})
	ctx, stop := context.WithCancel(t.Context())
	ran, ended := make(chan struct{}, 10), make(chan error, 1)
	go func() {
		ended <- runner.Run(ctx, soloist.Job{Name: "report", Description: "writes <b>", Schedule: soloist.Every(24 * time.Hour),
			Do: func(context.Context, soloist.Run) error { ran <- struct{}{}; return errors.New("no paper") }})
	}()
	for as[Page[Job]](t, s.want(200, "", "GET", "/v1/jobs", nil)).Items == nil || len(as[Job](t, s.eventually(200, "GET", "/v1/jobs/report", nil)).Replicas) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	s.want(204, "", "POST", "/v1/jobs/report/pause", ReasonRequest{"holiday"})
	job := as[Job](t, s.want(200, "", "GET", "/v1/jobs/report", nil))
	if job.Paused == nil || job.Paused.Reason != "holiday" || len(job.Next) != 0 {
		t.Errorf("%+v", job)
	}
	s.want(204, "", "POST", "/v1/jobs/report/resume", nil)
	s.want(204, "", "POST", "/v1/jobs/report/trigger", nil)
	<-ran
	for job = as[Job](t, s.want(200, "", "GET", "/v1/jobs/report", nil)); len(job.Runs) == 0; {
		job = as[Job](t, s.want(200, "", "GET", "/v1/jobs/report", nil))
	}
	if r := job.Runs[0]; !r.Manual || r.Error != "no paper" || len(job.Next) != 5 {
		t.Errorf("%+v", job)
	}
	s.want(409, codeInUse, "POST", "/v1/jobs/report/forget", nil)
	s.want(409, codeStale, "DELETE", "/v1/jobs/report/run?token=1", nil)
	if replicas := as[Page[Replica]](t, s.want(200, "", "GET", "/v1/replicas", nil)); len(replicas.Items) != 1 || replicas.Items[0].Name != "worker" {
		t.Errorf("%+v", replicas)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.want(409, codeNoReplica, "POST", "/v1/jobs/report/trigger", nil)
	s.want(204, "", "POST", "/v1/jobs/report/forget", nil)
	s.want(404, codeNotFound, "GET", "/v1/jobs/report", nil)
	s.want(404, codeNotFound, "POST", "/v1/jobs/report/pause", nil)
	var did []string
	for _, a := range as[Page[Action]](t, s.want(200, "", "GET", "/v1/actions", nil)).Items {
		did = append(did, a.Verb+" "+a.Name+" "+a.By[:4])
	}
	if !slices.Equal(did, []string{"pause report http", "resume report http", "trigger report http", "forget report http"}) {
		t.Errorf("%q", did)
	}
}

// Each mistake gets the right status, and a problem that names the input.
func TestMistakes(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	lock := "/v1/locks/x/acquire"
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		code, field  string
		headers      []string
	}{
		{"POST", lock, `{"ttl":"30s"}`, 400, codeInvalid, "ttl", nil},
		{"POST", lock, `{"ttl":-1}`, 400, codeInvalid, "ttl", nil},
		{"POST", lock, `{"ttl":0.5}`, 400, codeInvalid, "ttl", nil},
		{"POST", lock, `{"ttl":1e300}`, 400, codeInvalid, "ttl", nil},
		{"POST", lock, `{"ttl":1e-10}`, 400, codeInvalid, "ttl", nil},
		{"POST", lock, `{"ttl":315360001}`, 400, codeInvalid, "ttl", nil},
		{"POST", lock, `{"wait":601}`, 400, codeInvalid, "wait", nil},
		{"POST", lock, `{"atLeast":-1}`, 400, codeInvalid, "atLeast", nil},
		{"POST", lock, `{"atLeast":315360001}`, 400, codeInvalid, "atLeast", nil},
		{"POST", lock, `{"replica":"a\nb"}`, 400, codeInvalid, "replica", nil},
		{"POST", lock, `{"replica":"` + long + `"}`, 400, codeInvalid, "replica", nil},
		{"POST", lock, `{"token":9223372036854775807}`, 400, codeInvalid, "token", nil},
		{"POST", lock, `{"ttl":30`, 400, codeInvalid, "body", nil},
		{"POST", lock, `{"ttl":30}{}`, 400, codeInvalid, "body", nil},
		{"POST", lock, `[]`, 400, codeInvalid, "body", nil},
		{"POST", lock, `"` + strings.Repeat("x", maxBody) + `"`, 413, codeTooLarge, "", nil},
		{"POST", lock, `ttl=30`, 415, codeMediaType, "", []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"POST", lock, nil, 400, codeInvalid, keyHeader, []string{keyHeader, "short"}},
		{"POST", lock, nil, 400, codeInvalid, keyHeader, []string{keyHeader, aKey + "\xe9"}}, // é in Latin-1; as UTF-8 it would be what è is
		{"POST", lock, nil, 400, codeInvalid, keyHeader, []string{keyHeader, aKey + "é"}},
		{"POST", "/v1/elements/j/1/claim", nil, 400, codeInvalid, keyHeader, []string{keyHeader, aKey + "\xe9"}},
		{"POST", "/v1/elements/j/claim", `{"ids":["a"]}`, 400, codeInvalid, keyHeader, []string{keyHeader, aKey + "\xe9"}},
		{"POST", lock + "?limit=3", nil, 400, codeInvalid, "limit", nil},
		{"POST", "/v1/locks/" + long + "/acquire", nil, 400, codeInvalid, "name", nil},
		{"POST", "/v1/locks/a%0Ab/acquire", nil, 400, codeInvalid, "name", nil},
		{"POST", "/v1/locks/a%00/acquire", nil, 400, codeInvalid, "name", nil},
		{"POST", "/v1/locks/a/acquire", "null", 400, codeInvalid, "body", nil},
		{"POST", "/v1/elements/a%00/b/claim", nil, 400, codeInvalid, "job", nil},
		{"POST", "/v1/elements/a/b%00/claim", nil, 400, codeInvalid, "id", nil},
		{"GET", "/v1/jobs/%00", nil, 400, codeInvalid, "name", nil},
		{"POST", "/v1/locks/%ff/acquire", nil, 400, codeInvalid, "name", nil},
		{"POST", "/v1/semaphores/x/acquire", nil, 400, codeInvalid, "limit", nil},
		{"POST", "/v1/semaphores/x/acquire?limit=0", nil, 400, codeInvalid, "limit", nil},
		{"POST", "/v1/semaphores/x/acquire?limit=1001", nil, 400, codeInvalid, "limit", nil},
		{"POST", "/v1/semaphores/x/acquire?limit=2&limit=3", nil, 400, codeInvalid, "limit", nil},
		{"POST", "/v1/leases/x/renew", nil, 400, codeInvalid, "lease", nil},
		{"GET", "/v1/leases/" + strings.Repeat("x", maxTicket+1), nil, 400, codeInvalid, "lease", nil},
		{"POST", "/v1/elements/j/1/claim", `{"attempts":-1}`, 400, codeInvalid, "attempts", nil},
		{"POST", "/v1/elements/j/1/claim", `{"backoff":-1}`, 400, codeInvalid, "backoff", nil},
		{"POST", "/v1/elements/j/1/claim", `{"retain":-1}`, 400, codeInvalid, "retain", nil},
		{"POST", "/v1/elements/j/1/done", nil, 415, codeMediaType, "", nil},
		{"POST", "/v1/elements/j/1/done", `{}`, 400, codeInvalid, "lease", nil},
		{"POST", "/v1/elements/j/claim", `{"ids":[]}`, 400, codeInvalid, "ids", nil},
		{"POST", "/v1/elements/j/claim", `{"ids":["a","a"]}`, 400, codeInvalid, "ids", nil},
		{"POST", "/v1/elements/j/claim", `{"ids":["a"],"wait":1}`, 400, codeInvalid, "wait", nil},
		{"GET", "/v1/locks?limit=0", nil, 400, codeInvalid, "limit", nil},
		{"GET", "/v1/locks?page=2", nil, 400, codeInvalid, "page", nil},
		{"GET", "/v1/locks?after=" + strings.Repeat("x", maxQuery), nil, 414, codeTooLarge, "", nil},
		{"GET", "/v1/jobs/none", nil, 404, codeNotFound, "", nil},
		{"POST", "/v1/jobs/none/trigger", nil, 404, codeNotFound, "", nil},
		{"DELETE", "/v1/locks/x", nil, 400, codeInvalid, "token", nil},
		{"DELETE", "/v1/locks/x?token=9223372036854775807", nil, 400, codeInvalid, "token", nil},
		{"DELETE", "/v1/locks/x?token=1", nil, 409, codeStale, "", nil},
		{"DELETE", "/v1/semaphores/x/1000?token=1", nil, 400, codeInvalid, "permit", nil},
		{"DELETE", "/v1/semaphores/x/-1?token=1", nil, 400, codeInvalid, "permit", nil},
		{"GET", "/v1/elements/" + strings.Repeat("x", 256), nil, 400, codeInvalid, "job", nil},
		{"POST", "/v1/elements/j/claim", "{\"ids\":[\"a\xff\",\"a\xfe\"]}", 400, codeInvalid, "body", nil},
		{"POST", "/v1/elements/j/claim", `{"ids":["caf\udce9.txt"]}`, 400, codeInvalid, "body", nil}, // as Python writes a file name that is not UTF-8
		{"POST", "/v1/elements/j/claim", `{"ids":["\uDE00\ud83d"]}`, 400, codeInvalid, "body", nil},
		{"GET", "/v1/locks?after=%zz", nil, 400, codeInvalid, "query", nil},
		{"POST", "/v1//locks/x/acquire", nil, 404, codeNotFound, "", nil},
		{"POST", "/v1/locks//acquire", nil, 404, codeNotFound, "", nil},
		{"POST", "/v1/leaders/../locks/x/acquire", nil, 404, codeNotFound, "", nil},
		{"GET", "/v1/./locks", nil, 404, codeNotFound, "", nil},
		{"GET", "/v1", nil, 404, codeNotFound, "", nil},
		{"GET", "/v2/locks", nil, 404, codeNotFound, "", nil},
		{"GET", lock, nil, 405, codeMethod, "", nil},
	} {
		a := s.send(c.method, c.path, c.body, c.headers...)
		p := as[Problem](t, a)
		field := ""
		if len(p.Errors) > 0 {
			field = p.Errors[0].Field
		}
		if a.status != c.status || p.Code != c.code || field != c.field || p.Detail == "" || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.60s %.60v: %d %s; want %d %s %s", c.method, c.path, c.body, a.status, a.body, c.status, c.code, c.field)
		}
	}
	if a := s.send("POST", lock, "x", "Content-Type", "text/plain"); a.header.Get("Accept") != "application/json" {
		t.Errorf("415 accepts %q", a.header.Get("Accept"))
	}
	if a := s.send("GET", lock, nil); a.header.Get("Allow") != "POST" {
		t.Errorf("405 allows %q", a.header.Get("Allow"))
	}
}

// What the decoder would replace is found in each text of JSON, and nothing else is refused.
func TestEscapesOfHalfACharacter(t *testing.T) {
	parts := []string{`\ud83d`, `\uDE00`, `\uDB9F`, `\u00e9`, `\\`, `\"`, `u`, `dce9`, `😀`}
	texts := []string{""}
	for i := 0; i < len(texts); i++ {
		var decoded string
		if err := json.Unmarshal([]byte(`"`+texts[i]+`"`), &decoded); err != nil {
			t.Fatal(texts[i], err)
		}
		if got, want := escapesHalf([]byte(texts[i])), strings.ContainsRune(decoded, '\uFFFD'); got != want {
			t.Errorf("%s: %v, want %v", texts[i], got, want)
		}
		if len(texts) < 10000 {
			for _, part := range parts {
				texts = append(texts, texts[i]+part)
			}
		}
	}
	for _, cut := range []string{`\`, `\u`, `\ud83`, `\u+d83`} { // the decoder refuses them
		if escapesHalf([]byte(cut)) {
			t.Error(cut)
		}
	}
}

// A store that fails is a 503 that says when to try again, and nothing of where the store is.
func TestStoreAway(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	l := s.lease("/v1/locks/x/acquire", AcquireRequest{TTL: 3600})
	s.store.Break(errors.New("dial tcp db.internal:5432: password canary-secret refused"))
	for _, request := range [][2]string{
		{"POST", "/v1/locks/y/acquire"}, {"POST", "/v1/locks/y/hold"}, {"POST", "/v1/leases/" + l.Lease + "/renew"}, {"POST", "/v1/leases/" + l.Lease + "/release"},
		{"GET", "/v1/leases/" + l.Lease}, {"POST", "/v1/elements/j/1/claim"}, {"GET", "/v1/locks"}, {"GET", "/v1/jobs"}, {"GET", "/v1/actions"},
	} {
		a := s.want(503, codeUnavailable, request[0], request[1], nil)
		if a.header.Get("Retry-After") != "1" || bytes.Contains(a.body, []byte("internal")) || bytes.Contains(a.body, []byte("canary")) {
			t.Errorf("%v: Retry-After %q, %s", request, a.header.Get("Retry-After"), a.body)
		}
	}
	if !strings.Contains(s.logged.String(), "db.internal") {
		t.Error("the reason is not in the log")
	}
	s.store.Heal()
	s.want(204, "", "POST", "/v1/leases/"+l.Lease+"/release", nil)
}

// A refusal tells when to try again, also where nobody knows for how long the name is held.
func TestRetryAfterOfARefusal(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	for left, want := range map[time.Duration]string{0: "1", 300 * time.Millisecond: "1", 2500 * time.Millisecond: "3"} {
		w := httptest.NewRecorder()
		s.server.problemOf(t.Context(), &soloist.HeldError{Name: "x", Left: left}).write(w)
		if got := w.Header().Get("Retry-After"); w.Code != 409 || got != want {
			t.Errorf("%d, with %v left: Retry-After %q, want %q", w.Code, left, got, want)
		}
	}
}

// A response that cannot be written is a problem, and not an empty success.
func TestResponseThatCannotBeWritten(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	w := httptest.NewRecorder()
	s.server.serve(route{do: func(*call) (any, error) { return time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), nil }})(w, s.request("GET", "/v1/jobs/x", nil))
	if p := as[Problem](t, answer{w.Code, w.Header(), w.Body.Bytes()}); w.Code != 503 || p.Code != codeUnavailable || !strings.Contains(s.logged.String(), "writing a response") {
		t.Errorf("%d %s, log: %s", w.Code, w.Body, s.logged)
	}
}

// A caller without an address, as by a unix socket, is shown as local.
func TestCallerWithoutAnAddress(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	r := s.request("POST", "/v1/locks/x/acquire", nil)
	r.RemoteAddr = "@"
	s.server.ServeHTTP(httptest.NewRecorder(), r)
	if page := as[Page[Lease]](t, s.want(200, "", "GET", "/v1/locks", nil)); len(page.Items) != 1 || page.Items[0].Replica != "http local" {
		t.Errorf("%+v", page)
	}
}

// paths returns a path of each route.
func paths(s *Server) (all [][2]string) {
	for _, r := range s.routes {
		path := strings.NewReplacer("{permit}", "1", "{name}", "x", "{job}", "x", "{id}", "1", "{lease}", "x").Replace(r.path)
		all = append(all, [2]string{r.method, path})
	}
	return append(all, [2]string{"GET", "/openapi.json"}, [2]string{"GET", "/nowhere"})
}

// No route serves another host, or changes something for a page of another site.
func TestOtherHostsAndSites(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true, Hosts: []string{"locks.example", "10.0.0.7"}})
	for _, p := range paths(s.server) {
		for _, host := range []string{"evil", "evil:80", "127.0.0.1.evil", "10.0.0.8", "[::2]:80", "locks.example.evil"} {
			s.want(421, codeHost, p[0], p[1], nil, "Host", host)
		}
		if p[0] == http.MethodGet {
			continue
		}
		s.want(403, codeCrossSite, p[0], p[1], nil, "Sec-Fetch-Site", "cross-site")
		s.want(403, codeCrossSite, p[0], p[1], nil, "Origin", "https://evil")
	}
	for _, host := range []string{"locks.example", "LOCKS.example:8080", "10.0.0.7:1", "localhost", "[::1]:80"} {
		s.want(200, "", "GET", "/v1/locks", nil, "Host", host)
	}
}

// What a GET returns is neither cached nor run by a browser.
func TestHeaders(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	for _, path := range []string{"/v1/locks", "/openapi.json", "/nowhere"} {
		a := s.send("GET", path, nil)
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
		if !strings.HasPrefix(a.header.Get("Content-Security-Policy"), "default-src 'none'") || !strings.HasPrefix(a.header.Get("Content-Type"), "application/") {
			t.Errorf("%s: %v", path, a.header)
		}
	}
}

// Each operation is described once, with a name.
func TestDescription(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	if a := s.want(200, "", "GET", "/openapi.json", nil); !bytes.Equal(a.body, s.server.openapi) {
		t.Error("it is not what is served")
	}
	ids := map[string]bool{}
	for _, r := range s.server.routes {
		if id := operationID(r); ids[id] || r.summary == "" {
			t.Errorf("%s %s: %q, %q", r.method, r.path, id, r.summary)
		} else {
			ids[id] = true
		}
		if s.description()[r.method+" "+r.path+" default application/problem+json"] == nil {
			t.Errorf("%s %s is not described", r.method, r.path)
		}
	}
}

// Pages of a list that follow each other have all of it once, whatever the names are, and none has more than was asked for.
func TestPagesOfLists(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	names := []string{"a", "a%25b", "a)b", "a%2Fb", "a%2Fb%2Fc", "a0"}
	for _, name := range names {
		s.lease("/v1/locks/"+name+"/acquire", nil)
		s.lease("/v1/semaphores/"+name+"/acquire?limit=2", nil)
		s.lease("/v1/elements/"+name+"/1/claim", nil)
	}
	pages := func(path string, read func(answer) (names []string, next string)) {
		var all []string
		for next := ""; ; {
			some, after := read(s.want(200, "", "GET", path+"?limit=2&after="+url.QueryEscape(next), nil))
			if len(some) > 2 {
				t.Errorf("%s: a page of %q, want two at most", path, some)
			}
			all = append(all, some...)
			if next = after; next == "" {
				break
			}
		}
		slices.Sort(all)
		if !slices.Equal(all, []string{"a", "a%b", "a)b", "a/b", "a/b/c", "a0"}) {
			t.Errorf("%s: %q", path, all)
		}
	}
	pages("/v1/locks", func(a answer) (names []string, next string) {
		page := as[Page[Lease]](t, a)
		for _, l := range page.Items {
			names = append(names, l.Name)
		}
		return names, page.Next
	})
	pages("/v1/semaphores", func(a answer) (names []string, next string) {
		page := as[Page[Semaphore]](t, a)
		for _, l := range page.Items {
			names = append(names, l.Name)
		}
		return names, page.Next
	})
	pages("/v1/elements", func(a answer) (names []string, next string) {
		page := as[Page[string]](t, a)
		return page.Items, page.Next
	})
}

// A record that something else has written is told beside the others of its list, and neither keeps them back nor looks like a store that is away. A store that is
// away is no such record.
func TestListsWithForeignRecords(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	s.runJob("report", func(context.Context, soloist.Run) error { return nil })
	s.trigger("report")
	s.lease("/v1/semaphores/pdf/acquire?limit=2", nil)
	s.lease("/v1/elements/invoices/1/claim", nil)
	for _, name := range []string{"job/x", "replica/x", "semaphore/x", "element/invoices/2"} {
		outs, err := s.store.Acquire(t.Context(), []store.Claim{{Name: name, Holder: "a#1", TTL: time.Hour}})
		if err == nil {
			err = outs[0].Err
		}
		if err == nil {
			_, err = s.store.Extend(t.Context(), []store.Extension{{Name: name, Holder: "a#1", Token: outs[0].Grant.Token, TTL: time.Hour, State: []byte("page 7")}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"/v1/jobs": "report", "/v1/replicas": "runner", "/v1/semaphores": "pdf", "/v1/elements/invoices": `"1"`} {
		var page struct {
			Items  []json.RawMessage
			Unread bool
		}
		a := s.want(200, "", "GET", path, nil)
		if err := json.Unmarshal(a.body, &page); err != nil || !page.Unread || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %s, %v", path, a.body, err)
		}
	}
	if page := as[Page[Job]](t, s.want(200, "", "GET", "/v1/jobs?limit=1", nil)); page.Unread || page.Next != "report" {
		t.Errorf("%+v", page)
	}
	if a := s.page("GET", "/elements?job=invoices", nil); a.status != 200 || !strings.Contains(string(a.body), "printer") && !strings.Contains(string(a.body), "claimed") {
		t.Errorf("%d %s", a.status, a.body)
	}
	f := s.listen("")
	if !f.first.Store.Reachable {
		t.Error("records that cannot be read are told as a store that cannot be")
	}
	first := f.last
	l := s.lease("/v1/locks/x/acquire", nil)
	f.untilNamed("taken", "x")
	s.want(204, "", "POST", "/v1/leases/"+l.Lease+"/release", nil)
	if f.untilNamed("freed", "x"); f.last == first {
		t.Error("the IDs of events stand still")
	}
	s.store.Break(errors.New("away"))
	f.until("that the store is away", func(e Event) bool { return e.Event == "store" && !e.Store.Reachable })
	for _, path := range []string{"/v1/jobs", "/v1/replicas", "/v1/semaphores", "/v1/elements/invoices"} {
		s.want(503, codeUnavailable, "GET", path, nil)
	}
}
