package sqlitestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// The tests with several processes start the test binary again in a role.
const (
	roleVariable = "SQLITESTORE_TEST_ROLE"
	pathVariable = "SQLITESTORE_TEST_PATH"
)

var roles = map[string]func(path string) error{
	"count": count, "loop": loop, "open": openOnce,
}

func play(role string) {
	if err := roles[role](os.Getenv(pathVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is the test binary in a role; wrap is a command that starts it, if any.
func process(t testing.TB, role, path string, wrap ...string) *osexec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(wrap, exe)
	cmd := osexec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

const rounds = 500

// count increments a plain file under the lock, and prints the tokens.
func count(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range rounds {
		token, err := lock(s, "counter", fmt.Sprintf("%d/%d", os.Getpid(), i), time.Minute)
		if err != nil {
			return err
		}
		if err := increment(path + ".count"); err != nil {
			return err
		}
		fmt.Println(token)
		if err := tryRelease(s, store.Release{Name: "counter", Holder: fmt.Sprintf("%d/%d", os.Getpid(), i), Token: token}); err != nil {
			return err
		}
	}
	return nil
}

func increment(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strconv.Itoa(n+1)), 0o600)
}

// lock waits for a name as the client does: by watch, and by what the refusal says is left.
func lock(s *Store, name, holder string, ttl time.Duration) (int64, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wake, err := s.Watch(ctx, []string{name})
	if err != nil {
		return 0, err
	}
	for {
		g, err := try(s, name, holder, ttl)
		var held *store.HeldError
		if !errors.As(err, &held) {
			return g.Token, err
		}
		select {
		case <-wake:
		case <-time.After(held.Record.Left):
		}
	}
}

func TestProcesses(t *testing.T) {
	path := newPath(t)
	if err := os.WriteFile(path+".count", []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const n = 4
	var wg sync.WaitGroup
	tokens := make([][]int64, n)
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			out, err := process(t, "count", path).Output()
			if err != nil {
				t.Errorf("process %d: %v", i, err)
			}
			for _, word := range strings.Fields(string(out)) {
				token, _ := strconv.ParseInt(word, 10, 64)
				tokens[i] = append(tokens[i], token)
			}
		})
	}
	wg.Wait()
	t.Logf("%d locks by %d processes in %v", n*rounds, n, time.Since(start))
	if text, _ := os.ReadFile(path + ".count"); string(text) != strconv.Itoa(n*rounds) {
		t.Errorf("the counter stands at %s after %d increments under the lock", text, n*rounds)
	}
	seen := map[int64]bool{}
	for i := range tokens {
		for j, token := range tokens[i] {
			if seen[token] || j > 0 && token <= tokens[i][j-1] {
				t.Errorf("process %d was given token %d after %d others", i, token, j)
			}
			seen[token] = true
		}
	}
	sound(t, path)
}

const deadTTL = 300 * time.Millisecond

// loop takes and releases a few names until it is killed, and prints name and token of each grant.
func loop(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		name, holder := fmt.Sprint("name-", i%3), fmt.Sprintf("%d/%d", os.Getpid(), i)
		token, err := lock(s, name, holder, deadTTL)
		if err != nil {
			return err
		}
		fmt.Println(name, token)
		r := store.Release{Name: name, Holder: holder, Token: token, State: make([]byte, i%5*1000)}
		if err := tryRelease(s, r); err != nil && !errors.Is(err, store.ErrLost) {
			return err
		}
	}
}

func TestKilledProcesses(t *testing.T) {
	path := newPath(t)
	var mu sync.Mutex
	grants := map[string]map[string]bool{}
	kills, doubles := 0, 0
	read := func(out io.Reader) {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			name, token, ok := strings.Cut(lines.Text(), " ")
			mu.Lock()
			if grants[name] == nil {
				grants[name] = map[string]bool{}
			}
			if ok && grants[name][token] {
				doubles++
			}
			grants[name][token] = true
			mu.Unlock()
		}
	}
	total := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, tokens := range grants {
			n += len(tokens)
		}
		return n
	}
	for range 8 {
		var wg sync.WaitGroup
		before := total()
		var pair []*osexec.Cmd
		for range 2 {
			cmd := process(t, "loop", path)
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			pair = append(pair, cmd)
			wg.Go(func() { read(out) })
		}
		eventually(t, "locks are being taken", func() bool { return total() > before+40 })
		for _, cmd := range pair {
			cmd.Process.Kill()
			kills++
		}
		wg.Wait()
		for _, cmd := range pair {
			cmd.Wait()
		}
	}
	if doubles > 0 {
		t.Errorf("%d tokens were given twice", doubles)
	}
	t.Logf("%d kills, %d locks", kills, total())
	sound(t, path)
	s := openAt(t, path)
	for i := range 3 {
		start := time.Now()
		if _, err := lock(s, fmt.Sprint("name-", i), "heir", time.Minute); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > servers.Patience {
			t.Errorf("taking over the name of a dead process took %v", took)
		}
	}
}

// openOnce opens a file, takes its own name, and goes.
func openOnce(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	if _, err := try(s, strconv.Itoa(os.Getpid()), "holder", time.Hour); err != nil {
		return err
	}
	return s.Close()
}

func TestProcessesMakeTheFile(t *testing.T) {
	for range 5 {
		path := newPath(t)
		const n = 4
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				if err := process(t, "open", path).Run(); err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		s := openAt(t, path)
		names := 0
		for r, err := range s.List(context.Background(), "") {
			if err != nil || r.Free() {
				t.Errorf("%+v, %v", r, err)
			}
			names++
		}
		if names != n {
			t.Errorf("%d names were taken and %d are there", n, names)
		}
	}
}

func TestGoroutinesMakeTheFile(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "leases.db")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := try(s, "name", "same", time.Hour); err != nil {
					t.Error(err)
				}
				s.Close()
			})
		}
		wg.Wait()
	}
}
