//go:build unix

package histories

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/store/dynamostore"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/store/temporalstore"
	"github.com/soloist-dev/soloist/test/servers"
)

var racers = flag.Int("histories.racers", 60, "how many callers race for a sixth as many names, three times each")

const (
	racingProcesses = 3
	racersPerName   = 6
	winsPerRacer    = 3
)

// openRace opens the store of a URL in a process that races.
var openRace = map[string]func(context.Context, string) (store.Store, error){
	"dynamodb":  func(ctx context.Context, to string) (store.Store, error) { return dynamostore.OpenURL(ctx, to) },
	"cassandra": func(ctx context.Context, to string) (store.Store, error) { return cassandrastore.OpenURL(ctx, to) },
	"hazelcast": func(ctx context.Context, to string) (store.Store, error) { return hazelcaststore.OpenURL(ctx, to) },
	"temporal":  func(ctx context.Context, to string) (store.Store, error) { return temporalstore.OpenURL(ctx, to) },
}

// TestRaces: many callers in three processes want the same names at once. Under a name each adds one to a number in a
// file, which nothing else guards, and writes its token beside it: no addition is lost, nobody finds another one
// there, and each token is greater than the one before.
func TestRaces(t *testing.T) {
	servers.Long(t)
	for name, start := range map[string]func(*testing.T) string{
		"DynamoDB": func(t *testing.T) string {
			return "dynamodb://races?region=eu-central-1&endpoint=" + url.QueryEscape(servers.DynamoDB(t).Endpoint)
		},
		"Cassandra": func(t *testing.T) string {
			node := servers.Cassandra(t)
			createKeyspace(t, node.Addr, "races")
			return "cassandra://cassandra:cassandra@" + node.Addr + "/races"
		},
		"Hazelcast": func(t *testing.T) string {
			return "hazelcast://" + servers.Hazelcast(t).Addr + "/races?dialtimeout=5m&cluster=" + servers.HazelcastName
		},
		"Temporal": func(t *testing.T) string { return "temporal://" + servers.Temporal(t).Addr + "/default" },
	} {
		t.Run(name, func(t *testing.T) { race(t, start(t)) })
	}
}

// race lets the callers begin when each process has opened the store, and judges what they have done.
func race(t *testing.T, to string) {
	t.Helper()
	migrateRace(t, to)
	dir, names, begun := t.TempDir(), max(1, *racers/racersPerName), time.Now()
	for i := range names {
		if err := os.WriteFile(filepath.Join(dir, raceName(i)), []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var processes []*racingProcess
	for i := range racingProcesses {
		p := startRacing(t, to, dir, strconv.Itoa(names), strconv.Itoa(*racers/racingProcesses), strconv.Itoa(i))
		processes = append(processes, p)
	}
	for _, p := range processes {
		p.expect(t, "ready")
	}
	for _, p := range processes {
		p.begin(t)
	}
	for _, p := range processes {
		p.expect(t, "done")
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("a process that raced ended with %v", err)
		}
	}
	sum, tokens := 0, 0
	for i := range names {
		number, err := os.ReadFile(filepath.Join(dir, raceName(i)))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(string(number))
		if err != nil {
			t.Fatalf("%s: %v", raceName(i), err)
		}
		sum += n
		tokens += growing(t, filepath.Join(dir, raceName(i)+".tokens"), n)
	}
	want := *racers / racingProcesses * racingProcesses * winsPerRacer
	if sum != want || tokens != want {
		t.Errorf("counted to %d with %d tokens, want %d", sum, tokens, want)
	}
	t.Logf("%d callers in %d processes had %d names %d times in %v", *racers, racingProcesses, names, sum, time.Since(begun).Round(100*time.Millisecond))
}

func raceName(i int) string { return "name" + strconv.Itoa(i) }

// growing returns how many tokens a file has, which must be as many as the number beside it and grow.
func growing(t *testing.T, path string, number int) (n int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && (number > 0 || !errors.Is(err, os.ErrNotExist)) {
		t.Fatal(err)
	}
	last := int64(0)
	for line := range strings.Lines(string(text)) {
		token, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || token <= last {
			t.Fatalf("%s: %q after %d, %v", filepath.Base(path), line, last, err)
		}
		last = token
		n++
	}
	if n != number {
		t.Errorf("%s: %d tokens, and counted to %d", filepath.Base(path), n, number)
	}
	return n
}

// A racingProcess is this program as a client of its own.
type racingProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	errs *strings.Builder
}

// racingVariable holds what a racing process needs to know, in fields.
const racingVariable = "SOLOIST_HISTORIES_RACE"

func startRacing(t *testing.T, about ...string) *racingProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), racingVariable+"="+strings.Join(about, " "))
	p := &racingProcess{cmd: cmd, errs: &strings.Builder{}}
	cmd.Stderr = p.errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a process that races: %v", err)
	}
	return p
}

// expect waits for a line of the process.
func (p *racingProcess) expect(t *testing.T, line string) {
	t.Helper()
	if !p.out.Scan() || p.out.Text() != line {
		_ = p.cmd.Wait()
		t.Fatalf("a process that races said %q, want %q:\n%s", p.out.Text(), line, p.errs)
	}
}

// begin lets it begin.
func (p *racingProcess) begin(t *testing.T) {
	t.Helper()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
}

// runRace is the main function of a process that races.
func runRace(about string) error {
	ctx, fields := context.Background(), strings.Fields(about)
	names, errName := strconv.Atoi(fields[2])
	callers, errCallers := strconv.Atoi(fields[3])
	if err := errors.Join(errName, errCallers); err != nil {
		return err
	}
	scheme, _, _ := strings.Cut(fields[0], ":")
	s, err := openRace[scheme](ctx, fields[0])
	if err != nil {
		return err
	}
	defer s.Close()
	if p, ok := store.As[store.Pinger](s); ok {
		if err := p.Ping(ctx); err != nil {
			return err
		}
	}
	// So long a lease ends in nobody's hand, however busy the machine is.
	client, err := soloist.New(s, soloist.Config{Replica: "racer" + fields[4], TTL: 10 * time.Minute})
	if err != nil {
		return err
	}
	defer client.Close()
	fmt.Println("ready")
	_, _ = io.ReadAll(os.Stdin)
	failed := make(chan error, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range winsPerRacer {
				if err := raceOnce(ctx, client, filepath.Join(fields[1], raceName(rand.IntN(names)))); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// raceOnce takes the name of a file, at once or after others, and adds one to the number in it.
func raceOnce(ctx context.Context, client *soloist.Client, path string) error {
	lease, err := client.TryLock(ctx, filepath.Base(path))
	for err != nil {
		if lease, err = client.Lock(ctx, filepath.Base(path)); err != nil && !errors.Is(err, store.ErrUnknown) {
			return err
		}
	}
	alone, err := os.OpenFile(path+".held", os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("somebody else is there: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	tokens, err := os.OpenFile(path+".tokens", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(tokens, lease.Token())
	if err := errors.Join(err, tokens.Close(), os.WriteFile(path, []byte(strconv.Itoa(n+1)), 0o600), alone.Close(), os.Remove(path+".held")); err != nil {
		return err
	}
	if err := lease.Release(); err != nil && !errors.Is(err, store.ErrUnknown) {
		return err
	}
	return nil
}

// migrateRace makes what a store needs.
func migrateRace(t *testing.T, to string) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "any") // the emulator of DynamoDB takes any
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	scheme, _, _ := strings.Cut(to, ":")
	s, err := openRace[scheme](t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if m, ok := store.As[store.Migrator](s); ok {
		if _, err := m.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
