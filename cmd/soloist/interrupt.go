package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// untilInterrupted returns a context that ends with the first INT or TERM, whose cause is an exit with the code of that. Another one ends this process
// at once: what it cleans up can take long. stop is to be called in the end.
func untilInterrupted(what string) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case sig := <-signals:
			signal.Stop(signals) // before anybody can see that it has come
			n, _ := ending(sig)
			cancel(&exit{128 + int(n), fmt.Errorf("the %s was interrupted: ended by %v", what, sig)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
