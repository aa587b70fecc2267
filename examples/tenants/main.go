// Command tenants has a job for each tenant that a file lists, one a line. Tenants come and go while it runs: a Runner adds and
// removes their jobs. Start it on several replicas: each report is made by one of them.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

func main() {
	path := flag.String("file", "soloist.db", "the file that the replicas share")
	tenants := flag.String("tenants", "tenants.txt", "the file that lists the tenants")
	flag.Parse()
	if err := run(*path, *tenants); err != nil {
		log.Fatal(err)
	}
}

func run(path, tenants string) error {
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
	runner, err := client.NewRunner()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	for look := time.Tick(time.Second); ; {
		if err := follow(ctx, runner, tenants); err != nil {
			log.Print(err) // the jobs stay as they are
		}
		select {
		case <-look:
		case err := <-ended: // after the runs under way
			return err
		}
	}
}

// follow adds and removes jobs until the runner has those of the tenants in the file.
func follow(ctx context.Context, runner *soloist.Runner, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	wanted := strings.Fields(string(text))
	for _, entry := range runner.Entries() {
		tenant := strings.TrimPrefix(entry.Job.Name, "report/")
		if i := slices.Index(wanted, tenant); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			continue
		}
		if err := runner.Remove(ctx, entry.Job.Name); err != nil { // waits for the end of its run
			return err
		}
		fmt.Println("removed", tenant)
	}
	for _, tenant := range wanted {
		if err := runner.Add(report(tenant)); err != nil {
			return err
		}
		fmt.Println("added", tenant)
	}
	return nil
}

func report(tenant string) soloist.Job {
	return soloist.Job{
		Name:     "report/" + tenant,
		Schedule: cron.MustParse("* * * * * *"), // every second
		Do: func(context.Context, soloist.Run) error {
			fmt.Println("report of", tenant)
			return nil
		},
	}
}
