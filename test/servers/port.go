//go:build unix

package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// firstPort is the least that FreePort returns. Well-known servers have lower ones.
const firstPort = 10_000

// FreePort returns a port of 127.0.0.1 that nobody listens on. It stays the test's until that ends, also while its server is down: it is not
// among the ports that the system gives to connections and to listeners that take any, and no other call of FreePort, in any program,
// returns it. For that the UDP port of the same number is held.
func FreePort(t Test) int {
	t.Helper()
	count := firstOfAny() - firstPort
	begin := rand.IntN(count)
	for i := range count {
		port := firstPort + (begin+i)%count
		held, err := net.ListenPacket("udp", address(port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			_ = held.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = held.Close() })
		return port
	}
	t.Fatalf("no port between %d and %d is free", firstPort, firstPort+count)
	return 0
}

// firstOfAny returns the least port that the system gives to those that ask for any.
func firstOfAny() int {
	first := 32_768 // of Linux; those of other systems are not lower
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &first)
	}
	return max(first, firstPort+1000) // some of them, where there are no others
}
