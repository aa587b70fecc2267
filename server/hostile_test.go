package server

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A page shows names that differ differently, and nothing in a name changes how the rest of the page is read; forms send names as they are.
func TestInvisibleCharactersAreShownOnPages(t *testing.T) {
	const name, shown = "a\u202egnp\">.exe\u200b<b>", `a\u202egnp&#34;&gt;.exe\u200b&lt;b&gt;`
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	ctx, stop := context.WithCancel(t.Context())
	job := soloist.Job{Name: name, Description: name, Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return errors.New(name) }}
	ran := make(chan error, 1)
	go func() { ran <- s.client.Run(ctx, job) }()
	defer func() { stop(); <-ran }()
	path := url.PathEscape(name)
	for _, request := range []string{"/v1/locks/" + path + "/acquire", "/v1/leaders/" + path + "/acquire", "/v1/semaphores/" + path + "/acquire?limit=2", "/v1/elements/" + path + "/" + path + "/claim"} {
		s.lease(request, AcquireRequest{TTL: 3600, Replica: name})
	}
	s.until("the job is known", func() bool {
		return s.send("POST", "/v1/jobs/"+path+"/pause", ReasonRequest{Reason: name}).status == http.StatusNoContent
	})
	query := "?job=" + url.QueryEscape(name) + "&name=" + url.QueryEscape(name) + "&q=" + url.QueryEscape(name)
	s.server.watch.since(t.Context(), time.Now())
	for _, p := range s.server.menu {
		a := s.page("GET", p.path, nil)
		if p.direct {
			a = s.page("GET", p.path+query, nil)
		}
		text := string(a.body)
		if bad := invisibleText(text); bad != "" {
			t.Errorf("%s shows %q", p.path, bad)
		}
		if p.path != "/" && p.path != "/store" && p.path != "/replicas" && !strings.Contains(text, shown) {
			t.Errorf("%s: %d, without %s:\n%s", p.path, a.status, shown, text)
		}
	}
	if text := string(s.page("GET", "/locks", nil).body); !strings.Contains(text, `name="name" value="`+html.EscapeString(name)+`"`) {
		t.Errorf("the form does not send the name as it is:\n%s", text)
	}
}

// invisibleText returns a text of a page, outside of tags, that has a character which is not seen; "" if there is none.
func invisibleText(page string) string {
	for part := range strings.SplitSeq(page, "<") {
		if _, text, _ := strings.Cut(part, ">"); strings.ContainsAny(text, "\u202e\u200b") {
			return text
		}
	}
	return ""
}

// until waits for a condition.
func (s *service) until(what string, is func() bool) {
	s.t.Helper()
	for !is() {
		select {
		case <-s.t.Context().Done():
			s.t.Fatal(what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// No route and no page reads more of a body than its limit, with or without a token.
func TestBodiesAreBounded(t *testing.T) {
	const head, size = "--x\r\nContent-Disposition: form-data; name=to; filename=f\r\n\r\n", 1 << 20
	tokens, _ := newTokens(t)
	for name, cfg := range map[string]Config{"open": {OpenActions: true}, "tokens": {Tokens: tokens}} {
		s := start(t, soloisttest.NewStore(), cfg)
		all := append(paths(s.server), [2]string{"GET", "/login"}, [2]string{"POST", "/login"}, [2]string{"POST", "/logout"}, [2]string{"POST", "/act"})
		for _, p := range s.server.menu {
			all = append(all, [2]string{"GET", p.path})
		}
		for _, p := range all {
			if p[1] == "/v1/events" {
				continue // it goes on
			}
			for _, kind := range []string{"multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/json"} {
				left := &io.LimitedReader{R: zeros{}, N: size}
				r := httptest.NewRequest(p[0], "http://localhost"+p[1], io.MultiReader(strings.NewReader(head), left))
				r.Header.Set("Content-Type", kind)
				s.server.ServeHTTP(httptest.NewRecorder(), r)
				if read := size - left.N; read > maxBody+4096 {
					t.Errorf("%s: %s %s has read %d bytes of %s", name, p[0], p[1], read, kind)
				}
			}
		}
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// No input of a route is an address: the operator alone decides what the service connects to.
func TestNoInputIsAnAddress(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	for _, r := range s.server.routes {
		var names []string
		for _, p := range slices.Concat(r.query, r.header) {
			names = append(names, p.name)
		}
		for part := range strings.SplitSeq(r.path, "/") {
			names = append(names, strings.Trim(part, "{}"))
		}
		names = append(names, fieldNames(r.in)...)
		for _, name := range names {
			for _, word := range []string{"url", "uri", "host", "addr", "endpoint", "callback", "webhook", "store", "redirect"} {
				if strings.Contains(strings.ToLower(name), word) {
					t.Errorf("%s %s reads %q", r.method, r.path, name)
				}
			}
		}
	}
}

// fieldNames returns the names of the fields of a body.
func fieldNames(body reflect.Type) (names []string) {
	if body == nil {
		return nil
	}
	for _, f := range reflect.VisibleFields(body) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// Each change by an operator, also one that failed, is one line of the log with who, what, which token and why: the list of actions forgets the
// oldest, which a caller can bring about.
func TestActionsAreInTheLog(t *testing.T) {
	s, secrets := withTokens(t)
	s.token = secrets["operate"]
	const forged = "a\nlevel=ERROR by=root"
	reason := url.QueryEscape(forged)
	element := s.lease("/v1/elements/j/4711/claim", nil)
	s.want(204, "", "DELETE", "/v1/elements/j/4711?token="+strconv.FormatInt(element.Token, 10)+"&reason="+reason, nil)
	s.want(409, codeStale, "DELETE", "/v1/semaphores/pdf/2?token=7&reason="+reason, nil)
	s.want(404, codeNotFound, "POST", "/v1/jobs/none/pause", ReasonRequest{Reason: forged})
	form := url.Values{"verb": {"release"}, "kind": {"lock"}, "name": {"x"}, "token": {"8"}, "reason": {forged}}
	if a := s.page("POST", "/act", form, "Cookie", cookieName+"="+secrets["operate"]); a.status != http.StatusConflict {
		t.Errorf("%d %s", a.status, a.body)
	}
	log := s.logged.String()
	for _, want := range []string{
		fmt.Sprintf("verb=release kind=element name=4711 job=j permit=0 token=%d ", element.Token), "verb=release kind=permit name=pdf job=\"\" permit=2 token=7 ",
		"verb=pause kind=job name=none ", "verb=release kind=lock name=x job=\"\" permit=0 token=8 ",
	} {
		_, line, found := strings.Cut(log, want)
		line, _, _ = strings.Cut(line, "\n")
		if !found || !strings.Contains(line, `reason="a\nlevel=ERROR by=root" by=operate from=127.0.0.1 err=`) {
			t.Errorf("no whole line with %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "\nlevel=ERROR") {
		t.Errorf("a reason has made a line:\n%s", log)
	}
}
