//go:build unix

package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// MariaDBPassword is that of root over TCP, of the servers that MariaDB starts.
const MariaDBPassword = "a canary of a password" //nolint:gosec // of a server on loopback that ends with its test

// A MariaDBServer is one server, in its own process unless SOLOIST_TEST_MARIADB_URL named it.
type MariaDBServer struct {
	*Process        // nil when the server is somebody else's
	Addr     string // host:port; "" when the server is somebody else's
	Socket   string // path; "" when the server is somebody else's
	URL      string // mysql://user:password@host:port/database
}

// MariaDB starts a MariaDB server with an empty database test, and the user root with MariaDBPassword. Settings are as on mariadbd's command line:
// "--log-bin". With settings the server is always our own.
func MariaDB(t Test, settings ...string) *MariaDBServer {
	t.Helper()
	if url := fromEnvironment("MARIADB"); url != "" && len(settings) == 0 {
		return &MariaDBServer{URL: url}
	}
	install := Program(t, "MariaDB", "mariadb-install-db", "mysql_install_db")
	program := Program(t, "MariaDB", "mariadbd", "mysqld", "/usr/sbin/mariadbd", "/usr/libexec/mariadbd")
	dir, port := Directory(t), FreePort(t)
	as := unprivileged(t, dir)
	data := filepath.Join(dir, "data")
	installMariaDB(t, install, data, as)
	// The statements that the server runs when it starts, before it listens: root may come over TCP. They are not for replicas, which run
	// their own: one that repeated these would have no root for a moment.
	begin := filepath.Join(dir, "begin.sql")
	text := "SET SESSION sql_log_bin = 0;\nCREATE DATABASE IF NOT EXISTS test;\n" +
		"CREATE OR REPLACE USER root@'127.0.0.1' IDENTIFIED BY '" + MariaDBPassword + "';\n" +
		"GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
	if err := os.WriteFile(begin, []byte(text), 0o644); err != nil {
		t.Fatalf("writing the first statements of MariaDB: %v", err)
	}
	socket := filepath.Join(dir, "socket")
	// Each server has its own tmpdir: one that starts removes the temporary tables that it finds there, those of other servers too.
	args := append([]string{
		"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir, "--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1", "--socket=" + socket,
		"--pid-file=" + filepath.Join(dir, "pid"), "--init-file=" + begin, "--skip-name-resolve", "--loose-innodb-buffer-pool-size=64M",
		"--innodb-log-file-size=32M",
		"--max-connections=2000", // suites run side by side, and in each a hundred callers may ask at once
	}, settings...)
	p := launch(t, &Process{
		name: fmt.Sprintf("mariadb-%d", port), path: program, args: args, dir: dir, as: as, ready: mariadbReady(address(port)),
	})
	url := fmt.Sprintf("mysql://root:%s@%s/test", "a%20canary%20of%20a%20password", address(port))
	return &MariaDBServer{Process: p, Addr: address(port), Socket: socket, URL: url}
}

func installMariaDB(t Test, program, data string, as *syscall.Credential) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--no-defaults", "--datadir="+data, "--tmpdir="+filepath.Dir(data), "--auth-root-authentication-method=normal", "--skip-test-db")
	cmd.SysProcAttr = attributes(as)
	cmd.Dir = filepath.Dir(data)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("making the data of MariaDB: %v\n%s", err, out)
	}
}

// mariadbReady is nil when the server greets: it does so after its first statements.
func mariadbReady(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if deadline, ok := ctx.Deadline(); ok {
			_ = c.SetDeadline(deadline)
		}
		greeting := make([]byte, 256)
		n, err := c.Read(greeting)
		if err != nil {
			return err
		}
		// Protocol version 10 begins the greeting; 0xff begins an error, such as too many connections.
		// https://mariadb.com/kb/en/connection/#initial-handshake-packet
		if n < 5 || greeting[4] != 10 || bytes.IndexByte(greeting[5:n], 0) < 0 {
			return errors.New("the greeting is none of the protocol of version 10")
		}
		return nil
	}
}
