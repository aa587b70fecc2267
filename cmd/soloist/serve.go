package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/listen"
	"github.com/soloist-dev/soloist/server"
)

// A serveRun is one invocation of soloist serve.
type serveRun struct {
	*app
	logs
	probes      probes
	tokens      string // the path of the file of tokens
	cert, key   string // the paths of the files of TLS
	pair        atomic.Pointer[tls.Certificate]
	proxy       bool // something before it ends TLS
	openActions bool
	hosts       []string
	waiting     int
	drain       time.Duration
	notices     notices
}

// defaultAddress is where serve listens.
const defaultAddress = "127.0.0.1:8420"

func (a *app) serveCommand() *cobra.Command {
	r := &serveRun{app: a}
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Serve locks, semaphores, leaders, elements and jobs over HTTP",
		GroupID: "run",
		Long: `serve is an HTTP API for programs without a client library, and a dashboard for people at the same address.
docs/operate/service.md shows both, the API with curl; /openapi.json describes it. It keeps no state: run as many as
you like on one store.

On 127.0.0.1 and a unix socket, every program of this machine may read, and take leases and end its own; the actions of operators
need --tokens, or --open-actions. Another address needs --tokens, and TLS or a proxy that has it.

HUP reads the files of --tokens, --tls-cert and --tls-key again. TERM and INT end requests that wait or hold a lease, and then the process.`,
		Example: `  soloist serve
  soloist serve token ci operate --prefix ci/ >>tokens
  soloist serve --listen 0.0.0.0:8420 --tokens tokens --tls-cert cert.pem --tls-key key.pem`,
		Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return r.run() },
	}
	address, _ := listen.Parse(defaultAddress)
	r.probes.address.Address = &address
	flags := c.Flags()
	flags.Var(&r.probes.address, "listen", "a port of 127.0.0.1, IP:PORT, or unix:PATH")
	flags.StringVar(&r.tokens, "tokens", "", "the file of the tokens that callers need; serve token makes its lines")
	flags.StringVar(&r.cert, "tls-cert", "", "the file of the certificate, and those between it and its authority, in PEM")
	flags.StringVar(&r.key, "tls-key", "", "the file of the private key of --tls-cert, in PEM")
	flags.BoolVar(&r.proxy, "behind-proxy", false, "a proxy before it has TLS: serve also other addresses than loopback ones without TLS, and let browsers send cookies by HTTPS alone")
	flags.StringArrayVar(&r.hosts, "host", nil, "a name by which callers reach it, besides localhost; can be given several times (default with --tokens: any)")
	flags.BoolVar(&r.openActions, "open-actions", false, "let callers without a token release by force, trigger, pause and forget")
	flags.IntVar(&r.waiting, "max-waiting", 1000,
		"how many requests can wait for leases, or hold them, at the same time, and how many can receive events; of several tokens none gets more than it leaves free")
	flags.DurationVar(&r.drain, "drain", 10*time.Second, "how long requests may go on after TERM or INT")
	r.notices.flag(c)
	r.logFlags(c, "info")
	c.AddCommand(a.tokenCommand())
	return c
}

// tokenCommand makes a token.
func (a *app) tokenCommand() *cobra.Command {
	prefix := ""
	c := &cobra.Command{
		Use:   "token NAME ROLE",
		Short: "Make a token for callers of serve",
		Long: `token writes a line for the file of --tokens to standard output, and the token itself, which is shown only once, to standard
error. The line has no secret. The role is read (lists), operate (and takes leases; triggers, pauses and releases by force) or admin (and
forgets jobs).`,
		Args: a.noChild(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			secret, line, err := server.NewToken(args[0], args[1], prefix)
			if err != nil {
				return usage("%v", err)
			}
			a.say("the token of %s: %s", args[0], secret)
			return a.print(line + "\n")
		},
	}
	c.Flags().StringVar(&prefix, "prefix", "", "the names that the token is for begin with this")
	return c
}

// config returns the configuration of the API, and that of TLS; nil without it.
func (r *serveRun) config(log *slog.Logger) (server.Config, *tls.Config, error) {
	cfg := server.Config{OpenActions: r.openActions, Hosts: r.hosts, BehindProxy: r.proxy, MaxWaiting: r.waiting, Logger: log}
	fail := func(format string, args ...any) (server.Config, *tls.Config, error) {
		return cfg, nil, badConfig(fmt.Errorf(format, args...))
	}
	local := r.probes.address.Local()
	switch {
	case r.waiting < 1:
		return cfg, nil, usage("--max-waiting %d: give at least 1", r.waiting)
	case r.drain < 0:
		return cfg, nil, usage("--drain %v: must be at least 0", r.drain)
	case (r.cert == "") != (r.key == ""):
		return fail("--tls-cert and --tls-key belong together: give both")
	case r.openActions && r.tokens != "":
		return fail("--open-actions is for callers without a token, and --tokens refuses those: give one of them")
	case r.tokens == "" && slices.Contains(r.hosts, "*"):
		return fail("--host * lets web pages call an API that needs no token: give --tokens, or the names by which callers reach it")
	case slices.ContainsFunc(r.hosts, func(host string) bool { return host == "" || listen.HostOf(host) != host }):
		return fail("--host %q: give a name or an IP address alone, without a port and without brackets", r.hosts)
	case !local && r.tokens == "":
		return fail("--listen %s is reached from other machines: give --tokens, or listen on 127.0.0.1 or a unix socket", &r.probes.address)
	case !local && r.cert == "" && !r.proxy:
		return fail("--listen %s is reached from other machines, and tokens would be sent in clear text: give --tls-cert and --tls-key, or --behind-proxy if a proxy before it has TLS", &r.probes.address)
	}
	if r.tokens != "" {
		tokens, err := r.readTokens()
		if err != nil {
			return cfg, nil, err
		}
		if cfg.Tokens = tokens; len(r.hosts) == 0 {
			cfg.Hosts = []string{"*"}
		}
	}
	if r.cert == "" {
		return cfg, nil, nil
	}
	if err := r.readCertificate(); err != nil {
		return cfg, nil, err
	}
	newest := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.pair.Load(), nil }
	return cfg, &tls.Config{GetCertificate: newest, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// readAgain reads the files of tokens and of TLS again. What cannot be read stays as it was.
func (r *serveRun) readAgain(tokens *server.Tokens, log *slog.Logger) {
	note := func(file string, err error) {
		if err != nil {
			log.Error("a file cannot be read again; what was read before stays in use", "file", file, "err", err)
		} else {
			log.Info("read again", "file", file)
		}
	}
	if r.tokens != "" {
		newer, err := r.readTokens()
		if err == nil {
			tokens.Replace(newer)
		}
		note(r.tokens, err)
	}
	if r.cert != "" {
		note(r.cert, r.readCertificate())
	}
}

func (r *serveRun) readTokens() (*server.Tokens, error) {
	f, err := os.Open(r.tokens)
	if err != nil {
		return nil, badConfig(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, badConfig(err)
	}
	if why := untrusted(info); why != "" {
		return nil, badConfig(fmt.Errorf("%s: %s, and could let others in: chown and chmod it", r.tokens, why))
	}
	tokens, err := server.ReadTokens(f)
	if err != nil {
		return nil, badConfig(fmt.Errorf("%s: %w", r.tokens, err))
	}
	return tokens, nil
}

// run serves until a signal ends it.
func (r *serveRun) run() error {
	log, err := r.logger(r.stderr(), "name")
	if err != nil {
		return err
	}
	cfg, secure, err := r.config(log)
	if err != nil {
		return err
	}
	if err := r.notices.read(); err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if r.notices.runsCommands() {
		r.adopt()
	}
	pages := r.probes.pages(log)
	client, closing, err := r.client(soloist.Config{Logger: log, Observe: r.probes.metrics.Observe})
	if err != nil {
		return err
	}
	defer func() { _ = closing() }()
	r.probes.uses(client.Store())
	r.probes.running.Store(true)
	api, err := server.New(client, cfg)
	if err != nil {
		return err
	}
	if err := r.notices.begin(r.app, client, log); err != nil {
		return err
	}
	defer r.notices.end()
	l, err := r.probes.address.open()
	if err != nil {
		return err
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	run := listen.NewServer(r.handler(pages, api), log)
	ended := make(chan error, 1)
	go func() { ended <- run.Serve(l) }()
	log.Info("listening", "address", l.Addr().Network()+" "+l.Addr().String())
	r.tellManager(log, managerReady)
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				log.Info("draining", "signal", sig.String(), "for", r.drain)
				r.tellManager(log, managerStopping)
				return r.end(signals, api, run, log)
			}
			r.tellManager(log, managerReloading)
			r.readAgain(cfg.Tokens, log)
			r.tellManager(log, managerReady)
		}
	}
}

// handler returns what serves the pages, and api for all other paths. The API checks the hosts of its requests itself.
func (r *serveRun) handler(pages *http.ServeMux, api http.Handler) http.Handler {
	var local http.Handler = pages
	if r.probes.address.Local() {
		local = listen.OnlyHosts(pages, r.hosts...)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if _, pattern := pages.Handler(request); pattern == "" { // api is not in the mux, which would redirect paths such as //
			api.ServeHTTP(w, request)
			return
		}
		local.ServeHTTP(w, request)
	})
}

// end ends the requests, and cuts off those that go on after drain, or when another signal to end comes.
func (r *serveRun) end(signals <-chan os.Signal, api *server.Server, run *http.Server, log *slog.Logger) error {
	r.probes.draining.Store(true)
	api.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), r.drain)
	defer cancel()
	go func() {
		for sig := range signals {
			if sig != syscall.SIGHUP {
				cancel()
			}
		}
	}()
	if err := run.Shutdown(ctx); err != nil {
		log.Warn("requests were cut off", "err", err)
		return run.Close()
	}
	log.Info("drained")
	return nil
}
