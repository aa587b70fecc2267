//go:build unix

package servers

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// A PgBouncerServer is a pooler in transaction mode before a PostgreSQL server of ours.
type PgBouncerServer struct {
	*Process
	Addr string // host:port
	URL  string // as that of the server, with the pooler's address
}

// PgBouncer starts a pooler in transaction mode: each transaction of a client may be on another connection to the server. It knows the
// superuser.
func PgBouncer(t Test, server *PostgresServer) *PgBouncerServer {
	t.Helper()
	path := Program(t, "PgBouncer", "pgbouncer", "/usr/sbin/pgbouncer")
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatalf("the URL of the server: %v", err)
	}
	dir := Directory(t)
	port := FreePort(t)
	password, _ := to.User.Password()
	users := filepath.Join(dir, "users")
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
unix_socket_dir =
`, to.Hostname(), to.Port(), port, users)
	for name, text := range map[string]string{users: fmt.Sprintf("%q %q\n", to.User.Username(), password), filepath.Join(dir, "settings"): settings} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatalf("preparing PgBouncer: %v", err)
		}
	}
	p := launch(t, &Process{
		name: fmt.Sprintf("pgbouncer-%d", port), path: path, args: []string{filepath.Join(dir, "settings")}, dir: dir,
		as:    unprivileged(t, dir),
		ready: postgresReady(address(port)),
	})
	to.Host = address(port)
	return &PgBouncerServer{Process: p, Addr: address(port), URL: to.String()}
}
