// Command elements issues each invoice once, however often and wherever it is started.
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
	flag.Parse()
	ids := flag.Args()
	if len(ids) == 0 {
		ids = []string{"4711", "4712", "4711"}
	}
	if err := run(context.Background(), *path, ids); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, ids []string) error {
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

	invoices := client.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3, Backoff: time.Minute}})
	for _, id := range ids {
		err := invoices.Process(ctx, id, func(_ context.Context, invoice *soloist.Element) error {
			fmt.Printf("%s: issued, with token %d\n", invoice.ID(), invoice.Token())
			return nil
		})
		switch {
		case errors.Is(err, soloist.ErrDone):
			fmt.Printf("%s: issued before\n", id)
		case errors.Is(err, soloist.ErrHeld):
			fmt.Printf("%s: another process has it\n", id)
		case errors.Is(err, soloist.ErrFailed):
			fmt.Printf("%s: failed too often: %v\n", id, err)
		case err != nil:
			return err
		}
	}
	return nil
}
