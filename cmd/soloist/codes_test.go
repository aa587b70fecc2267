//go:build unix

package main

import (
	"bytes"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/test/servers"
)

var (
	postgresServer = servers.Shared(func(t servers.Test) *servers.PostgresServer { return servers.Postgres(t) })
	mariadbServer  = servers.Shared(func(t servers.Test) *servers.MariaDBServer { return servers.MariaDB(t) })
	redisServer    = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t, "--databases", "4") })
)

func init() { endServers = servers.End }

// ended runs the command on a store, and returns its exit code and what it wrote.
func ended(t *testing.T, store string, args ...string) (code int, text string) {
	t.Helper()
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"SOLOIST_STORE=" + store, "PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cmd.Dir, "ran")); err == nil && cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("%v: the command has run", args)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// with is a URL with another user, password, database or options.
func with(t *testing.T, text string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// A refusal is a store that cannot be used as it is, with the exit code that says so and what the message must have.
type refusal struct {
	store string
	code  int
	says  string
}

func (r refusal) check(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"lock", "x", "--", "touch", "ran"}, {"once", "j", "x", "--", "touch", "ran"}, {"jobs", "list"}} {
		if args[0] == "jobs" && strings.Contains(r.says, "version") {
			continue // what is only read may be of another version
		}
		code, text := ended(t, r.store, args...)
		for end := time.Now().Add(servers.Patience); r.code != exitUnavailable && code == exitUnavailable && timeOut.MatchString(text) && time.Now().Before(end); {
			code, text = ended(t, r.store, args...) // a busy machine did not get as far as the refusal
		}
		if code != r.code || !strings.Contains(text, r.says) {
			t.Errorf("%v: exit code %d, want %d with %q:\n%s", args, code, r.code, r.says, text)
		}
	}
}

// timeOut is what is said when a request was not answered in time.
var timeOut = regexp.MustCompile(`deadline exceeded|time-?out|timed out|in time|too long`)

// A supervisor tries again after 69, and calls somebody after 77 and 78: each store must say the same of the same.
func TestExitCodesOfPostgres(t *testing.T) {
	base := postgresServer(t).URL
	db := opened(t, "pgx", base)
	must(t, db, `CREATE ROLE worker LOGIN PASSWORD 'pw'`, `CREATE DATABASE newer`, `CREATE DATABASE bare`, `CREATE DATABASE made`)
	at := func(name string) string { return with(t, base, func(u *url.URL) { u.Path = "/" + name }) }
	worker := func(name string) string {
		return with(t, at(name), func(u *url.URL) { u.User = url.UserPassword("worker", "pw") })
	}
	for _, name := range []string{"newer", "made"} {
		if code, text := ended(t, at(name), "migrate", "up"); code != 0 {
			t.Fatal(text)
		}
	}
	must(t, opened(t, "pgx", at("newer")), `UPDATE soloist_meta SET version = 99`)
	for name, r := range map[string]refusal{
		"wrong password":      {with(t, base, func(u *url.URL) { u.User = url.UserPassword("postgres", "wrong") }), 77, "see to the user and the password"},
		"unknown user":        {with(t, base, func(u *url.URL) { u.User = url.UserPassword("nobody", "wrong") }), 77, "see to the user and the password"},
		"no right":            {worker("made"), 77, "GRANT SELECT, INSERT, UPDATE, DELETE"},
		"unknown database":    {at("nowhere"), 78, "make the database, or name another"},
		"missing tables":      {at("bare"), 78, "run soloist migrate up"},
		"newer schema":        {at("newer"), 78, "version 99"},
		"nobody listens":      {with(t, base, func(u *url.URL) { u.Host = "127.0.0.1:1" }), 69, "refused"},
		"ShedLock's table":    {at("bare") + "?table=shedlock", 78, "share it by shedlock=true"},
		"cockroach, no port":  {"cockroach://root@127.0.0.1/x", 69, ":26257"},
		"cockroach, own port": {"cockroach://root@127.0.0.1:1/x", 69, ":1"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); r.check(t) })
	}
	if code, text := ended(t, worker("bare"), "migrate", "up"); code != 77 || !strings.Contains(text, "GRANT USAGE, CREATE ON SCHEMA") {
		t.Errorf("migrating without the right: %d\n%s", code, text)
	}
	if code, text := ended(t, at("newer"), "migrate", "up"); code != 78 || !strings.Contains(text, "use a newer one") {
		t.Errorf("migrating a newer schema: %d\n%s", code, text)
	}
}

func TestExitCodesOfMariaDB(t *testing.T) {
	base := mariadbServer(t).URL
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	db := opened(t, "mysql", "root:"+servers.MariaDBPassword+"@tcp("+u.Host+")/")
	must(t, db, `CREATE USER worker@'127.0.0.1' IDENTIFIED BY 'pw'`, `CREATE DATABASE newer`, `CREATE DATABASE bare`, `CREATE DATABASE made`)
	at := func(name string) string { return with(t, base, func(u *url.URL) { u.Path = "/" + name }) }
	worker := func(name string) string {
		return with(t, at(name), func(u *url.URL) { u.User = url.UserPassword("worker", "pw") })
	}
	for _, name := range []string{"newer", "made"} {
		if code, text := ended(t, at(name), "migrate", "up"); code != 0 {
			t.Fatal(text)
		}
	}
	must(t, db, `UPDATE newer.soloist_meta SET version = 99`)
	for name, r := range map[string]refusal{
		"wrong password":   {with(t, base, func(u *url.URL) { u.User = url.UserPassword("root", "wrong") }), 77, "see to the user and the password"},
		"no right":         {worker("made"), 77, "GRANT SELECT, INSERT, UPDATE, DELETE"},
		"unknown database": {at("nowhere"), 78, "make the database, or name another"},
		"missing tables":   {at("bare"), 78, "run soloist migrate up"},
		"newer schema":     {at("newer"), 78, "version 99"},
		"nobody listens":   {with(t, base, func(u *url.URL) { u.Host = "127.0.0.1:1" }), 69, "refused"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); r.check(t) })
	}
	must(t, db, `GRANT SELECT ON bare.* TO worker@'127.0.0.1'`)
	if code, text := ended(t, worker("bare"), "migrate", "up"); code != 77 || !strings.Contains(text, "GRANT CREATE") {
		t.Errorf("migrating without the right: %d\n%s", code, text)
	}
}

func TestExitCodesOfRedis(t *testing.T) {
	base := redisServer(t).URL
	options, err := redis.ParseURL(base)
	if err != nil {
		t.Fatal(err)
	}
	db := redis.NewClient(options)
	defer db.Close()
	if err := db.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">pw", "+ping").Err(); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]refusal{
		"wrong password":   {with(t, base, func(u *url.URL) { u.User = url.UserPassword("worker", "wrong") }), 77, "the user or the password is wrong"},
		"no right":         {with(t, base, func(u *url.URL) { u.User = url.UserPassword("worker", "pw") }), 77, "the user lacks a right"},
		"unknown database": {with(t, base, func(u *url.URL) { u.Path = "/9" }), 78, "databases"},
		"nobody listens":   {"redis://127.0.0.1:1", 69, "refused"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); r.check(t) })
	}
}

func opened(t *testing.T, driver, text string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func must(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
