package pgstore

import (
	"bufio"
	"context"
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

	"github.com/soloist-dev/soloist/store"
)

// The test program plays another process when this is set, to "URL schema file n": one that counts, or for n = 0 one that takes a name
// and holds it until it is killed.
const roleVariable = "SOLOIST_PGSTORE_TEST_ROLE"

// play adds one to the number in a file, n times in each of 8 goroutines, under the lease of one name.
func play(role string) {
	part := strings.Fields(role)
	n, _ := strconv.Atoi(part[3])
	s, err := OpenURL(background, with(part[0], "schema", part[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if n == 0 {
		_, err := try(s, "name", "a", heldTTL)
		fmt.Println("took it:", err)
		select {}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range n {
				if err := addOne(s, part[2], fmt.Sprintf("process %d/%d/%d", os.Getpid(), i, k)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		})
	}
	wg.Wait()
	s.Close()
	os.Exit(0)
}

// addOne waits for the name as a client would: by a watch, and by a timer.
func addOne(s *Store, file, holder string) error {
	for {
		ctx, cancel := context.WithTimeout(background, time.Minute)
		w, err := s.Watch(ctx, []string{"counter"})
		if err != nil {
			cancel()
			return err
		}
		g, err := try(s, "counter", holder, time.Minute)
		if errors.Is(err, store.ErrHeld) {
			select {
			case <-w:
			case <-time.After(time.Second):
			}
			cancel()
			continue
		}
		cancel()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(string(text))
		if err == nil {
			err = os.WriteFile(file, []byte(strconv.Itoa(count+1)), 0o600)
		}
		if err != nil {
			return err
		}
		if err := tryRelease(s, store.Release{Name: "counter", Holder: holder, Token: g.Token}); err != nil {
			return err
		}
		return nil
	}
}

// By effect: processes change a plain number in a file under a lease, and no change is lost.
func TestProcesses(t *testing.T) {
	const processes, n = 3, 6
	s := fresh(t, server(t).URL)
	file := filepath.Join(t.TempDir(), "count")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d", roleVariable, server(t).URL, s.tables.schema, file, n))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	if text, err := os.ReadFile(file); err != nil || string(text) != strconv.Itoa(processes*8*n) {
		t.Errorf("the count is %s, %v; want %d", text, err, processes*8*n)
	}
}

const heldTTL = 600 * time.Millisecond

// A process is killed while it holds the name: it is free after the TTL, and not before, and the next is told.
func TestKilledProcesses(t *testing.T) {
	s := fresh(t, server(t).URL)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s - 0", roleVariable, server(t).URL, s.tables.schema))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "took it: <nil>\n" {
		t.Errorf("the process says %q", line)
	}
	begun := time.Now()
	first := recordOf(t, s, "name") // nothing may be left on a slow machine
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	var g store.Grant
	eventually(t, "the name is free", func() (free bool) {
		g, err = try(s, "name", "b", time.Minute)
		return err == nil
	})
	if took := time.Since(begun); took < first.Left-10*time.Millisecond || g.Token <= first.Token || g.ExpiredAge < heldTTL {
		t.Errorf("after %v: %+v", took, g)
	}
}
