//go:build unix && !linux

package servers

import "syscall"

func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true}
}

// Paused reports whether the server has been stopped by a signal and not been continued. It cannot be seen here, so it is believed.
func (p *Process) Paused() bool { return true }
