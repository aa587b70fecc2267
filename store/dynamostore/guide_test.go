package dynamostore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/dynamostore"
)

// The code of docs/guides/from-swf.md, with the work as a parameter.

func insteadOfExecution(ctx context.Context, client *soloist.Client, closeMonth func(context.Context) error) error {
	err := client.Do(ctx, "close-month", func(ctx context.Context, lease *soloist.Lease) error {
		return closeMonth(ctx) // ctx ends if the lease is lost; lease.Token() goes with the writes
	})
	if errors.Is(err, soloist.ErrHeld) {
		return nil // another one does it
	}
	return err
}

func insteadOfActivity(ctx context.Context, client *soloist.Client, invoice string, issue func(context.Context, string) error) error {
	invoices := client.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3, Backoff: time.Minute}})
	err := invoices.Process(ctx, invoice, func(ctx context.Context, element *soloist.Element) error {
		return issue(ctx, element.ID())
	})
	if errors.Is(err, soloist.ErrDone) || errors.Is(err, soloist.ErrHeld) {
		return nil // it was issued before, or another replica has it
	}
	return err
}

func untilIssued(ctx context.Context, client *soloist.Client, invoice string, issue func(context.Context, string, int) error) error {
	patient := client.With(soloist.Options{Wait: -1}) // Process waits while another replica has the invoice
	invoices := patient.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Backoff: time.Second}})
	for {
		err := invoices.Process(ctx, invoice, func(ctx context.Context, element *soloist.Element) error {
			return issue(ctx, element.ID(), element.Attempt()) // ctx ends with the lease: another replica may have the invoice then
		})
		if err == nil || errors.Is(err, soloist.ErrDone) {
			return nil // it is marked completed, by this replica or by another one
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second): // it failed, or its lease was lost: try again, or wait for who has it now
		}
	}
}

func issueAll(ctx context.Context, client *soloist.Client, unissued func(context.Context) ([]string, error), issue func(context.Context, string, int) error) error {
	return client.Lead(ctx, "issuer", func(ctx context.Context, lease *soloist.Lease) error {
		invoices, err := unissued(ctx) // from the database
		for _, invoice := range invoices {
			err = errors.Join(err, untilIssued(ctx, client, invoice, issue))
		}
		return err
	})
}

// TestGuideFromSWF runs the code of the guide against a server.
func TestGuideFromSWF(t *testing.T) {
	server := shared(t)
	client, err := soloist.New(open(t, server.Endpoint, fresh(t, server.Endpoint)), soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	closed, issued := 0, []string(nil)
	closeMonth := func(ctx context.Context) error {
		closed++
		return insteadOfExecution(ctx, client, closeMonthTwice(t)) // it is held now
	}
	if err := insteadOfExecution(background, client, closeMonth); err != nil || closed != 1 {
		t.Errorf("the month was closed %d times: %v", closed, err)
	}
	issue := func(_ context.Context, id string) error { issued = append(issued, id); return nil }
	for _, invoice := range []string{"4711", "4712", "4711"} {
		if err := insteadOfActivity(background, client, invoice, issue); err != nil {
			t.Errorf("%s: %v", invoice, err)
		}
	}
	if len(issued) != 2 || issued[0] != "4711" || issued[1] != "4712" {
		t.Errorf("issued: %q; want each once", issued)
	}
}

// workerVariable makes this program a worker that takes an invoice and never issues it: the endpoint, the table, and how it works.
const workerVariable = "SOLOIST_DYNAMOSTORE_WORKER"

// work is the worker.
func work(about string) error {
	fields := strings.Fields(about)
	client, err := worker(fields[0], fields[1])
	if err != nil {
		return err
	}
	defer client.Close()
	issue := func(ctx context.Context, id string, _ int) error {
		fmt.Println("issuing", id)
		<-ctx.Done()
		return ctx.Err()
	}
	if fields[2] == "lead" {
		return issueAll(background, client, func(context.Context) ([]string, error) { return []string{"4711"}, nil }, issue)
	}
	return untilIssued(background, client, "4711", issue)
}

func worker(endpoint, table string) (*soloist.Client, error) {
	s, err := dynamostore.New(client(endpoint), dynamostore.Config{Table: table})
	if err != nil {
		return nil, err
	}
	return soloist.New(s, soloist.Config{TTL: 3 * time.Second})
}

// TestGuideFromSWFWorkerDies: a worker that is killed is noticed, and others do what it had begun, once, until it is marked as done.
func TestGuideFromSWFWorkerDies(t *testing.T) {
	server := shared(t)
	for _, how := range []string{"elements", "lead"} {
		t.Run(how, func(t *testing.T) {
			table := fresh(t, server.Endpoint)
			dies := exec.CommandContext(t.Context(), os.Args[0])
			dies.Env = append(os.Environ(), workerVariable+"="+server.Endpoint+" "+table+" "+how)
			out, err := dies.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := dies.Start(); err != nil {
				t.Fatal(err)
			}
			began := false
			for lines := bufio.NewScanner(out); !began && lines.Scan(); {
				began = lines.Text() == "issuing 4711"
			}
			if err := dies.Process.Kill(); err != nil || !began {
				t.Fatalf("the worker has begun: %v; killing it: %v", began, err)
			}
			_ = dies.Wait() // it was killed
			var mu sync.Mutex
			var attempts []int
			issue := func(_ context.Context, _ string, attempt int) error {
				mu.Lock()
				defer mu.Unlock()
				if attempts = append(attempts, attempt); len(attempts) == 1 {
					return errors.New("the receiver is busy")
				}
				return nil
			}
			unissued := func(context.Context) ([]string, error) { return []string{"4711"}, nil }
			var others sync.WaitGroup
			for range 2 {
				client, err := worker(server.Endpoint, table)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				others.Go(func() {
					work := func() error { return untilIssued(background, client, "4711", issue) }
					if how == "lead" {
						work = func() error { return issueAll(background, client, unissued, issue) }
					}
					if err := work(); err != nil {
						t.Error(err)
					}
				})
			}
			others.Wait()
			// The first attempt was that of the worker that died, and the second one failed. On a machine that stands still for a TTL there are more.
			if len(attempts) < 2 || attempts[0] != 2 || !slices.IsSorted(attempts) {
				t.Errorf("the attempts were %v", attempts)
			}
		})
	}
}

// closeMonthTwice is work that must not be done.
func closeMonthTwice(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("the month was closed while it was being closed")
		return nil
	}
}
