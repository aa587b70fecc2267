package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// SilentFor is how long the other end of a TCP connection may not acknowledge what it is sent, or a sign of life that it is asked for. Then the connection ends with
// an error of which Vanished reports true. Systems other than Linux wait for as long as they are set up to.
const SilentFor = 10 * time.Second

// Listen opens the address. A unix socket is for the user that runs this process alone. If its file is left from a process that has died, it
// is replaced; one that does not refuse connections is another's, and an error. Close removes the file, unless it is another's by then.
func (a Address) Listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	if a.path == "" {
		config.Control = endSilent
		config.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: SilentFor * 2 / 5, Interval: SilentFor / 5} // three times within SilentFor: one packet that is lost ends no connection
		l, err := config.Listen(ctx, "tcp", a.String())
		if err != nil {
			return nil, err
		}
		return connections{l}, nil
	}
	if err := a.removeStale(ctx); err != nil {
		return nil, err
	}
	l, err := config.Listen(ctx, "unix", a.path)
	if err != nil {
		return nil, err
	}
	s := &socket{UnixListener: l.(*net.UnixListener), path: a.path}
	s.SetUnlinkOnClose(false) // it would remove what is there by then
	if s.file, err = os.Lstat(a.path); err == nil {
		err = os.Chmod(a.path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Vanished reports whether a connection has ended because nothing came from the other end: it has not closed it, and may not know.
func Vanished(err error) bool {
	for _, silent := range []error{syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH} { // the last two if the way to it is known to be gone
		if errors.Is(err, silent) {
			return true
		}
	}
	return false
}

// connections is a listener whose connections keep why they have ended.
type connections struct{ net.Listener }

// Accept implements net.Listener.
func (l connections) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c}, nil
}

// A connection tells each Write if the other end has vanished. The kernel tells it once, and that is mostly a Read.
type connection struct {
	net.Conn
	vanished atomic.Pointer[error]
}

// Read implements net.Conn.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if Vanished(err) {
		c.vanished.Store(&err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	if err := c.vanished.Load(); err != nil {
		return 0, *err
	}
	return c.Conn.Write(b)
}

// A socket is a listener with a file.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo // nil if it is not known
}

// Close implements net.Listener. The file is removed before: while the socket is open, no other can look like it.
func (s *socket) Close() error {
	if s.file != nil {
		_ = removeSeen(s.path, s.file) // it is another's, or is left as by a process that has died
	}
	return s.UnixListener.Close()
}

// removeSeen removes a file if it is still the one that was seen, or gone.
func removeSeen(path string, seen fs.FileInfo) error {
	now, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !os.SameFile(now, seen) || !now.ModTime().Equal(seen.ModTime()): // a new file can have the number of one that was removed
		return fmt.Errorf("%s: %w: it has been replaced meanwhile", path, syscall.EADDRINUSE)
	}
	return os.Remove(path)
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
	if err := removeSeen(a.path, info); err != nil {
		return fmt.Errorf("listening on %s: %w", a, err)
	}
	return nil
}

// wsaRefused is what syscall.ECONNREFUSED is on Windows (WSAECONNREFUSED in winsock2.h); nothing elsewhere.
const wsaRefused = syscall.Errno(10061)
