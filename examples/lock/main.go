// Command lock does something while it holds a lock that the processes of this host share. Start two at the same time: the
// second waits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

func main() {
	path := flag.String("file", "soloist.db", "the file that the processes share")
	work := flag.Duration("work", time.Second, "how long the work takes")
	flag.Parse()
	if err := run(context.Background(), *path, *work); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, work time.Duration) error {
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

	return closeMonth(ctx, client, work)
}

// closeMonth closes the month under a lock. It says of a month that was closed whether the lock was held until then, and of one that was not that it is still open.
func closeMonth(ctx context.Context, client *soloist.Client, work time.Duration) error {
	closed := false
	patient := client.With(soloist.Options{Wait: 30 * time.Second})
	err := patient.Do(ctx, "close-month", func(ctx context.Context, lease *soloist.Lease) error {
		fmt.Println("closing the month with token", lease.Token())
		select {
		case <-time.After(work):
			closed = true
			return nil
		case <-ctx.Done(): // the lease is lost, or the caller gave up
			return context.Cause(ctx)
		}
	})
	switch {
	case errors.Is(err, soloist.ErrHeld):
		return fmt.Errorf("somebody else is closing the month: %w", err)
	case errors.Is(err, soloist.ErrLost) && closed:
		return fmt.Errorf("the month is closed, but perhaps twice: %w", err)
	case err != nil && closed:
		return fmt.Errorf("the month is closed, but the lock may stay taken: %w", err)
	case err != nil:
		return fmt.Errorf("the month is not closed: %w", err)
	}
	fmt.Println("the month is closed")
	return nil
}
