package pgstore_test

import (
	"context"
	"log"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/pgstore"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func book(context.Context, pgx.Tx, string) error { return nil }

// A store with its own connections.
func Example() {
	ctx := context.Background()
	s, err := pgstore.OpenURL(ctx, "postgres://app@db1,db2/app?target_session_attrs=read-write&sslmode=verify-full")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	client, err := soloist.New(s, soloist.Config{RequireFencing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Do(ctx, "nightly", func(ctx context.Context, lease *soloist.Lease) error {
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}

// A store on the application's own pool, in its own schema.
func ExampleNew() {
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig("postgres://app@db/app")
	if err != nil {
		log.Fatal(err)
	}
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	s, err := pgstore.New(pool, pgstore.Config{Schema: "soloist"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	did, err := s.Migrate(ctx) // or soloist migrate up, with a role that may
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range did {
		log.Print(line)
	}
}

// The work and the mark of an element commit together.
func ExampleStore_Complete() {
	ctx := context.Background()
	var pool *pgxpool.Pool
	var s *pgstore.Store
	var client *soloist.Client
	err := client.Elements("invoices", soloist.ElementsOptions{}).Process(ctx, "4711", func(ctx context.Context, invoice *soloist.Element) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := s.Complete(ctx, tx, invoice.Completion()); err != nil {
				return err // lost to another, or done before: the transaction is rolled back
			}
			return book(ctx, tx, "4711")
		})
	})
	if err != nil {
		log.Print(err)
	}
}
