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
	asked chan chan struct{} // to stop as if by Ctrl-Z; nil where Ctrl-Z does not stop this process

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
		jobControl.asked = make(chan chan struct{})
		go func() {
			for {
				select {
				case <-typed: // all of our group have it
					stopAll(os.Getpid())
				case done := <-jobControl.asked:
					stopAll(0)
					close(done)
				}
				select {
				case <-typed: // from before we went on
				default:
				}
			}
		}()
	})
}

// stopAll stops all commands, and then this process or, with 0, its whole group. It returns when this process is continued, and does nothing in a
// group that nobody could continue, as the system does.
func stopAll(pid int) {
	if !stoppable() {
		return
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

// stopGroup stops this process and its group as Ctrl-Z would, and returns when it is continued.
func stopGroup() {
	if jobControl.asked == nil {
		return
	}
	done := make(chan struct{})
	jobControl.asked <- done
	<-done
}
