package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
)

// A command gets each notice as JSON on its standard input.
type command struct {
	args    []string
	environ []string
}

// commandGrace is the time from TERM to KILL for a command that takes too long.
const commandGrace = 2 * time.Second

func (c *command) send(ctx context.Context, n Notice, body []byte) error {
	var said start
	run := child.Command{
		Args: c.args, Stdin: bytes.NewReader(body), Stdout: io.Discard, Stderr: &said, Grace: commandGrace,
		Env: child.Environ(c.environ, map[string]string{"SOLOIST_NAME": n.Job, "SOLOIST_NOTICE": string(n.Kind), "SOLOIST_NOTICE_ID": n.ID}),
	}
	result, err := run.Run(ctx)
	var failed *child.StartError
	switch {
	case errors.As(err, &failed) && failed.Lasts():
		return permanent{err}
	case !result.Ran:
		return err
	case result.Stopped:
		return fmt.Errorf("%s took too long, and was stopped", c.args[0])
	case result.Code != 0:
		return fmt.Errorf("%s: exit status %d: %s", c.args[0], result.Code, child.Clean(said.text()))
	}
	return nil
}

// A start keeps the first bytes of what is written to it.
type start struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps what there is room for. It never fails.
func (s *start) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, p[:min(len(p), 200-len(s.kept))]...)
	return len(p), nil
}

// text returns the first line.
func (s *start) text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, _, _ := bytes.Cut(s.kept, []byte("\n"))
	return line
}
