package servers

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// attributes have the kernel end the server when the test program dies, however it dies.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: as, Setpgid: true}
}

// Paused reports whether the server has been stopped by a signal and not been continued.
func (p *Process) Paused() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") ")) // after the name of the program, in parentheses
	return bytes.HasPrefix(state, []byte("T"))
}
