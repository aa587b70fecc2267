package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/server"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/test/servers"
)

// patience is how long a test waits for what must come: a machine can be busy.
const patience = servers.Patience

// A site is a running service with jobs, locks and all else that the pages show.
type site struct {
	t       *testing.T
	store   *soloisttest.Store
	client  *soloist.Client
	url     string
	secrets map[string]string // by role; nil without tokens
}

// hostile is the name of a job that a page must show as text.
const hostile = `<script>document.title="pwned"</script>`

var roles = []string{"read", "operate", "admin"}

// open starts a service. With tokens there is one of each role.
func open(t *testing.T, withTokens bool) *site {
	t.Helper()
	s := &site{t: t, store: soloisttest.NewStore()}
	log := slog.New(slog.DiscardHandler)
	s.client = soloisttest.NewReplica(t, s.store, soloist.Config{Replica: "service", Logger: log, RequestTimeout: patience})
	cfg := server.Config{OpenActions: !withTokens, Logger: log}
	if withTokens {
		s.secrets = map[string]string{}
		var lines strings.Builder
		for _, role := range roles {
			secret, line, err := server.NewToken(role+"er", role, "")
			if err != nil {
				t.Fatal(err)
			}
			s.secrets[role] = secret
			fmt.Fprintln(&lines, line)
		}
		var err error
		if cfg.Tokens, err = server.ReadTokens(strings.NewReader(lines.String())); err != nil {
			t.Fatal(err)
		}
	}
	api, err := server.New(s.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	run := httptest.NewServer(api)
	t.Cleanup(func() {
		api.Drain()
		run.CloseClientConnections()
		run.Close()
	})
	s.url = run.URL
	return s
}

// fill puts one of everything into the store.
func (s *site) fill() {
	s.t.Helper()
	nothing := func(context.Context, soloist.Run) error { return nil }
	long := func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }
	s.replica("worker-1",
		soloist.Job{Name: "close-month", Description: "Closes the books", Schedule: cron.MustParse("0 3 1 * *"), Do: nothing},
		soloist.Job{Name: "import", Schedule: soloist.Every(24 * time.Hour), Do: long},
		soloist.Job{Name: hostile, Description: hostile, Schedule: soloist.Every(24 * time.Hour), Do: func(context.Context, soloist.Run) error {
			return fmt.Errorf("failed at %s", hostile)
		}})
	admin := s.client.Admin()
	for _, job := range []string{"import", hostile} {
		s.until("a replica has "+job, func() bool { return admin.Trigger(s.t.Context(), job) == nil })
	}
	s.until("a run has failed", func() bool {
		job, err := admin.Job(s.t.Context(), hostile)
		return err == nil && len(job.Runs) > 0
	})
	s.hold()
}

// replica runs jobs.
func (s *site) replica(name string, jobs ...soloist.Job) {
	replica := soloisttest.NewReplica(s.t, s.store.Share(), soloist.Config{Replica: name, Version: "1.4.2", RequestTimeout: patience})
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = replica.Run(ctx, jobs...)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// hold holds one of everything.
func (s *site) hold() {
	s.t.Helper()
	holder := s.client.With(soloist.Options{TTL: time.Hour})
	for i := range 150 {
		s.must(holder.TryLock(s.t.Context(), fmt.Sprintf("lock-%03d", i)))
	}
	s.must(holder.TryLock(s.t.Context(), hostile))
	s.must(holder.Semaphore("pdf", 3).TryAcquire(s.t.Context()))
	s.must(holder.Elements("invoices", soloist.ElementsOptions{}).Claim(s.t.Context(), "4711"))
	_ = s.client.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 1}}).Process(s.t.Context(), "4712",
		func(context.Context, *soloist.Element) error { return fmt.Errorf("no paper") })
	detached := soloist.Detached{Kind: soloist.KindLeader, Name: "importer", Holder: "worker-1#x"}
	if _, _, err := holder.Detached().Acquire(s.t.Context(), detached, false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) must(_ any, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// until waits for a condition.
func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// A tab is a page of a browser.
type tab struct {
	*site
	ctx    context.Context
	faults *faults
}

// browse starts a browser with one tab, and with flags besides those that all tests need.
func (s *site) browse(flags ...chromedp.ExecAllocatorOption) *tab {
	s.t.Helper()
	chromium := servers.Program(s.t, "Chromium", "chromium")
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience),
		chromedp.UserDataDir(servers.Directory(s.t)), chromedp.WindowSize(1200, 900), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", false),
		chromedp.Env("HOME="+os.TempDir()))
	alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), append(opts, flags...)...)
	ctx, end := chromedp.NewContext(alloc, chromedp.WithBrowserOption(chromedp.WithDialTimeout(patience)))
	s.t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		end()
		endAlloc()
	})
	b := &tab{s, ctx, &faults{}}
	chromedp.ListenTarget(ctx, b.faults.note)
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context of the first call
		s.t.Fatal(err)
	}
	b.run(network.Enable(), runtime.Enable())
	return b
}

// another opens one more tab of the same browser.
func (b *tab) another() *tab {
	b.t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	b.t.Cleanup(end)
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as the context of the first call
		b.t.Fatal(err)
	}
	return &tab{b.site, ctx, b.faults}
}

// toFront shows the tab, and hides the others.
func (b *tab) toFront() {
	b.t.Helper()
	b.run(chromedp.ActionFunc(func(ctx context.Context) error { return page.BringToFront().Do(ctx) }))
	b.untilTrue("it is seen", `!document.hidden`)
}

// try runs actions of the browser, and gives up when patience is over.
func (b *tab) try(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// run runs actions of the browser, which must succeed.
func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := b.try(actions...); err != nil {
		b.t.Fatal(err)
	}
}

// visit loads a page.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.url + path))
	b.untilTrue("the store has been read", `!document.querySelector('meta[http-equiv=refresh]')`)
}

// untilTrue waits for an expression of JavaScript.
func (b *tab) untilTrue(what, expression string) {
	b.t.Helper()
	b.until(what, func() bool {
		is := false
		err := b.try(chromedp.Evaluate(`!!(`+expression+`)`, &is))
		return err == nil && is // a page that is being loaded has nothing to say
	})
}

// eval returns the value of an expression of JavaScript.
func eval[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &v))
	return v
}

func (b *tab) text() string { return eval[string](b, `document.body.innerText`) }

// size sets the size of the screen in CSS pixels.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.run(emulation.SetDeviceMetricsOverride(width, height, 1, width < 500))
}

// scheme makes the screen light or dark.
func (b *tab) scheme(is string) {
	b.t.Helper()
	b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: is}}))
}
