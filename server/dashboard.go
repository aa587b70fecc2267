package server

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

//go:embed assets pages
var files embed.FS

// dashboardPolicy lets a page load nothing but what this server has, and lets no page frame it.
const dashboardPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// paintWithin is how long a page waits for the store. After that it shows what was read before, or that the store is being read.
const paintWithin = 100 * time.Millisecond

// A page is one of the dashboard.
type page struct {
	path, title string
	menu        bool
	direct      bool // it reads the store itself, and shows nothing of a snapshot
	waits       bool // it shows a snapshot alone
	data        func(*visit) (any, error)
	template    *template.Template
}

// A visit is a request for a page.
type visit struct {
	*call
	*snapshot // what the watcher has read so far; nil for pages that are direct
	now       time.Time

	at      time.Time // when what the page shows was read; zero if it was read in parts
	took    time.Duration
	reading bool // it was not read in time
	unread  bool // it could not be read
}

// A View is what the templates show around a page.
type View struct {
	Title, Path, Caller string
	Menu                []*page
	Operate, Admin      bool // whether the caller may act
	Login               bool // whether there are tokens
	At                  time.Time
	Took                time.Duration
	Reading             bool // the store has not been read yet
	Again               bool // there is more to show in a moment
	Unread              bool // not all of it could be read
	Self                string
	Data                any
}

// Path returns where a page is, for the menu.
func (p *page) Path() string { return p.path }

// Title returns what the menu calls a page.
func (p *page) Title() string { return p.title }

// InMenu reports whether the menu has a page.
func (p *page) InMenu() bool { return p.menu }

var functions = template.FuncMap{
	"mark": markOf, "plural": plural, "span": span, "instant": instant, "clock": func(t time.Time) string { return t.UTC().Format("15:04:05") }, "link": link,
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
}

// link returns a path of the dashboard with a query.
func link(path string, query ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

func (s *Server) pages() ([]*page, error) {
	all := []*page{
		{path: "/", title: "Overview", menu: true, data: (*visit).overview, waits: true},
		{path: "/timeline", title: "Timeline", menu: true, data: (*visit).timeline},
		{path: "/jobs", title: "Jobs", menu: true, data: (*visit).jobList},
		{path: "/job", title: "Job", data: (*visit).jobPage, direct: true},
		{path: "/locks", title: "Locks", menu: true, data: func(v *visit) (any, error) { return v.leaseList(soloist.KindLock) }},
		{path: "/semaphores", title: "Semaphores", menu: true, data: (*visit).semaphoreList},
		{path: "/elements", title: "Elements", menu: true, data: (*visit).elementList, direct: true},
		{path: "/leaders", title: "Leaders", menu: true, data: func(v *visit) (any, error) { return v.leaseList(soloist.KindLeader) }},
		{path: "/replicas", title: "Replicas", menu: true, data: (*visit).replicaList, waits: true},
		{path: "/store", title: "Store", menu: true, data: (*visit).storePage, direct: true},
		{path: "/audit", title: "Audit", menu: true, data: (*visit).audit, waits: true},
	}
	for _, p := range append(all, &loginPage, &problemPage) {
		name := "pages" + p.path + ".html"
		switch p.path {
		case "/":
			name = "pages/overview.html"
		case "/leaders":
			name = "pages/locks.html"
		}
		var err error
		if p.template, err = template.New("layout.html").Funcs(functions).ParseFS(files, "pages/layout.html", "pages/parts.html", name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var (
	loginPage   = page{path: "/login", title: "Log in"}
	problemPage = page{path: "/problem", title: "Problem"}
)

// dashboardRoutes adds the pages to the mux.
func (s *Server) dashboardRoutes() (err error) {
	if s.menu, err = s.pages(); err != nil {
		return err
	}
	for _, p := range s.menu {
		pattern := "GET " + p.path
		if p.path == "/" {
			pattern += "{$}"
		}
		s.handle(pattern, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, p) })
	}
	s.handle("GET /login", s.askForToken)
	s.handle("POST /login", s.login)
	s.handle("POST /logout", s.logout)
	s.handle("POST /act", s.act)
	assets, err := fs.ReadDir(files, "assets")
	for _, a := range assets {
		s.handle("GET /assets/"+a.Name(), func(w http.ResponseWriter, _ *http.Request) {
			body, _ := files.ReadFile("assets/" + a.Name()) // it is embedded
			w.Header().Set("Cache-Control", "no-cache")
			writeBytes(w, http.StatusOK, mediaTypes[path.Ext(a.Name())], body)
		})
	}
	return err
}

var mediaTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// show writes a page.
func (s *Server) show(w http.ResponseWriter, r *http.Request, p *page) {
	c, ok := s.visitor(w, r)
	if !ok {
		return
	}
	v := &visit{call: c, now: time.Now()}
	view := View{}
	switch {
	case p.waits:
		ctx, cancel := context.WithTimeout(r.Context(), paintWithin)
		v.snapshot, _ = s.watch.since(ctx, time.Time{})
		cancel()
		v.at, v.took = v.snapshot.at(), v.snapshot.took()
	case !p.direct:
		v.snapshot = s.watch.now()
	}
	var err error
	if view.Data, err = p.data(v); err != nil {
		s.showProblem(w, c, err)
		return
	}
	view.At, view.Took, view.Reading = v.at, v.took, v.reading
	view.Again = v.reading || p.waits && v.at.IsZero()
	view.Unread = v.unread || v.snapshot != nil && v.snapshot.err() != nil
	s.render(w, c, http.StatusOK, p, view)
}

// visitor returns the call of a request for a page. Without a token that is needed it sends the caller to log in.
func (s *Server) visitor(w http.ResponseWriter, r *http.Request) (*call, bool) {
	c := &call{Context: r.Context(), Request: r, w: w, server: s}
	var err error
	if c.caller, err = s.authenticate(r); err == nil {
		return c, true
	}
	to := "/"
	if r.Method == http.MethodGet {
		to = r.URL.RequestURI()
	}
	seeOther(w, link("/login", "to", to))
	return nil, false
}

// seeOther sends a browser to a path of this server.
func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	writeNothing(w, http.StatusSeeOther)
}

// render writes a page around data. All of it is made before any is sent.
func (s *Server) render(w http.ResponseWriter, c *call, status int, p *page, view View) {
	view.Path, view.Title, view.Menu, view.Self = p.path, p.title, s.menu, c.URL.RequestURI()
	view.Caller, view.Login = c.caller.name, s.Tokens != nil
	view.Operate, view.Admin = c.caller.role >= roleOperate, c.caller.role >= roleAdmin
	var body bytes.Buffer
	if err := p.template.Execute(&body, view); err != nil {
		s.Logger.Error("a page could not be made", "page", p.path, "err", err)
		problem(http.StatusInternalServerError, codeUnavailable, "the page could not be made").write(w)
		return
	}
	w.Header().Set("Content-Security-Policy", dashboardPolicy)
	w.Header().Set("Referrer-Policy", "same-origin")
	writeBytes(w, status, "text/html; charset=utf-8", visible(body.Bytes()))
}

// showProblem writes why a page or an action failed.
func (s *Server) showProblem(w http.ResponseWriter, c *call, err error) {
	p := s.problemOf(c.Context, err)
	back := c.URL.RequestURI()
	if c.Method != http.MethodGet {
		back = localPath(c.PostFormValue("back"))
	}
	s.render(w, c, p.Status, &problemPage, View{Data: struct {
		*Problem
		Back string
	}{p, back}})
}

// localPath returns a path of this server that a form gave; / for anything else.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) {
		return "/"
	}
	return to
}

// span shows how long something lasts.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + span(-d)
	case d > store.MaxTTL+day:
		return "forever"
	case d >= 2*day:
		return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm %02ds", d/time.Minute, d%time.Minute/time.Second)
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// instant shows a time in UTC; "" for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}
