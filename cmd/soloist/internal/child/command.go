package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Command is what to run, and how. Args is required; the other fields have useful zero values.
type Command struct {
	// Args is the program and its arguments. No shell reads them. A program without a slash is looked up in the
	// absolute directories of the PATH of Env; one with a slash is relative to Dir.
	Args []string

	Env []string // the whole environment, as NAME=value; nil is that of this process. See Environ
	Dir string   // "" is the directory of this process

	// An *os.File is inherited by the command as it is: what passes is touched by nobody. Other readers and writers
	// are served through pipes. Stdout and Stderr that are equal share one, so that what is written stays in order.
	// nil is the null device.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Grace is the longest time from the end of Run's context to SIGKILL; 0 kills at once.
	Grace time.Duration

	// Hurry, when it is closed, takes away what is left of the grace. It asks nothing while the context lives.
	Hurry <-chan struct{}

	// Nice, 0 to 19, is by how much the command's processes yield to others: their niceness is that of this process and
	// Nice.
	Nice int

	// Signals are passed on to the group while the command runs. See Forwarded.
	Signals <-chan os.Signal

	// MayContinue is called before a command that was stopped from the terminal continues. It returns an error if the
	// lease was lost meanwhile; the command is ended then. If it is nil, only the context is checked.
	MayContinue func() error

	// Started is called with the process id once the command runs, before Run waits.
	Started func(pid int)
}

// A Result says how a command ended.
type Result struct {
	// Code is the exit code as shells give it: the command's own, 128+n after signal n, 126 when it could not be
	// executed, 127 when it was not found.
	Code     int
	Ran      bool          // it was started; then Code is the command's own
	Signal   os.Signal     // the signal that ended the command, or nil
	Told     bool          // a TERM or INT of Signals was passed on
	Passed   []os.Signal   // those of Signals that were passed on, and those that the terminal may have sent to the command alone
	Stopped  bool          // the context ended before the command did, so the command was told to end
	Killed   bool          // the command, or something it started, got SIGKILL from us
	Duration time.Duration // from the start until the command and what it started were gone
}

// The exit codes of a command that was not started, as in POSIX shells.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// A StartError says why a command could not be started, and what would be right.
type StartError struct {
	File   string // as it was asked for
	Code   int    // CodeNotExecutable or CodeNotFound
	Reason string
	Err    error // what the system said, or nil
}

func (e *StartError) Error() string { return fmt.Sprintf("can't run %q: %s", e.File, e.Reason) }

// Unwrap returns what the system said.
func (e *StartError) Unwrap() error { return e.Err }

// Lasts reports whether another try would fail, too, until somebody changes something. Other errors may go away by themselves: the
// machine has no process, memory or file descriptor left for a moment, or the program is being written.
func (e *StartError) Lasts() bool {
	return e.Err == nil || slices.ContainsFunc(lasting, func(err error) bool { return errors.Is(e.Err, err) })
}

var lasting = []error{
	os.ErrNotExist, os.ErrPermission, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.ENOEXEC, syscall.E2BIG,
	syscall.EINVAL, // an argument or a variable has a zero byte
}

// A LeftError names processes that go on when the command has ended.
type LeftError struct {
	Pids    []int
	Unknown bool // they may be the command's or others', and were left alone; else they are its, and could not be ended
}

func (e *LeftError) Error() string {
	why := "they could not be killed (another user's, or hanging in the kernel)"
	if e.Unknown {
		why = "nobody can tell whether they are the command's or others', as " + RunVariable + " is not seen in their environment"
	}
	return fmt.Sprintf("processes %s go on: %s", strings.Trim(fmt.Sprint(e.Pids), "[]"), why)
}

// ErrOutputHeld reports that output was still open when the command and what was found of it were gone: an unknown
// process holds it, or the one that takes the output does not. What is still to come is lost.
var ErrOutputHeld = errors.New("the end of the command's output is lost: a process that left the command holds it open, or nobody takes it")

// ErrNoTerminal reports that the command asked for the terminal in the background of a process that could not be stopped for
// that.
var ErrNoTerminal = errors.New("the command got SIGHUP: it asked for the terminal in the background, where it could not wait for it")
