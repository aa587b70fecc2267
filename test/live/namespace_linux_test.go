package live

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// A namespace is its own network. One thread of this program is in it, and so is what is started from there. It is gone when
// this program and all of those have ended.
type namespace struct {
	work   chan func()
	thread int
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{work: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread()
		n.thread = syscall.Gettid()
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		made <- err
		for do := range n.work {
			do()
		}
		select {} // the kernel ends a server when the thread ends from which it was started, and other tests may have used this one
	}()
	if err := <-made; err != nil {
		close(n.work)
		servers.Missing(t, "a network namespace cannot be made: %v (that takes root)", err)
	}
	t.Cleanup(func() { close(n.work) })
	n.ip(t, "link", "set", "lo", "up")
	return n
}

// do does something on the thread of the namespace. What that has to say to t is said by the goroutine of the test.
func (n *namespace) do(t *testing.T, what func()) {
	t.Helper()
	done := make(chan bool)
	n.work <- func() {
		whole := false
		defer func() { done <- whole }()
		what()
		whole = true
	}
	switch {
	case <-done:
	case t.Skipped():
		t.SkipNow()
	default:
		t.FailNow()
	}
}

// ip sets up the network of the namespace.
func (n *namespace) ip(t *testing.T, args ...string) {
	t.Helper()
	n.run(t, servers.Program(t, "ip, of iproute2", "ip"), args...)
}

// nft sets up the packet filter of the namespace, or tells what it has met.
func (n *namespace) nft(t *testing.T, args ...string) string {
	t.Helper()
	return n.run(t, servers.Program(t, "nft, of nftables", "nft"), args...)
}

// run runs a program in the namespace.
func (n *namespace) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	var out []byte
	var err error
	n.do(t, func() { out, err = exec.Command(program, args...).CombinedOutput() })
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func (n *namespace) start(t *testing.T) func(*exec.Cmd) error {
	return func(cmd *exec.Cmd) (err error) {
		n.do(t, func() { err = cmd.Start() })
		return err
	}
}

const (
	clientHost = "10.93.0.1"
	serverHost = "10.93.0.2"
)

// joined makes two namespaces with a wire between them.
func joined(t *testing.T) (clients, server *namespace) {
	t.Helper()
	clients, server = newNamespace(t), newNamespace(t)
	clients.ip(t, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", strconv.Itoa(server.thread))
	for n, host := range map[*namespace]string{clients: clientHost, server: serverHost} {
		n.ip(t, "addr", "add", host+"/24", "dev", "wire")
		n.ip(t, "link", "set", "wire", "up")
	}
	server.nft(t, "add table inet live; "+
		"add chain inet live come { type filter hook input priority 0; }; add chain inet live go { type filter hook output priority 0; }")
	return clients, server
}

// The thread of a namespace goes on when its test has ended: the kernel ends a server when the thread ends from which it was started.
func TestThreadsOutliveNamespaces(t *testing.T) {
	thread := 0
	t.Run("namespace", func(t *testing.T) { thread = newNamespace(t).thread })
	if thread == 0 {
		t.Skip("there was no namespace")
	}
	for range 100 {
		time.Sleep(time.Millisecond)
		if err := syscall.Tgkill(os.Getpid(), thread, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// rules are what a packet filter does on the server's side of the wire, by kind of fault; PORT is the server's.
var rules = map[string][]string{
	"replies dropped": {"go oifname wire tcp sport PORT tcp flags & psh == psh counter drop"},
	"partition":       {"go oifname wire counter drop", "come iifname wire counter drop"},
	"30 % lost": {"go oifname wire numgen random mod 100 < 30 counter drop",
		"come iifname wire numgen random mod 100 < 30 counter drop"},
	"reset": {"come iifname wire tcp dport PORT tcp flags & psh == psh counter reject with tcp reset"},
}

var packets = regexp.MustCompile(`counter packets (\d+)`)

// filtered keeps the rules of one fault in force for a while, and returns how many packets met them.
func filtered(ctx context.Context, t *testing.T, n *namespace, port, kind string, d time.Duration) int {
	t.Helper()
	for _, rule := range rules[kind] {
		n.nft(t, "add rule inet live "+strings.ReplaceAll(rule, "PORT", port))
	}
	wait(ctx, d)
	met := 0
	for _, count := range packets.FindAllStringSubmatch(n.nft(t, "list table inet live"), -1) {
		c, _ := strconv.Atoi(count[1])
		met += c
	}
	n.nft(t, "flush chain inet live go; flush chain inet live come")
	return met
}

// Packets are lost between machines: clients and the server have separate networks, with a wire between them.
func TestNetwork(t *testing.T) {
	servers.Long(t)
	for name, start := range map[string]func(*testing.T) string{
		"Redis": func(t *testing.T) string {
			return servers.Redis(t, append(durableRedis, "--bind", "0.0.0.0", "--protected-mode", "no")...).URL
		},
		"PostgreSQL": func(t *testing.T) string {
			dir := servers.Directory(t)
			must(t, os.Chmod(dir, 0o755))
			hba := filepath.Join(dir, "hba.conf")
			must(t, os.WriteFile(hba, []byte("host all all 0.0.0.0/0 scram-sha-256\n"), 0o644))
			return servers.Postgres(t, append(smallPostgres, "listen_addresses=*", "hba_file="+hba)...).URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gap := *ttl / 2
			mustHold(t, func(t *testing.T) (run, func() []string) {
				gap *= 2 // a slow machine takes longer to recover from a fault, and a run in which most requests fail is void
				return apart(t, name, start, gap)
			})
		})
	}
}

// apart is a run with clients and the server in separate networks, and with gap between two faults of the network.
func apart(t *testing.T, name string, start func(*testing.T) string, gap time.Duration) (run, func() []string) {
	command(t) // outside of the namespaces, for it may have to be built
	clients, server := joined(t)
	var url string
	server.do(t, func() {
		url = start(t)
		if name == "PostgreSQL" {
			migrate(t, url)
		}
	})
	at := strings.LastIndex(url, "127.0.0.1:") + len("127.0.0.1:")
	port, _, _ := strings.Cut(url[at:], "/")
	all := map[string]int{}
	r := run{url: strings.Replace(url, "127.0.0.1", serverHost, 1), span: *span, ttl: *ttl, faults: "all", start: clients.start(t)}
	r.meanwhile = func(ctx context.Context) map[string]int {
		met := map[string]int{}
		for {
			for _, kind := range sortedKeys(rules) {
				if !wait(ctx, gap) { // at least twice as long as a fault: what is reset fails sooner than other requests succeed
					return met
				}
				n := filtered(ctx, t, server, port, kind, *ttl/2)
				met[kind+", packets"] += n
				all[kind] += n
				if n > 0 {
					met[kind]++
				}
			}
		}
	}
	return r, func() []string {
		var none []string
		for _, kind := range sortedKeys(rules) {
			if all[kind] == 0 {
				none = append(none, fmt.Sprintf("%s: no packet met the rule", kind))
			}
		}
		return none
	}
}
