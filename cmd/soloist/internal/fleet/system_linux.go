package fleet

import "syscall"

// attributes keep a Ctrl-C for the director, and end the replica, even a paused one, with it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
