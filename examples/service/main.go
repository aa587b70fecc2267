// Command service is a replica of an HTTP service, as it runs in Kubernetes: one replica migrates at the start, requests for one user do not
// overlap, a job runs once in the fleet, and TERM lets all of that end. Start it on two ports of one host, with the same file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/health"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

func main() {
	path := flag.String("file", "soloist.db", "the file that the replicas share")
	address := flag.String("listen", "127.0.0.1:8080", "where to serve HTTP")
	flag.Parse()
	if err := run(*path, *address); err != nil {
		log.Fatal(err)
	}
}

func run(path, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := migrate(ctx, client, "001-users", "002-orders"); err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("GET /livez", health.Live())
	mux.Handle("GET /readyz", health.Ready(health.Options{}, health.Store(s)))
	mux.HandleFunc("POST /users/{user}/orders", oneAtATime(client, order))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("serving on", listener.Addr())
	runner, err := client.NewRunner(soloist.Job{Name: "invoices", Schedule: soloist.Every(time.Minute), Do: invoices})
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(listener) }()
	go func() { ended <- runner.Run(context.Background()) }() // Shutdown ends it
	select {
	case <-ctx.Done():
	case err := <-ended: // one of them failed
		return err
	}

	// First the requests, which use leases, then the job and what is left. A pod has 30 seconds in all.
	bound, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(bound), client.Shutdown(bound))
}

// migrate applies what has not been applied yet. One replica does so, and the others wait until it has.
func migrate(ctx context.Context, client *soloist.Client, versions ...string) error {
	migrations := client.With(soloist.Options{Wait: -1}).Elements("migrations", soloist.ElementsOptions{})
	for _, version := range versions {
		err := migrations.Process(ctx, version, func(_ context.Context, m *soloist.Element) error {
			fmt.Println("applying", m.ID())
			return nil
		})
		if err != nil && !errors.Is(err, soloist.ErrDone) {
			return fmt.Errorf("migration %s: %w", version, err)
		}
	}
	return nil
}

// oneAtATime refuses a request while another one of the same user is under way, on any replica.
func oneAtATime(client *soloist.Client, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		responded := false
		err := client.Do(r.Context(), "user/"+r.PathValue("user"), func(ctx context.Context, _ *soloist.Lease) error {
			responded = true
			next(w, r.WithContext(ctx)) // ends with the request and with the lock
			return nil
		})
		switch {
		case err == nil:
		case responded: // perhaps beside another request, if the lease was lost; or the lock may stay taken for a while
			log.Print(err)
		case errors.Is(err, soloist.ErrHeld):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "another request of this user is under way", http.StatusConflict)
		default:
			log.Print(err)
			http.Error(w, "the store of locks does not respond", http.StatusServiceUnavailable)
		}
	}
}

func order(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(200 * time.Millisecond): // what an order takes
		fmt.Fprintln(w, "ordered for", r.PathValue("user"))
	case <-r.Context().Done():
	}
}

func invoices(_ context.Context, run soloist.Run) error {
	fmt.Println("invoices of", run.ScheduledAt)
	return nil
}
