//go:build unix

package child

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What is in the pipe is passed on although the deadline is noticed before it, as on a machine that is very busy.
func TestADeadlineLosesNoOutput(t *testing.T) {
	for name, held := range map[string]bool{"everybody has closed the pipe": false, "somebody holds the pipe": true} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = theirs.Close() }()
			text := bytes.Repeat([]byte("0123456789\n"), 4000) // more than one read takes
			if _, err := theirs.Write(text); err != nil {
				t.Fatal(err)
			}
			if !held {
				_ = theirs.Close()
			}
			if err := ours.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = (&stdio{ended: make(chan struct{})}).copyOut(&out, ours)
			if held != errors.Is(err, ErrOutputHeld) || !held && err != nil {
				t.Error(err)
			}
			if !bytes.Equal(out.Bytes(), text) {
				t.Errorf("%d bytes of %d were passed on", out.Len(), len(text))
			}
		})
	}
}

// A slow machine passes on all that was written before the processes were gone, and waits for nobody that passes on nothing, or for what is written afterwards.
func TestWhatIsOwedIsPassedOn(t *testing.T) {
	for name, test := range map[string]struct {
		each  time.Duration // how long one byte takes
		bytes int           // after which everybody has closed the pipe
		owed  int64
		all   bool
	}{
		"slow":                      {each: lastWords - time.Millisecond, bytes: 100, owed: 100, all: true},
		"stopped":                   {each: time.Hour, bytes: 100, owed: 100},
		"somebody goes on, quickly": {each: time.Millisecond, bytes: 1e6, owed: 100},
		"nothing is owed":           {each: lastWords - time.Millisecond, bytes: 100},
		"nothing comes":             {each: time.Hour, bytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var passed atomic.Int64
				done, stop := make(chan struct{}), make(chan struct{})
				defer close(stop)
				go func() {
					defer close(done)
					for range test.bytes {
						select {
						case <-time.After(test.each):
							passed.Add(1)
						case <-stop:
							return
						}
					}
				}()
				begun := time.Now()
				if all := allPassedOn(done, passed.Load, test.owed); all != test.all {
					t.Errorf("all is passed on: %v after %v and %d bytes, want %v", all, time.Since(begun), passed.Load(), test.all)
				}
				if took := time.Since(begun); !test.all && took > 2*lastWords {
					t.Errorf("waited for %v, want at most %v", took, 2*lastWords)
				}
			})
		})
	}
}

// The kernel knows how much is in a pipe.
func TestInPipe(t *testing.T) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	if _, err := theirs.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	if n := inPipe(ours); n != 5 && runtime.GOOS == "linux" {
		t.Errorf("%d bytes, want 5", n)
	}
}
