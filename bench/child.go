package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/soloist-dev/soloist/internal/load"
)

// How a waiting process of case C, or a service, is told what it is: by these variables. They are of the benchmark's own servers.
const (
	childBackend   = "SOLOIST_BENCH_BACKEND"
	childContender = "SOLOIST_BENCH_CONTENDER"
	childURL       = "SOLOIST_BENCH_URL"
)

func (b *bout) child() load.Command {
	return func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childBackend+"="+b.backend.name, childContender+"="+b.spec.name, childURL+"="+b.server.url, "GOMAXPROCS=1")
		cmd.Stderr = os.Stderr
		return cmd
	}
}

// isChild reports whether this process is a waiting one, or a service.
func isChild() bool { return os.Getenv(childBackend) != "" }

// runAsChild is the main function of a child. It serves, or waits for the lock, as it is told on standard input.
func runAsChild(ctx context.Context) error {
	s, err := childSpec(os.Getenv(childBackend), os.Getenv(childContender))
	if err != nil {
		return err
	}
	if s.serves != nil {
		return serveAsChild(ctx, s, os.Getenv(childURL))
	}
	c, err := s.open(ctx, os.Getenv(childURL), lockTTL)
	if err != nil {
		return err
	}
	defer c.Close()
	return load.Serve(ctx, os.Stdin, os.Stdout, func(name string) (func(context.Context, int) (func() error, error), func() int64, error) {
		return func(ctx context.Context, _ int) (func() error, error) {
			h, err := c.Lock(ctx, name)
			return h.unlock, err
		}, nil, nil
	})
}

func childSpec(backend, contender string) (spec, error) {
	for _, b := range backends() {
		for _, s := range b.specs {
			if b.name == backend && s.name == contender {
				return s, nil
			}
		}
	}
	return spec{}, fmt.Errorf("there is no contender %q on %q", contender, backend)
}
