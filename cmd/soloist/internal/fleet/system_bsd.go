//go:build darwin || freebsd || openbsd || dragonfly

package fleet

import "syscall"

// attributes keep a Ctrl-C for the director. A replica ends when its input does, so when the director is killed; a
// paused one is then left.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
