//go:build unix && !linux

package interop

import "syscall"

// attributes leave it to the end of its standard input to end the peer when the test program dies.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
