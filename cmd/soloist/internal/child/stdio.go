package child

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// drain is how long a pipe may be silent after the processes are gone: nobody known holds it any more.
	drain = time.Second
	// lastWords is how long it may take, after the processes are gone, to pass on some of what they have written, and how long an unknown process may write more.
	lastWords = 3 * time.Second
)

// stdio connects the three standard streams of a command.
type stdio struct {
	files  [3]*os.File // as the command inherits them
	theirs []*os.File  // to close once the command has them
	ours   []*os.File  // our ends of the output pipes
	input  *os.File    // our end of the input pipe, or nil
	copies []func() error

	ended  chan struct{} // the processes are gone
	passed atomic.Int64  // bytes of output, passed on
	wait   sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

func (c *Command) connect() (_ *stdio, err error) {
	s := &stdio{ended: make(chan struct{})}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	if s.files[0], err = s.reading(c.Stdin); err != nil {
		return nil, err
	}
	if s.files[1], err = s.writing(c.Stdout); err != nil {
		return nil, err
	}
	if same(c.Stdout, c.Stderr) {
		s.files[2] = s.files[1]
		return s, nil
	}
	s.files[2], err = s.writing(c.Stderr)
	return s, err
}

// same reports whether two writers are one; those whose types can't be compared are not.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

func (s *stdio) null(flag int) (*os.File, error) {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err == nil {
		s.theirs = append(s.theirs, f)
	}
	return f, err
}

func (s *stdio) reading(r io.Reader) (*os.File, error) {
	switch r := r.(type) {
	case nil:
		return s.null(os.O_RDONLY)
	case *os.File:
		return r, nil
	default:
		theirs, ours, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.theirs, s.input = append(s.theirs, theirs), ours
		return theirs, nil
	}
}

func (s *stdio) writing(w io.Writer) (*os.File, error) {
	switch w := w.(type) {
	case nil:
		return s.null(os.O_WRONLY)
	case *os.File:
		return w, nil
	default:
		ours, theirs, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.theirs, s.ours = append(s.theirs, theirs), append(s.ours, ours)
		s.copies = append(s.copies, func() error { return s.copyOut(w, ours) })
		return theirs, nil
	}
}

// run begins to copy, after the command has inherited its ends.
func (s *stdio) run(stdin io.Reader) {
	closeAll(s.theirs)
	for _, do := range s.copies {
		s.wait.Go(func() { s.note(do()) })
	}
	if s.input != nil {
		// Nobody waits for this one: a reader that blocks can't be interrupted. Closing the pipe ends it at the
		// next write.
		go func() {
			_, err := io.Copy(s.input, stdin)
			if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, fs.ErrClosed) {
				s.note(err)
			}
			_ = s.input.Close()
		}()
	}
}

// copyOut passes on what the command writes. When the processes are gone it goes on while something comes; a silence
// that is longer than drain means that an unknown process holds the pipe.
func (s *stdio) copyOut(w io.Writer, pipe *os.File) error {
	defer func() { _ = pipe.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		select {
		case <-s.ended:
			_ = pipe.SetReadDeadline(time.Now().Add(drain))
		default:
		}
		n, err := pipe.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) { // a busy machine may notice that before what is in the pipe
			n, err = readNow(pipe, buffer)
		}
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err // the pipe is closed, and the command told by SIGPIPE, as in a shell's pipeline
			}
			s.passed.Add(int64(n))
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// end waits for the copies, after the processes are gone: until what they have written is passed on, however long that takes, as long as some of it always is; and
// no longer than lastWords for what an unknown process writes.
func (s *stdio) end() error {
	close(s.ended)
	owed := s.passed.Load()
	for _, pipe := range s.ours {
		owed += inPipe(pipe)
	}
	for _, pipe := range s.ours {
		_ = pipe.SetReadDeadline(time.Now().Add(drain)) // for a read that waits already
	}
	if s.input != nil {
		_ = s.input.Close()
	}
	passedOn := make(chan struct{})
	go func() {
		s.wait.Wait()
		close(passedOn)
	}()
	if !allPassedOn(passedOn, s.passed.Load, owed) {
		s.note(ErrOutputHeld)
		closeAll(s.ours) // ends a copy that goes on; one whose Write does not return ends when that does
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// allPassedOn reports whether done is closed before a time of lastWords in which nothing is passed on, or nothing of what was owed.
func allPassedOn(done <-chan struct{}, passed func() int64, owed int64) bool {
	for before := int64(-1); ; {
		now := passed()
		if now == before || before >= owed {
			return false
		}
		if withinTurns(done, lastWords) {
			return true
		}
		before = now
	}
}

// withinTurns reports whether done is closed within limit. It waits in several turns, so that a time in which this
// process gets no processor does not count as more than one of them.
func withinTurns(done <-chan struct{}, limit time.Duration) bool {
	const turns = 6
	for range turns {
		select {
		case <-done:
			return true
		case <-time.After(limit / turns):
		}
	}
	return false
}

func (s *stdio) note(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// abandon closes everything of a command that was not started.
func (s *stdio) abandon() {
	closeAll(s.theirs)
	closeAll(s.ours)
	if s.input != nil {
		_ = s.input.Close()
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
