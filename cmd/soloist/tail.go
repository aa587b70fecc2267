package main

import (
	"io"
	"sync"
)

// tailBytes is how much of what a command writes last is kept for its history.
const tailBytes = 2 << 10

// A tail keeps the end of what is written to it. It is safe for use by many goroutines.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// Write keeps the end of p. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p[max(0, len(p)-tailBytes):]...)
	if extra := len(t.last) - tailBytes; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(p), nil
}

// tee passes on to w what is written to it, and keeps the end.
func (t *tail) tee(w io.Writer) io.Writer { return io.MultiWriter(w, t) }

// text is what has been kept, as it may be shown.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cleaned(string(t.last))
}
