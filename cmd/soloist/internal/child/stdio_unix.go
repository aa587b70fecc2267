//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package child

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// readNow reads what is in a pipe, whatever its deadline is. It returns ErrOutputHeld if nothing is in it and somebody
// holds it open.
func readNow(pipe *os.File, buffer []byte) (n int, err error) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	var read error
	if err := conn.Control(func(fd uintptr) {
		for n, read = -1, syscall.EINTR; errors.Is(read, syscall.EINTR); {
			n, read = syscall.Read(int(fd), buffer)
		}
	}); err != nil {
		return 0, err
	}
	switch {
	case errors.Is(read, syscall.EAGAIN):
		return 0, ErrOutputHeld
	case read != nil:
		return 0, read
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
