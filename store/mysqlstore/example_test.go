package mysqlstore_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/mysqlstore"

	_ "github.com/go-sql-driver/mysql"
)

func Example() {
	ctx := context.Background()

	db, err := sql.Open("mysql", "user:password@tcp(db.example:3306)/app?multiStatements=true&tls=true")
	if err != nil {
		log.Fatal(err)
	}
	s, err := mysqlstore.New(db, mysqlstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Migrate(ctx); err != nil { // or: soloist migrate up
		log.Fatal(err)
	}
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Do(ctx, "close-month", func(context.Context, *soloist.Lease) error {
		return nil // nobody else does this now
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleStore_Complete() {
	var db *sql.DB
	var s *mysqlstore.Store
	var client *soloist.Client
	issue := func(context.Context, *sql.Tx) error { return nil }

	err := client.Elements("invoices", soloist.ElementsOptions{}).Process(context.Background(), "4711", func(ctx context.Context, invoice *soloist.Element) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := issue(ctx, tx); err != nil {
			return err
		}
		if err := s.Complete(ctx, tx, invoice.Completion()); err != nil {
			return err
		}
		return tx.Commit() // the invoice and that it is done, or neither
	})
	if err != nil {
		log.Print(err)
	}
}

func ExampleOpenURL() {
	s, err := mysqlstore.OpenURL(context.Background(), "mysql://user:password@db.example:3306/app?tls=true&shedlock=true")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

var _ store.Store = (*mysqlstore.Store)(nil)
