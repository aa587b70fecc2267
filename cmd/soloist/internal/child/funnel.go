package child

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// stall is how long the writer of a funnel may take nothing before lines are lost rather than waited with.
	stall = 2 * time.Second
	// funnelSize is how many bytes a funnel keeps for its writer, unless one line is longer.
	funnelSize = 1 << 20
)

// A Funnel passes on lines, of any number of streams, to one writer. A line is written in one call, so lines of
// different streams never mix, also when the writer is shared with others that do the same.
//
// A slow writer slows the streams down. One that has taken nothing for 2 s, such as a pipe that nobody reads, holds
// nobody up: lines are lost until it takes something again, and so are lines that it refuses. They are counted.
type Funnel struct {
	w      io.Writer
	losing func(error)

	mu      sync.Mutex
	queue   [][]byte
	size    int           // of the queue, in bytes
	writing bool          // a goroutine writes
	moved   time.Time     // when the writer last took something, or was given something while it had nothing to do
	changed chan struct{} // closed when the writer has taken something
	failing bool          // the last line was lost
	lost    LostError
}

// A LostError says how much a funnel could not pass on.
type LostError struct {
	Lines, Bytes int64
	Err          error // of the last one
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%d lines (%d bytes) of output are lost: %v", e.Lines, e.Bytes, e.Err)
}

// Unwrap returns why the last line was lost.
func (e *LostError) Unwrap() error { return e.Err }

// ErrStalled reports that nobody takes what is written.
var ErrStalled = errors.New("nobody reads it")

// NewFunnel returns a funnel that writes to w. losing, if not nil, is called when lines begin to be lost, in its own
// goroutine.
func NewFunnel(w io.Writer, losing func(error)) *Funnel {
	return &Funnel{w: w, losing: losing, changed: make(chan struct{})}
}

// Write passes on p, which is one or more whole lines. It never fails.
func (f *Funnel) Write(p []byte) (int, error) {
	f.put(append([]byte(nil), p...))
	return len(p), nil
}

// put queues a line, which is the funnel's from then on.
func (f *Funnel) put(line []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.size > 0 && f.size+len(line) > funnelSize {
		if !f.await(stall) {
			f.lose(line, ErrStalled)
			return
		}
	}
	f.queue = append(f.queue, line)
	f.size += len(line)
	if !f.writing {
		f.writing, f.moved = true, time.Now()
		go f.write()
	}
}

// await waits until the writer has taken something. It reports false if the writer has taken nothing for patience. f.mu
// is held, but not while it waits.
func (f *Funnel) await(patience time.Duration) bool {
	left := patience - time.Since(f.moved)
	if left <= 0 {
		return false
	}
	changed := f.changed
	f.mu.Unlock()
	defer f.mu.Lock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
	return true
}

// write writes what is queued.
func (f *Funnel) write() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) > 0 {
		line := f.queue[0]
		f.mu.Unlock()
		_, err := f.w.Write(line)
		f.mu.Lock()
		f.queue[0] = nil
		f.queue = f.queue[1:]
		f.size -= len(line)
		f.moved = time.Now()
		if err != nil {
			f.lose(line, err)
		} else {
			f.failing = false
		}
		close(f.changed)
		f.changed = make(chan struct{})
	}
	f.queue, f.writing = nil, false
}

// lose counts a line that is lost. f.mu is held.
func (f *Funnel) lose(line []byte, why error) {
	f.lost.Lines++
	f.lost.Bytes += int64(len(line))
	f.lost.Err = why
	if !f.failing && f.losing != nil {
		go f.losing(why)
	}
	f.failing = true
}

// Close waits until everything is written, or the writer has taken nothing for 2 s, but not longer than within. It
// returns a *LostError that counts all that was lost, nil if nothing was. What is written after it is lost uncounted.
func (f *Funnel) Close(within time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for end := time.Now().Add(within); len(f.queue) > 0; {
		if !f.await(min(stall, time.Since(f.moved)+time.Until(end))) {
			for _, line := range f.queue {
				f.lose(line, ErrStalled)
			}
			break
		}
	}
	if f.lost.Lines == 0 {
		return nil
	}
	lost := f.lost
	return &lost
}
