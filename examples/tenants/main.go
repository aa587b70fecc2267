// Command tenants has a job for each tenant that a file lists: in each line a tenant and the schedule of its report. Tenants come and go
// while it runs, and schedules change: a Runner adds, updates and removes their jobs. Start it on several replicas: each report is made by
// one of them.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
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

// follow changes the jobs of the runner until they are those of the tenants in the file.
func follow(ctx context.Context, runner *soloist.Runner, file string) error {
	text, err := os.ReadFile(file) // or a query to a database
	if err != nil {
		return err
	}
	wanted := map[string]string{} // schedules by tenant
	for line := range strings.Lines(string(text)) {
		tenant, schedule, _ := strings.Cut(strings.TrimSpace(line), " ")
		wanted[tenant] = schedule
	}
	for _, entry := range runner.Entries() {
		tenant := strings.TrimPrefix(entry.Job.Name, "report/")
		switch schedule, ok := wanted[tenant]; {
		case !ok:
			if err := runner.Remove(ctx, entry.Job.Name); err != nil { // waits for the end of its run
				return err
			}
			fmt.Println("removed", tenant)
		case schedule != fmt.Sprint(entry.Job.Schedule):
			if err := change(runner.Update, "updated", tenant, schedule); err != nil {
				return err
			}
		}
		delete(wanted, tenant)
	}
	for tenant, schedule := range wanted {
		if err := change(runner.Add, "added", tenant, schedule); err != nil {
			return err
		}
	}
	return nil
}

// change adds or updates the job of a tenant.
func change(to func(soloist.Job) error, done, tenant, expression string) error {
	schedule, err := cron.Parse(expression)
	if err != nil {
		return fmt.Errorf("tenant %s: %w", tenant, err)
	}
	err = to(soloist.Job{Name: "report/" + tenant, Schedule: schedule, Do: func(context.Context, soloist.Run) error {
		fmt.Println("report of", tenant)
		return nil
	}})
	if err == nil {
		fmt.Println(done, tenant)
	}
	return err
}
