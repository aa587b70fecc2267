package servers

import "syscall"

// attributes have the kernel end the server when the test program dies, however it dies.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: as, Setpgid: true}
}
