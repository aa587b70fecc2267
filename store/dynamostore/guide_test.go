package dynamostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
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

// closeMonthTwice is work that must not be done.
func closeMonthTwice(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("the month was closed while it was being closed")
		return nil
	}
}
