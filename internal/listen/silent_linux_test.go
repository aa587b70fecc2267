package listen

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// A connection whose other end is silent ends soon, and not when the kernel gives up to send again, a quarter of an hour later.
func TestSilentConnectionsEnd(t *testing.T) {
	l, err := mustParse(t, "0").Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	near, is := accepted.(*connection)
	if !is {
		t.Fatalf("%T", accepted)
	}
	socket, err := near.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	ms, failed := 0, error(nil)
	if err := socket.Control(func(fd uintptr) { ms, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if want := int(SilentFor.Milliseconds()); ms != want {
		t.Errorf("it may be silent for %d ms, want %d", ms, want)
	}
	var idle, interval int
	if err := socket.Control(func(fd uintptr) {
		idle, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		if failed == nil {
			interval, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)
		}
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if asked := time.Duration(idle+2*interval) * time.Second; idle == 0 || asked > SilentFor { // one packet that is lost ends no connection
		t.Errorf("it is asked for the third time after %v, want within %v", asked, SilentFor)
	}
}

// failing is a connection that fails as the kernel lets it: it tells an error once.
type failing struct {
	net.Conn
	read error
}

func (f failing) Read([]byte) (int, error)  { return 0, &net.OpError{Op: "read", Err: f.read} }
func (f failing) Write([]byte) (int, error) { return 0, &net.OpError{Op: "write", Err: syscall.EPIPE} }

// Who writes to a connection is told that the other end has vanished, also if who reads from it was told before.
func TestConnectionsKeepWhyTheyHaveEnded(t *testing.T) {
	for read, vanished := range map[error]bool{syscall.ETIMEDOUT: true, syscall.EHOSTUNREACH: true, syscall.ENETUNREACH: true, syscall.ECONNRESET: false} {
		c := &connection{Conn: failing{read: read}}
		_, _ = c.Read(nil)
		if _, err := c.Write(nil); Vanished(err) != vanished || errors.Is(err, syscall.EPIPE) == vanished {
			t.Errorf("after %v: %v", read, err)
		}
	}
}
