//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mistaken runs the command with a mistake in its environment or arguments, in a directory with some files.
func mistaken(t *testing.T, dir string, env, args []string) (code int, out, errs string) {
	t.Helper()
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// one wants a mistake refused before anything runs, by a message of one line that says what is wrong.
func one(t *testing.T, dir string, env, args []string, code int, says string) {
	t.Helper()
	got, out, errs := mistaken(t, dir, env, args)
	lines := strings.Count(strings.TrimSpace(errs), "\n")
	switch {
	case got != code || !strings.Contains(errs, says):
		t.Errorf("%q %q: exit code %d, want %d with %q:\n%s", env, args, got, code, says, errs)
	case lines > 0 && !strings.Contains(says, "\n"), out != "":
		t.Errorf("%q %q: more than one line:\n%s%s", env, args, out, errs)
	case strings.Contains(errs, "strconv.") || strings.Contains(errs, "canary") || strings.Contains(errs, "goroutine") || strings.Contains(errs, "deadline exceeded"):
		t.Errorf("%q %q: the message has a secret or a word of Go's:\n%s", env, args, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Fatalf("%q %q: the command has run", env, args)
	}
}

func TestMistakesInURLs(t *testing.T) {
	dir := t.TempDir()
	for url, says := range map[string]string{
		"": "is set and empty", " ": "begins or ends with a space", "nonsense": "no URL of a store", "oracle://h/d": `there is no store "oracle:"`, "sqlite": "no URL",
		"x:": `"x:"`, "SQLITE3:x.db": `"sqlite3:"`, "file:x.db": `"file:"`, "http://h": `"http:"`, "memory:x": "nothing may follow memory:", "memory://": "nothing may follow",
		"sqlite:": "the path is missing", "sqlite://": "a file has no host", "sqlite://host/x.db": "a file has no host", "sqlite:x.db?mode=ro": `"?mode=ro"`,
		"sqlite:x.db?": `"?"`, "sqlite:x.db#f": `"#f"`, "sqlite:x%zz.db": `"%zz"`, "sqlite:x.db%": `"%"`, "sqlite:x%0a.db": "control character", "sqlite:x%00": "control character",
		"sqlite:x.db\n": "newline", "sqlite:x.db ": "space", "sqlite:a\nb": "control character", "sqlite:missing/x.db": "its directory is not there", "sqlite:.": "it is a directory",
		"sqlite::memory:": "memstore", "sqlite:/dev/null": "not a regular file",
		"redis:": "redis://", "redis://": "then hosts", "redis:h": "redis://", "redis://:6379": "HOST:PORT", "redis://h:0": "HOST:PORT", "redis://h:x": "HOST:PORT", "redis://h:99999": "HOST:PORT",
		"redis://a,b": "write one host", "redis://h/x": `"x"`, "redis://h/-1": `"-1"`, "redis://h/0/1": `"0/1"`, "redis://u:canary@h/x": `"x"`, "redis+sentinel://h": "name under which",
		"redis+cluster://h/1": "one database", "redis+ring://h": `"redis+ring:"`, "redis://h?prefx=a": `"prefx"`, "redis://h?wait=x": "option wait", "redis://h?wait=-1": "option wait", "redis://h?wait=1&wait=1": "given twice",
		"redis://h?wait=101": "0 to 100", "redis://h?timeout=5": "such as 500ms", "redis://h?timeout=0s": "more than 0", "redis://h?pool=x": "option pool", "redis://h?insecure=true": "rediss",
		"redis://h?cafile=/x": "rediss", "rediss://h?cafile=/none": "cafile", "rediss://h?certfile=/x": "both or neither", "redis://h?prefix=": "must not be empty", "redis://h?prefix={}": "braces",
		"redis://h?share=prod": "with one *", "redis://h?shedlock=true": "share", "redis://h?share=*&redisson=true": "must not be together", "redis://h?%zz": "%XX",
		"redis://h?a;b": "key=value", "redis://h?redisson=yes": "must be true or false", "redis://h?sentinelpassword=": "(not shown)", "redis://u:can@ary@h/@": "%40", "rediss://h?servername=": "must not be empty",
		"redis+cluster://h?share=*": "must be one server's", "redis+cluster://h?wait=1": "must be one server's", "redis://h?waittimeout=2h": "wait timeout",
		"postgres:h": "two slashes", "postgres://u:canary%zz@h/d": "cannot be read", "postgres://h/d?tabel=x": `"tabel"`, "postgres://h/d?table=A": "table", "postgres://h/d?table=1a": "table",
		"postgres://h/d?table=x;drop": "cannot be read", "postgres://h/d?schema=a.b": "schema", "postgres://h/d?shedlock=maybe": "must be true or false", "postgres://h/d?shedlock=": "must be true or false",
		"postgres://h/d?table=shedlock": "share it by shedlock=true", "postgres://h/d?listen=on": "must be auto or off", "postgres://h/d?table=a&table=b": "once is enough", "postgres://h/d?sslmode=maybe": "sslmode",
		"postgres://h/d?Schema=x": "is written schema", "postgres://h/d?pool_max_conns=x": "pool_max_conns", "postgres://h:x/d": "cannot be read", "postgres://h/d?%zz=1": "cannot be read",
		"postgres://h/d?connect_timeout=x": "connect_timeout", "postgres://h/d?table=": "must not be empty", "postgres://h/d?schema=": "must not be empty", "postgres://h/d?listen=": "must be auto or off", "postgres://h/d?sslrootcert=/none": "/none", "cockroach://h/d?shed_lock=true": "is written shedlock",
		"mysql:h": "mysql://", "mysql://h": "database", "mysql://h/": "database", "mysql://h/a/b": "database", "mysql://h:0/d": "port", "mysql://h:x/d": "mysql://", "mysql://h:99999/d": "port",
		"mysql://u:canary%zz@h/d": "%XX", "mysql://h/d?tls=true;table=x": "key=value", "mysql://h/d?tls=true%zz": "key=value", "mysql://h/d?tls=true;": "key=value", "mysql://h/d?tls": "key=value",
		"mysql://h/d?table=soloist;drop": "key=value", "mysql://h/d?tls=": "must be true", "mysql://h/d?tls=preferred": "must be true", "mysql://h/d?table=": "must be a name", "mysql://h/d?table=a-b": "table",
		"mysql://h/d?schema=": "must be a name", "mysql://h/d?socket=x": "absolute path", "mysql://h/d?timeout=5": "such as 5s", "mysql://h/d?timeout=-1s": "above 0", "mysql://h/d?tlss=true": `"tlss"`,
		"mysql://h/d?tls=true&tls=false": "given once", "mysql://h/d?shedlock=perhaps": "must be true or false", "mysql://h/d?shedlock_zone=*": "time zone", "mysql://h/d#f": "%23", "mysql://h/d?table=ShedLock": "share it by shedlock=true",
		"mysql://h/d?": "key=value", "mysql://h/d?&": "key=value", "mariadb://h": "database",
	} {
		if url == "mysql://h/d?" { // an empty query is none
			continue
		}
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			one(t, dir, []string{"SOLOIST_STORE=" + url}, []string{"lock", "x", "--", "touch", "ran"}, 78, says)
		})
	}
}

func TestMistakesInArguments(t *testing.T) {
	dir := t.TempDir()
	for line, says := range map[string]string{
		"lcok x -- touch ran": "did you mean lock?", "bogus": `no subcommand "bogus"`, "jobs lst": "did you mean list?", "jobs": "give one of its subcommands, forget, history, list, ", "locks": "give one", "elements": "give one",
		"migrate": "give one", "migrate down": `"down"`, "help bogus": `"bogus"`, "help jobs bogus": `"bogus"`, "completion bogus": `no shell "bogus"`, "completion": "give one",
		"lock": "accepts 1 arg", "lock x": "put the command to run after --", "lock x --": "nothing stands after --", "lock -- touch ran": "accepts 1 arg", "lock x touch ran": "put -- before", "lock a b -- touch ran": "accepts 1 arg",
		"lock x --tll 1s -- touch ran": "did you mean --ttl?", "lock x --ttl 1 -- touch ran": `--ttl "1": give a duration`, "lock x --ttl 0s -- touch ran": "too short", "lock x --ttl -5s -- touch ran": "too short",
		"lock x --ttl 999999h -- touch ran": "--ttl", "lock x --grace 1h -- touch ran": "--grace 1h", "lock x --grace -1s -- touch ran": "--grace", "lock x --at-least -1s -- touch ran": "--at-least -1s",
		"lock x --at-most -1s -- touch ran": "--at-most -1s", "lock x --at-most 1ms -- touch ran": "too short", "lock x --at-least 11s --at-most 10s -- touch ran": "--at-least 11s: must not be more than --at-most (10s)", "lock x --wait soon -- touch ran": `--wait "soon"`, "lock x -E 256 -- touch ran": "between 0 and 255",
		"lock x -E x -- touch ran": "--conflict-exit-code", "lock a/../\x01 -- touch ran": "name", "sem x -- touch ran": "limit", "sem x --limit 0 -- touch ran": "--limit 0", "sem x --limit 1001 -- touch ran": "--limit 1001",
		"sem x --limit many -- touch ran": `--limit "many": give a whole number`, "once j -- touch ran": "accepts 2 arg", "once j e --attempts -1 -- touch ran": "--attempts -1", "once j e --retain -1s -- touch ran": "--retain -1s",
		"once j e --backoff -1s -- touch ran": "--backoff -1s", "once j e --backoff x -- touch ran": `--backoff "x"`, "lead -- touch ran": "accepts 1 arg", "jobs list -- touch ran": "nothing may stand after --",
		"jobs list x": "x", "jobs list -o xml": "table, json or jsonl", "jobs next x -n 0": "give 1 to 1000", "jobs show": "accepts 1 arg", "jobs pause x": "reason", "jobs show nothing": "no such job",
		"elements list j --status finished": "finished", "elements retry j": "requires at least 2 arg", "elements retry typo nosuch": "no such element", "locks release x": "token", "locks release x --token x --reason y": `--token "x": give a whole number`,
		"doctor memory: sqlite:x": "accepts at most 1 arg", "doctor -o xml": "table, json or jsonl", "doctor --within x": `--within "x"`, "doctor --within -1s": "--within -1s: give more than 0", "jobs pause --all --reason=": "--reason is empty", "jobs pause x --reason=": "--reason is empty",
		"cron --format ini none": `--format "ini": give crontab or yaml`, "cron --ttl 1ms none": "--ttl 1ms: give at least 1s", "migrate up --shedlock": "PostgreSQL and MySQL", "migrate up x": "x",
		"verify --for 1ms": "at least 1s", "verify --replicas 1": "2 to 100", "verify --faults fire": "fire", "bench --case Q": `no case "Q"`, "cron": "accepts 1 arg", "cron a b": "accepts 1 arg",
		"cron -inotify none": "-inotify is a flag of supercronic: write --watch", "cron -prometheus-listen-address=:9 none": "write --listen ADDRESS", "cron --no-reap none": "leave it out",
		"cron -overlapping none": "table, json or jsonl", "cron -x none": "shorthand flag: 'x'", "jobs list -test": "shorthand flag: 't'",
		"cron crontab --drain -1s": "--drain", "cron crontab --ttl x": `--ttl "x"`, "--namespace a/b lock x -- touch ran": "amespace", "--stroe memory: jobs list": "did you mean --store?", "version x": "x",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			one(t, dir, []string{"SOLOIST_STORE=memory:"}, strings.Fields(line), 64, says)
		})
	}
}

func TestMistakesInFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty": "", "two": "memory:\nsqlite:x.db\n", "fine": "memory:\n", "open": "memory:\n", "crontab": "* * * * * true\n", "loose": "* * * * * true\n",
		"fields": "* * *\n", "minute": "99 * * * * true\n", "zone": "TZ=Europe/Nowhere\n* * * * * true\n", "name": "# name: a\n* * * * * true\n# name: a\n* * * * * false\n",
		"option": "# soloist: tll=1m\n* * * * * true\n", "value": "# soloist: ttl=soon\n* * * * * true\n", "reboot": "@reboot true\n", "variable": "SOLOIST_STORE=memory:\n* * * * * true\n",
		"key.yaml": "jobs:\n  - {name: a, schedule: '* * * * *', shell: 'true', tll: 1m}\n", "none.yaml": "jobs:\n  - {name: a, shell: 'true'}\n", "text.yaml": "jobs: [\n", "zone.yaml": "jobs:\n  - {name: a, every: 3s, shell: 'true', zone: Europe/Berlin}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"open", "loose"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for file, says := range map[string]string{
		"empty": "is empty", "two": "more than one line", "open": "mode 0666 lets others write", "nothing": "no such file", ".": "is a directory",
	} {
		one(t, dir, []string{"SOLOIST_STORE_FILE=" + file}, []string{"lock", "x", "--", "touch", "ran"}, 78, says)
	}
	for file, says := range map[string]string{
		"nothing": "no such file", "loose": "mode 0666 lets others write", "fields": "fields:1", "minute": "minute:1", "zone": "Europe/Nowhere", "name": "name:4", "option": "tll",
		"value": "soon", "reboot": "@reboot", "variable": "SOLOIST_", "key.yaml": "tll", "none.yaml": "none.yaml:2", "text.yaml": "text.yaml", "zone.yaml": "zone.yaml:2: zone: it is for schedule, and means nothing beside every; remove it",
	} {
		got, _, errs := mistaken(t, dir, []string{"SOLOIST_STORE=memory:"}, []string{"cron", file})
		if got != 78 || !strings.Contains(errs, says) {
			t.Errorf("cron %s: exit code %d, want 78 with %q:\n%s", file, got, says, errs)
		}
	}
	for _, env := range []string{"SOLOIST_STORE=", "SOLOIST_STORE_FILE=", "SOLOIST_NAMESPACE=", "SOLOIST_REQUIRE=", "SOLOIST_REQUIRE=fleets", "SOLOIST_REQUIRE=fleet;durable", "SOLOIST_REQUIRE=fleet,"} {
		name, _, _ := strings.Cut(env, "=")
		one(t, dir, []string{"SOLOIST_STORE=memory:", env}, []string{"lock", "x", "--", "touch", "ran"}, 78, "$"+name)
	}
}
