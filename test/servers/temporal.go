//go:build unix

package servers

import "strconv"

// temporalJar is Temporal's own server for tests. It keeps everything in memory.
const temporalJar = "io.temporal:temporal-test-server:1.30.1"

// A TemporalServer is a test server of Temporal. It accepts every namespace, and forgets everything when it ends.
type TemporalServer struct {
	*Process
	Addr string
}

// Temporal starts a test server of Temporal. Its clock is the true one.
func Temporal(t Test) *TemporalServer {
	t.Helper()
	java := Program(t, "Java", "java")
	path, port, dir := jars(t, temporalJar), FreePort(t), Directory(t)
	args := []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, "io.temporal.testserver.TestServer", strconv.Itoa(port)}
	p := &Process{name: "temporal", path: java, args: args, dir: dir, ready: listening(address(port))}
	return &TemporalServer{Process: launch(t, p), Addr: address(port)}
}
