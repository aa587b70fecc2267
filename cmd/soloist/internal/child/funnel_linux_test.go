package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A gate is a writer that takes nothing before it is opened.
type gate struct {
	open chan struct{}
	buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.buffer.Write(p)
}

// Who writes to a funnel that nobody reads goes on, and what is lost is counted to the line.
func TestFunnelThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		defer close(g.open)
		told := make(chan error, 8)
		f := NewFunnel(g, func(err error) { told <- err })
		line := strings.Repeat("x", 1023) + "\n"
		var all sync.WaitGroup
		begin := time.Now()
		const streams, lines = 8, 4 * funnelSize / 1024 / 8
		for range streams {
			all.Go(func() {
				s := f.Stream(nil)
				for range lines {
					_, _ = io.WriteString(s, line)
				}
				s.Close()
			})
		}
		all.Wait()
		if took := time.Since(begin); took != stall {
			t.Errorf("the writers were held up for %v", took)
		}
		var lost *LostError
		if err := f.Close(time.Hour); !errors.As(err, &lost) || lost.Lines != streams*lines || lost.Bytes != 1024*streams*lines || !errors.Is(err, ErrStalled) {
			t.Errorf("lost: %v", err)
		}
		if err := <-told; !errors.Is(err, ErrStalled) || len(told) > 0 {
			t.Errorf("told %v, and %d more", err, len(told))
		}
	})
}

// A slow reader gets everything.
func TestFunnelWithASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := NewFunnel(writerFunc(func(p []byte) (int, error) {
			time.Sleep(stall / 2)
			return out.Write(p)
		}), nil)
		const lines = 100
		for i := range lines {
			_, _ = fmt.Fprintf(f, "%0*d\n", funnelSize/10, i)
		}
		if err := f.Close(time.Hour); err != nil {
			t.Error(err)
		}
		if n := bytes.Count(out.Bytes(), []byte{'\n'}); n != lines {
			t.Errorf("%d lines of %d", n, lines)
		}
	})
}

// A writer that fails is asked again at the next line. That lines begin to be lost is told each time that it begins anew.
func TestFunnelWhoseWriterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		fail := true
		told := make(chan error, 8)
		f := NewFunnel(writerFunc(func(p []byte) (int, error) {
			if fail = !fail; !fail {
				return 0, syscall.ENOSPC
			}
			return out.Write(p)
		}), func(err error) { told <- err })
		for i := range 6 {
			_, _ = fmt.Fprintln(f, i)
		}
		var lost *LostError
		if err := f.Close(patience); !errors.As(err, &lost) || lost.Lines != 3 || !errors.Is(err, syscall.ENOSPC) || out.String() != "1\n3\n5\n" {
			t.Errorf("%v, wrote %q", err, out.String())
		}
		if synctest.Wait(); len(told) != 3 {
			t.Errorf("told %d times that lines begin to be lost, want 3", len(told))
		}
	})
}

// The end has a bound also with a reader that is slow forever.
func TestFunnelClosesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFunnel(writerFunc(func(p []byte) (int, error) {
			time.Sleep(stall / 2)
			return len(p), nil
		}), nil)
		for range 100 {
			_, _ = io.WriteString(f, "x\n")
		}
		begin := time.Now()
		var lost *LostError
		if err := f.Close(5 * stall); !errors.As(err, &lost) || time.Since(begin) != 5*stall || lost.Lines < 89 || lost.Lines > 91 {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		time.Sleep(100 * stall)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The output of a command that nobody reads, or that cannot be written, is no matter of the command's.
func TestOutputThatCannotBeWritten(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	stopped, err := os.OpenFile(fifo, os.O_RDWR, 0) // nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stopped.Close() }()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	read, broken, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	defer func() { _ = broken.Close() }()
	for name, w := range map[string]*os.File{"a full disk": full, "a broken pipe": broken, "a reader that has stopped": stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFunnel(w, nil)
			out := f.Stream(Clean)
			r := begin(t, Command{Args: sh("seq 1000000; echo end >$1", inTemp(t, "end")), Stdout: out, Stderr: out})
			if result := r.wait(t); r.err != nil || result.Code != 0 || !result.Ran {
				t.Errorf("%+v, %v", result, r.err)
			}
			var lost *LostError
			if err := f.Close(patience); !errors.As(err, &lost) || lost.Lines < 900000 {
				t.Errorf("lost: %v", err)
			}
		})
	}
}

// A writer that blocks forever does not keep Run.
func TestRunDoesNotWaitForItsWriter(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	r := begin(t, Command{Args: sh("echo one; exit 3"), Stdout: g})
	if result := r.wait(t); result.Code != 3 || !errors.Is(r.err, ErrOutputHeld) {
		t.Errorf("%+v, %v", result, r.err)
	}
	close(g.open)
}
