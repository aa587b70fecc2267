//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package child

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// jobControl stops all commands of this process before Ctrl-Z stops the process itself: nobody renews their leases while it is stopped.
var jobControl = struct {
	begin sync.Once
	asked chan chan bool // to stop as if by Ctrl-Z, which sends whether it could; nil where Ctrl-Z does not stop this process

	mu        sync.Mutex
	continued chan struct{} // closed when this process has been stopped, and goes on
}{continued: make(chan struct{})}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = tty.Close()
	return true
}

// beginJobControl takes SIGTSTP over, for good: Go cannot give a signal that it has caught its default effect back.
func beginJobControl() {
	jobControl.begin.Do(func() {
		if !hasTerminal() || refused(unix.SIGTSTP) {
			return
		}
		typed := make(chan os.Signal, 1)
		signal.Notify(typed, unix.SIGTSTP)
		jobControl.asked = make(chan chan bool)
		go func() {
			for {
				select {
				case <-typed: // all of our group have it
					stopAll(os.Getpid())
				case done := <-jobControl.asked:
					done <- stopAll(0)
				}
				select {
				case <-typed: // from before we went on
				default:
				}
			}
		}()
	})
}

// stopAll stops all commands, and then this process or, with 0, its whole group. It returns true when this process is continued. In a group that
// nobody could continue it does nothing, as the system does, and returns false.
func stopAll(pid int) bool {
	if !stoppable() {
		return false
	}
	forking.Lock() // or one could be started meanwhile
	stopChildren()
	stopStrays()
	stopOurselves(pid)
	forking.Unlock()
	jobControl.mu.Lock()
	defer jobControl.mu.Unlock()
	close(jobControl.continued)
	jobControl.continued = make(chan struct{})
	return true
}

// goesOn is closed when this process has been stopped with its commands, and goes on.
func goesOn() <-chan struct{} {
	jobControl.mu.Lock()
	defer jobControl.mu.Unlock()
	return jobControl.continued
}

// stopChildren stops the groups of all commands, also what ignores SIGTSTP.
func stopChildren() {
	children.Lock()
	defer children.Unlock()
	for pid := range children.pids {
		_ = unix.Kill(-pid, unix.SIGSTOP)
	}
}

// stopGroup stops this process and its group as Ctrl-Z would, and returns true when it is continued. It returns false if Ctrl-Z would not
// stop it.
func stopGroup() bool {
	if jobControl.asked == nil {
		return false
	}
	done := make(chan bool)
	jobControl.asked <- done
	return <-done
}
