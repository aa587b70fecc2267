//go:build unix

package child

import (
	"bytes"
	"errors"
	"os"
	"testing"
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
