package soloisttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// t is the *testing.T of your test.
var t *testing.T

// Examples are tests here.
func TestExamples(own *testing.T) {
	for name, example := range map[string]func(){
		"NewClient":         ExampleNewClient,
		"LoseLease":         ExampleLoseLease,
		"NewReplica":        ExampleNewReplica,
		"Store_Break":       ExampleStore_Break,
		"Store_LoseReplies": ExampleStore_LoseReplies,
	} {
		own.Run(name, func(each *testing.T) {
			t = each
			example()
		})
	}
}

// publish is the code under test: it publishes every second for as long as it holds the lock.
func publish(ctx context.Context, client *soloist.Client, send func() error) error {
	return client.Do(ctx, "publisher", func(ctx context.Context, _ *soloist.Lease) error {
		for ctx.Err() == nil {
			if err := send(); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return context.Cause(ctx)
	})
}

// A test in a bubble of testing/synctest: an hour takes no time, and nothing depends on how fast the machine is.
func ExampleNewClient() {
	synctest.Test(t, func(t *testing.T) {
		client, _ := soloisttest.NewClient(t)
		sent := 0
		err := publish(t.Context(), client, func() error {
			if sent++; sent == 3600 {
				return errors.New("enough")
			}
			return nil
		})
		if err == nil || sent != 3600 {
			t.Errorf("sent %d in an hour, %v", sent, err)
		}
	})
}

// What the code does when it loses its lock in the middle.
func ExampleLoseLease() {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		lease, err := client.Lock(t.Context(), "ledger")
		if err != nil {
			t.Fatal(err)
		}
		soloisttest.LoseLease(t, s, lease)
		if cause := context.Cause(lease.Context()); !errors.Is(cause, soloist.ErrLost) {
			t.Errorf("the work goes on: %v", cause)
		}
	})
}

// Two replicas, one of which is cut off from the store: the other takes over when the lease has ended.
func ExampleNewReplica() {
	synctest.Test(t, func(t *testing.T) {
		one := soloisttest.NewStore()
		two := one.Share() // the same records over another network
		a := soloisttest.NewReplica(t, one, soloist.Config{Replica: "a"})
		b := soloisttest.NewReplica(t, two, soloist.Config{Replica: "b"})

		lost := make(chan error, 1)
		go func() { lost <- publish(t.Context(), a, func() error { return nil }) }()
		synctest.Wait()
		one.Stall()

		if _, err := b.Lock(t.Context(), "publisher"); err != nil { // waits for the end of the lease
			t.Fatal(err)
		}
		if err := <-lost; !errors.Is(err, soloist.ErrLost) {
			t.Errorf("a has ended with %v", err)
		}
	})
}

// How the code behaves while the store fails.
func ExampleStore_Break() {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		s.Break(errors.New("connection refused"))
		send := func() error { return errors.New("sent without the lock") }
		if err := publish(t.Context(), client, send); err == nil || errors.Is(err, soloist.ErrHeld) {
			t.Errorf("got: %v", err)
		}
		s.Heal()
	})
}

// How the code behaves when nobody knows whether a request had an effect.
func ExampleStore_LoseReplies() {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		err := client.Do(t.Context(), "ledger", func(context.Context, *soloist.Lease) error {
			s.LoseReplies(1) // that of the release
			return nil
		})
		if err != nil {
			t.Errorf("got: %v", err) // the client repeats the release, and learns that it has happened
		}
	})
}
