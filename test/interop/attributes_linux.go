package interop

import "syscall"

// attributes have the kernel end the peer when the test program dies, however it dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
