package redisstore_test

import (
	"bufio"
	"errors"
	"fmt"
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
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// The tests with several processes start the test binary again, with TestProcessInARole alone, which has its role from the environment.
const (
	roleVariable = "REDISSTORE_TEST_ROLE"
	urlVariable  = "REDISSTORE_TEST_AT"
	fileVariable = "REDISSTORE_TEST_FILE"
)

const rounds = 200 // of a process that counts

func TestProcessInARole(t *testing.T) {
	role := os.Getenv(roleVariable)
	if role == "" {
		return // it is for the processes of other tests
	}
	s, err := redisstore.OpenURL(background, os.Getenv(urlVariable))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := soloist.New(s, soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	switch role {
	case "count":
		for range rounds {
			lease, err := c.Lock(background, "counter")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println("token", lease.Token())
			err = increment(os.Getenv(fileVariable))
			if err = errors.Join(err, lease.Release()); err != nil {
				t.Fatal(err)
			}
		}
	case "hold":
		outs, err := s.Acquire(background, []store.Claim{{Name: "held", Holder: "a process that dies", TTL: 2 * time.Second}})
		if err != nil || outs[0].Err != nil {
			t.Fatal(err, outs)
		}
		fmt.Println("token", outs[0].Grant.Token)
		select {} // until it is killed
	}
}

// increment adds one to the number in a file, as carelessly as can be.
func increment(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

func process(t *testing.T, role, url, file string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestProcessInARole$")
	cmd.Env = append(os.Environ(), roleVariable+"="+role, urlVariable+"="+url, fileVariable+"="+file)
	cmd.Stderr = os.Stderr
	return cmd
}

// tokensIn returns the tokens that a process has printed.
func tokensIn(out []byte) (tokens []int64) {
	for line := range strings.Lines(string(out)) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "token "); is {
			token, _ := strconv.ParseInt(text, 10, 64)
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// By effect: processes that increment a plain number under the lock lose no increment.
func TestProcesses(t *testing.T) {
	for kind, url := range map[string]string{"one server": shared(t).URL, "cluster": sharedCluster(t).URL} {
		t.Run(kind, func(t *testing.T) {
			at, file := fresh(t, url), filepath.Join(t.TempDir(), "count")
			if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
				t.Fatal(err)
			}
			const n = 4
			var wg sync.WaitGroup
			tokens := make([][]int64, n)
			for i := range n {
				wg.Go(func() {
					out, err := process(t, "count", at, file).Output()
					if err != nil {
						t.Errorf("process %d: %v\n%s", i, err, out)
					}
					tokens[i] = tokensIn(out)
				})
			}
			wg.Wait()
			if text, _ := os.ReadFile(file); string(text) != strconv.Itoa(n*rounds) {
				t.Errorf("the number is %s after %d increments under the lock", text, n*rounds)
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
			if len(seen) != n*rounds {
				t.Errorf("%d tokens were told, want %d", len(seen), n*rounds)
			}
		})
	}
}

// The name of a holder that was killed comes free with its lease, and the one that takes it is told that it was abandoned.
func TestKilledHolder(t *testing.T) {
	server := shared(t)
	at := fresh(t, server.URL)
	cmd := process(t, "hold", at, "")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	tokens := tokensIn([]byte(line))
	if err != nil || len(tokens) != 1 {
		t.Fatalf("the process said %q, %v", line, err)
	}
	s := open(t, at)
	var grant store.Grant
	repeated(t, "the name comes free", func() error {
		out := acquire(t, s, "held", "next")
		grant = out.Grant
		return out.Err
	})
	if grant.Token <= tokens[0] || grant.ExpiredAge < 2*time.Second {
		t.Errorf("after a holder with token %d was killed: %+v", tokens[0], grant)
	}
}

// What happens when the server was let evict records: the holder is told that the lease is lost, and tokens go on to grow.
func TestEvictionIsNoticed(t *testing.T) {
	server := servers.Redis(t, "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-random")
	admin := plainClient(t, server.URL)
	s := open(t, server.URL)
	r := take(t, s, "name", "a")
	record := "{soloist:0}:r:name"
	for i := 0; admin.Exists(t.Context(), record).Val() == 1; i++ {
		if i > 1_000_000 {
			t.Fatal("nothing was evicted")
		}
		pipe := admin.Pipeline()
		for k := range 100 {
			pipe.Set(t.Context(), fmt.Sprintf("junk %d/%d", i, k), strings.Repeat("x", 1000), 0)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := extend(s, r); !errors.Is(err, store.ErrLost) {
		t.Errorf("extending a lease that was evicted: %v", err)
	}
	if next := take(t, s, "name", "b"); next.Token <= r.Token {
		t.Errorf("token %d after %d", next.Token, r.Token)
	}
}
