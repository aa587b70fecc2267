package listen

import (
	"errors"
	"syscall"
)

// userTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall does not have.
const userTimeout = 0x12

// endSilent ends connections whose other end is silent for SilentFor. Those that a socket accepts have what it has.
func endSilent(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, int(SilentFor.Milliseconds()))
	})
	return errors.Join(err, failed)
}
