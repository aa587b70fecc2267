package demo

import (
	"context"
	"errors"
	"fmt"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"io"
	"os"
	"time"
)

// ErrAudit reports that a line of the audit failed.
var ErrAudit = errors.New("the audit failed")

// Config describes how the demo is run. The zero value is useful.
type Config struct {
	// Dir is where the demo makes its own directory, which it removes; "" is in memory where the system has that, else
	// the system's directory for such.
	Dir string

	// Keep leaves that directory, with the store and all events in it.
	Keep bool

	// Out gets the report, Progress what happens as it happens. nil discards it.
	Out, Progress io.Writer

	// Open serves the dashboard on a free port of this machine while the demo lasts, and tells Progress where it is.
	Open bool

	// Color reports whether Out takes colours; the variable NO_COLOR outranks it.
	Color bool

	// Executable is the program that the replicas run, "" this one. It must hand the arguments after Args to Replica.
	Executable string

	// Args stand before the arguments of a replica; nil means "demo-replica".
	Args []string
}

// How long it may take, from the start to the report: acts that take too long are given up, and the audit tells.
const (
	actsLimit  = 48 * time.Second
	drainLimit = 7 * time.Second
)

func (c Config) filled() (Config, error) {
	if !fleet.Supported {
		return c, fmt.Errorf("the demo pauses processes, which this system cannot do: %w", errors.ErrUnsupported)
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	if os.Getenv("NO_COLOR") != "" {
		c.Color = false
	}
	if c.Args == nil {
		c.Args = []string{"demo-replica"}
	}
	var err error
	if c.Executable == "" {
		c.Executable, err = os.Executable()
	}
	return c, err
}

// Run shows the demo, within a minute, and leaves nothing behind. The error is ErrAudit if a line of the audit failed,
// and says why when the demo could not be played to its end; when ctx ends, all processes are killed and the error is
// its cause.
func Run(ctx context.Context, c Config) (err error) {
	c, err = c.filled()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if c.Dir, err = makeDir(c.Dir); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if !c.Keep {
		defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
	}
	d, err := newDirector(c)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err = d.show(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// makeDir makes a directory in dir. What the demo shows needs no disk, and a disk that stalls, as those of hired
// machines do, would stall every lease.
func makeDir(dir string) (string, error) {
	const pattern = "soloist-demo-"
	if dir == "" {
		if made, err := os.MkdirTemp("/dev/shm", pattern); err == nil {
			return made, nil
		}
	}
	return os.MkdirTemp(dir, pattern)
}

// show plays all acts, and reports whatever came of them.
func (d *director) show(ctx context.Context) error {
	acts, cancel := context.WithTimeoutCause(ctx, actsLimit, errTooSlow)
	defer cancel()
	played := d.play(acts)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	drained := d.drain(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	found, err := d.findings(ctx)
	if err != nil {
		return errors.Join(played, drained, err)
	}
	verdicts := audit(found)
	if err := report(d.Out, found, verdicts, d.Color); err != nil {
		return errors.Join(played, drained, err)
	}
	if d.Keep {
		err = d.keep(found.events)
	}
	if failed(verdicts) {
		d.logs()
		err = errors.Join(ErrAudit, err)
	}
	return errors.Join(played, drained, err)
}

var errTooSlow = fmt.Errorf("the demo has taken %v, which is too long: is the machine very busy?", actsLimit)
