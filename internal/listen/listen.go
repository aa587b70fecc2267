package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// Listen opens the address. A unix socket is for the user that runs this process alone. If its file is left from a process that has died, it
// is replaced; one that does not refuse connections is another's, and an error.
func (a Address) Listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	if a.path == "" {
		return config.Listen(ctx, "tcp", a.String())
	}
	if err := a.removeStale(ctx); err != nil {
		return nil, err
	}
	l, err := config.Listen(ctx, "unix", a.path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(a.path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes a socket on which nobody listens.
func (a Address) removeStale(ctx context.Context) error {
	info, err := os.Lstat(a.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("listening on %s: %w, and is not a socket", a, fs.ErrExist)
	}
	var dialer net.Dialer
	switch conn, err := dialer.DialContext(ctx, "unix", a.path); {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("listening on %s: another process listens there", a)
	case !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, wsaRefused): // such as by a process with too many connections that it has not accepted yet
		return fmt.Errorf("listening on %s: whether another process listens there: %w", a, err)
	}
	return os.Remove(a.path)
}

// wsaRefused is what syscall.ECONNREFUSED is on Windows (WSAECONNREFUSED in winsock2.h); nothing elsewhere.
const wsaRefused = syscall.Errno(10061)
