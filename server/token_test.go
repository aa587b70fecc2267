package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/soloisttest"
)

// newTokens returns a token of each role, and one of each with a prefix, with their secrets.
func newTokens(t *testing.T) (*Tokens, map[string]string) {
	t.Helper()
	var lines strings.Builder
	secrets := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		for _, prefix := range []string{"", "team/"} {
			secret, line, err := NewToken(name+strings.TrimSuffix(prefix, "/"), name, prefix)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&lines, line)
			secrets[name+prefix] = secret
		}
	}
	tokens, err := ReadTokens(strings.NewReader("# callers\n\n" + lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(lines.String(), secret) || len(secret) < 43 {
			t.Errorf("the secret %q is in its line, or short", secret)
		}
	}
	return tokens, secrets
}

// withTokens starts a service with the tokens of newTokens, and returns their secrets.
func withTokens(t *testing.T) (*service, map[string]string) {
	t.Helper()
	tokens, secrets := newTokens(t)
	return start(t, soloisttest.NewStore(), Config{Tokens: tokens, OpenActions: true}), secrets
}

// Each role may call its routes and no others; without a token there is nothing.
func TestRoles(t *testing.T) {
	s, secrets := withTokens(t)
	for i, r := range s.server.routes {
		p := paths(s.server)[i]
		s.token = ""
		a := s.want(401, codeUnauthenticated, p[0], p[1], nil)
		if a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%v: no WWW-Authenticate", p)
		}
		s.token = secrets["read"] + "x"
		s.want(401, codeUnauthenticated, p[0], p[1], nil)
		for name, is := range roles {
			s.token = secrets[name]
			if a := s.roleOf(p, r); (a == 403) != (is < r.role) {
				t.Errorf("%s: %v: %d", name, p, a)
			}
		}
	}
	bare := s.request("GET", "/v1/jobs", nil)
	bare.Header.Set("Authorization", secrets["admin"])
	r, err := s.http.Client().Do(bare)
	if err != nil {
		t.Fatal(err)
	}
	if _ = r.Body.Close(); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a secret without the word Bearer: %s", r.Status)
	}
	for _, secret := range secrets {
		if strings.Contains(s.logged.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
}

// roleOf sends a request that is wrong, so that it changes nothing if it is let through, and returns the status.
func (s *service) roleOf(p [2]string, r route) int {
	s.t.Helper()
	return s.send(p[0], p[1]+"?no-such-parameter=1", nil).status
}

// Without Tokens, everybody may read, and take and end leases; nothing else, unless that is asked for.
func TestWithoutTokens(t *testing.T) {
	closed, open := start(t, soloisttest.NewStore(), Config{}), start(t, soloisttest.NewStore(), Config{OpenActions: true})
	for i, r := range closed.server.routes {
		p := paths(closed.server)[i]
		want := 400
		if r.role > roleRead && !r.takes {
			want = 403
		}
		if got := closed.roleOf(p, r); got != want {
			t.Errorf("%v: %d, want %d", p, got, want)
		}
		if got := open.roleOf(p, r); got != 400 {
			t.Errorf("open: %v: %d", p, got)
		}
	}
}

// A token with a prefix is for the names that begin with it, in every route.
func TestPrefix(t *testing.T) {
	s, secrets := withTokens(t)
	s.token = secrets["admin"]
	other := s.lease("/v1/locks/other/acquire", nil)
	element := s.lease("/v1/elements/other/1/claim", nil)
	alike := s.lease("/v1/elements/other/team%2F1/claim", nil) // the prefix is for the names of jobs, and not for the elements
	s.lease("/v1/semaphores/other/acquire?limit=3", nil)
	within := s.lease("/v1/locks/my-team%2Fx/acquire", nil) // the prefix is there, and not at the beginning
	s.token = secrets["admin"+"team/"]
	for _, r := range [][2]string{
		{"POST", "/v1/locks/other/acquire"}, {"POST", "/v1/locks/other/hold"}, {"POST", "/v1/leaders/other/acquire"}, {"POST", "/v1/semaphores/other/acquire?limit=3"},
		{"POST", "/v1/leases/" + other.Lease + "/renew"}, {"POST", "/v1/leases/" + other.Lease + "/release"}, {"GET", "/v1/leases/" + other.Lease},
		{"POST", "/v1/elements/other/2/claim"}, {"GET", "/v1/elements/other"}, {"POST", "/v1/leases/" + element.Lease + "/renew"}, {"POST", "/v1/leases/" + alike.Lease + "/release"},
		{"GET", "/v1/jobs/other"}, {"POST", "/v1/locks/my-team%2Fy/acquire"}, {"POST", "/v1/leases/" + within.Lease + "/release"}, {"GET", "/v1/jobs/my-team%2Fx"},
		{"POST", "/v1/jobs/other/trigger"}, {"POST", "/v1/jobs/other/forget"}, {"DELETE", "/v1/locks/other?token=" + strconv.FormatInt(other.Token, 10)},
		{"DELETE", "/v1/elements/other/1?token=1"}, {"DELETE", "/v1/elements/other/team%2F1?token=" + strconv.FormatInt(alike.Token, 10)}, {"DELETE", "/v1/semaphores/other/0?token=1"}, {"DELETE", "/v1/jobs/other/run?token=1"},
	} {
		s.want(403, codeForbidden, r[0], r[1], nil)
	}
	s.want(403, codeForbidden, "POST", "/v1/elements/other/1/done", EndRequest{Lease: element.Lease})
	s.want(403, codeForbidden, "POST", "/v1/elements/other/team%2F1/done", EndRequest{Lease: alike.Lease})
	s.want(403, codeForbidden, "POST", "/v1/elements/other/claim", BatchRequest{IDs: []string{"2"}})
	forged, err := parseTicket(other.Lease)
	if err != nil {
		t.Fatal(err)
	}
	forged.Job = "team/"
	s.want(403, codeForbidden, "POST", "/v1/leases/"+forged.String()+"/release", nil)
	own := s.lease("/v1/locks/team%2Fx/acquire", nil)
	s.want(204, "", "POST", "/v1/leases/"+own.Lease+"/release", nil)
	s.lease("/v1/locks/team%2Fy/acquire", nil)
	if page := as[Page[Lease]](t, s.want(200, "", "GET", "/v1/locks", nil)); len(page.Items) != 1 || page.Items[0].Name != "team/y" || page.Items[0].Replica != "adminteam" {
		t.Errorf("%+v", page)
	}
	for _, path := range []string{"/v1/elements", "/v1/semaphores"} {
		if page := as[Page[any]](t, s.want(200, "", "GET", path, nil)); len(page.Items) != 0 {
			t.Errorf("%s: %+v", path, page)
		}
	}
	mine := s.lease("/v1/elements/team%2Fx/1/claim", nil)
	if page := as[Page[Element]](t, s.want(200, "", "GET", "/v1/elements/team%2Fx", nil)); len(page.Items) != 1 || page.Items[0].ID != "1" || page.Items[0].Replica != "adminteam" {
		t.Errorf("the elements of a job of the prefix: %+v", page)
	}
	s.want(204, "", "POST", "/v1/elements/team%2Fx/1/done", EndRequest{Lease: mine.Lease})
	if page := string(s.page("GET", "/elements", nil, "Authorization", "Bearer "+s.token).body); strings.Contains(page, "other") || !strings.Contains(page, "team/x") {
		t.Errorf("the jobs with elements are not those of the prefix:\n%s", page)
	}
}

// One caller's Idempotency-Key gets another caller nothing.
func TestKeysAreOfTheirCallers(t *testing.T) {
	s, secrets := withTokens(t)
	s.token = secrets["operate"]
	first := s.lease("/v1/locks/x/acquire", AcquireRequest{Replica: "same"}, keyHeader, aKey)
	s.token = secrets["admin"]
	s.want(409, codeHeld, "POST", "/v1/locks/x/acquire", AcquireRequest{Replica: "same"}, keyHeader, aKey)
	s.want(204, "", "DELETE", "/v1/locks/x?token="+strconv.FormatInt(first.Token, 10)+"&reason=stuck", nil)
	actions := as[Page[Action]](t, s.want(200, "", "GET", "/v1/actions", nil))
	if len(actions.Items) != 1 || actions.Items[0].By != "admin" || actions.Items[0].Token != first.Token || actions.Items[0].Reason != "stuck" {
		t.Errorf("%+v", actions)
	}
}

// What lists show of a lease is not enough to renew or release it.
func TestHolderIsNoSecret(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	l := s.lease("/v1/locks/x/acquire", AcquireRequest{Replica: "me"})
	own, err := parseTicket(l.Lease)
	if err != nil {
		t.Fatal(err)
	}
	shown := own.detached().Holder
	if page := as[Page[Lease]](t, s.want(200, "", "GET", "/v1/locks", nil)); len(page.Items) != 1 || page.Items[0].Replica != "me" || page.Items[0].Token != l.Token {
		t.Errorf("listed: %+v", page)
	}
	_, text, _ := strings.Cut(shown, "#")
	guess, err := holderText.DecodeString(text)
	if err != nil || len(guess) != secretSize {
		t.Fatalf("the holder is %q: %v", shown, err)
	}
	forged := own
	for what, secret := range map[string][]byte{"the holder that is shown": guess, "another secret": make([]byte, secretSize)} {
		forged.Secret = string(secret)
		if forged.detached().Holder == shown {
			t.Errorf("%s is the secret of the lease", what)
		}
		for _, path := range []string{"/renew", "/release"} {
			s.want(410, codeLost, "POST", "/v1/leases/"+forged.String()+path, nil)
		}
	}
	s.want(204, "", "POST", "/v1/leases/"+l.Lease+"/release", nil)
}

func TestReadTokens(t *testing.T) {
	_, line, err := NewToken("ci", "operate", "")
	if err != nil {
		t.Fatal(err)
	}
	_, namesake, err := NewToken("ci", "read", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		line + "\n" + namesake, line + "\n" + strings.Replace(line, "ci", "cd", 1), // whose action it was could not be told
		line + "zz", line + "0", "", "# nobody", strings.Replace(line, "ci", strings.Repeat("c", 61), 1), strings.Replace(line, "ci", "c\x01i", 1), "ci", "ci operate", "ci root " + strings.Fields(line)[2], "ci operate secret-canary", "ci operate sha256:secret-canary", strings.Replace(line, "sha256:", "", 1), // the secret itself, or its hash without saying so
		line + " a b", line + "\n" + line + "\n",
	} {
		_, err := ReadTokens(strings.NewReader(text + "\n"))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadTokens(io.MultiReader(strings.NewReader(line+"\n"), iotest.ErrReader(io.ErrUnexpectedEOF))); err == nil {
		t.Error("a part of a file that cannot be read whole")
	}
	if _, _, err := NewToken("a b", "operate", ""); err == nil {
		t.Error("a name with a space")
	}
	for _, words := range [][2]string{{"ci", "ci "}, {"ci", " ci"}, {"ci", " "}, {"ci", "ci\u00a0"}, {"ci", "c i"}, {"#ops", ""}, {" ci", ""}, {"ci ", ""}, {"", "ci/"}} {
		if _, line, err := NewToken(words[0], "operate", words[1]); err == nil {
			t.Errorf("name %q, prefix %q: %q, which is another token", words[0], words[1], line)
		}
	}
	whole := line + " team-a/\n"
	for cut := range len(whole) { // while the file is being written
		if _, err := ReadTokens(strings.NewReader(whole[:cut])); err == nil {
			t.Errorf("a file that is cut off is read: %q", whole[:cut])
		}
	}
}

// A token that is gone is refused at once, and loses what it holds by a connection, and its events, soon.
func TestTokensAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, secrets := newTokens(t)
		newer, newSecrets := newTokens(t)
		s, p := startInBubble(t, Config{Tokens: old})
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }}
		defer transport.CloseIdleConnections()
		do := func(method, path, secret string) (status int, body io.ReadCloser) {
			t.Helper()
			s.token = secret
			response, err := (&http.Client{Transport: transport}).Do(s.request(method, path, nil))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { response.Body.Close() })
			return response.StatusCode, response.Body
		}
		_, held := do("POST", "/v1/locks/x/hold", secrets["operate"])
		_, events := do("GET", "/v1/events", secrets["read"])
		next, feed := lines(t, held), readFeed(t, events)
		if event, first := next(), feed.next(); event.Event != "held" || first.Event != "store" {
			t.Fatalf("%+v, %+v", event, first)
		}
		old.Replace(newer)
		if status, _ := do("GET", "/v1/locks", secrets["admin"]); status != http.StatusUnauthorized {
			t.Errorf("an old token: %d", status)
		}
		if event := next(); event.Event != "closing" {
			t.Errorf("%+v", event)
		}
		if status, _ := do("POST", "/v1/locks/x/acquire", newSecrets["operate"]); status != http.StatusConflict {
			t.Errorf("a new token, for what the old one was told to hold: %d", status)
		}
		_ = held.Close()
		synctest.Wait()
		if status, _ := do("POST", "/v1/locks/x/acquire", newSecrets["operate"]); status != http.StatusOK {
			t.Errorf("a new token, for what the old one held: %d", status)
		}
		if end := feed.next(); end.Event != "end" {
			t.Errorf("%+v", end)
		}
	})
}

// A token that has other rights in the new file loses what it holds by a connection, and its events, as one that is gone.
func TestRightsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, secrets := newTokens(t)
		s, p := startInBubble(t, Config{Tokens: tokens})
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }}
		defer transport.CloseIdleConnections()
		open := func(method, path, secret string) io.Reader {
			t.Helper()
			s.token = secret
			response, err := (&http.Client{Transport: transport}).Do(s.request(method, path, nil))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { response.Body.Close() })
			return response.Body
		}
		next := lines(t, open("POST", "/v1/locks/x/hold", secrets["operate"]))
		feed := readFeed(t, open("GET", "/v1/events", secrets["read"]))
		if event, first := next(), feed.next(); event.Event != "held" || first.Event != "store" {
			t.Fatalf("%+v, %+v", event, first)
		}
		entries := slices.Clone(*tokens.all.Load())
		for i := range entries {
			entries[i].prefix = "team/"
		}
		tokens.all.Store(&entries)
		if event, end := next(), feed.next(); event.Event != "closing" || end.Event != "end" {
			t.Errorf("%+v, %+v", event, end)
		}
	})
}

// Events are not sent to a caller whose token has gone while they waited for the store.
func TestEventsOfATokenThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, secrets := newTokens(t)
		newer, _ := newTokens(t)
		s, _ := startInBubble(t, Config{Tokens: old})
		s.store.Stall()
		time.AfterFunc(time.Second, func() {
			old.Replace(newer)
			s.store.Heal()
		})
		s.token = secrets["read"]
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, s.request("GET", "/v1/events", nil))
		if got := w.Body.String(); !strings.HasPrefix(got, "event: end") {
			t.Errorf("%q", got)
		}
	})
}

// A batch whose token goes while the store is asked claims nothing.
func TestABatchWithATokenThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, secrets := newTokens(t)
		newer, newSecrets := newTokens(t)
		s, _ := startInBubble(t, Config{Tokens: old})
		claim := func(secret string) (codes []string) {
			s.token = secret
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, s.request("POST", "/v1/elements/job/claim", BatchRequest{IDs: []string{"a", "b"}}))
			for _, one := range as[BatchResponse](t, answer{w.Code, w.Header(), w.Body.Bytes()}).Elements {
				if one.Claim != nil {
					codes = append(codes, "claimed")
				} else {
					codes = append(codes, one.Problem.Code)
				}
			}
			return codes
		}
		s.store.Slow(time.Second)
		time.AfterFunc(time.Second/2, func() { old.Replace(newer) })
		if got := claim(secrets["operate"]); !slices.Equal(got, []string{codeUnauthenticated, codeUnauthenticated}) {
			t.Errorf("with a token that is gone: %v", got)
		}
		if got := claim(newSecrets["operate"]); !slices.Equal(got, []string{"claimed", "claimed"}) {
			t.Errorf("the next one: %v", got)
		}
	})
}

// A request that waits for a lease does not get it with a token that went meanwhile, and the next one does. The new file has the name of the
// token for another secret.
func TestWaitingWithATokenThatIsGone(t *testing.T) {
	for path, body := range map[string]any{
		"/v1/locks/x/acquire": AcquireRequest{Wait: 600, AtLeast: 60}, "/v1/locks/x/hold": AcquireRequest{Wait: 600, AtLeast: 60},
		"/v1/elements/job/x/claim": ElementRequest{Wait: 600},
	} {
		t.Run(path, func(t *testing.T) {
			taken := strings.Replace(path, "/hold", "/acquire", 1)
			synctest.Test(t, func(t *testing.T) {
				old, secrets := newTokens(t)
				newer, newSecrets := newTokens(t)
				s, p := startInBubble(t, Config{Tokens: old})
				transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }}
				defer transport.CloseIdleConnections()
				do := func(path, secret string, body any) (int, []byte) {
					s.token = secret
					response, err := (&http.Client{Transport: transport}).Do(s.request("POST", path, body))
					if err != nil {
						t.Error(err)
						return 0, nil
					}
					defer response.Body.Close()
					text, err := io.ReadAll(response.Body)
					if err != nil {
						t.Error(err)
					}
					return response.StatusCode, text
				}
				status, text := do(taken, secrets["operate"], nil)
				var first LeaseResponse
				if err := json.Unmarshal(text, &first); status != http.StatusOK || err != nil {
					t.Fatalf("%d: %s: %v", status, text, err)
				}
				waited := make(chan int)
				go func() {
					status, _ := do(path, secrets["operate"], body)
					waited <- status
				}()
				synctest.Wait()
				old.Replace(newer)
				if status, text := do("/v1/leases/"+first.Lease+"/release", newSecrets["operate"], nil); status != http.StatusNoContent {
					t.Errorf("releasing: %d: %s", status, text)
				}
				if status := <-waited; status != http.StatusUnauthorized {
					t.Errorf("waiting with a token that is gone: %d", status)
				}
				if status, text := do(taken, newSecrets["operate"], nil); status != http.StatusOK {
					t.Errorf("the next one: %d: %s", status, text)
				}
			})
		})
	}
}
