package sqlitestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestAnotherProgramHoldsTheFile(t *testing.T) {
	s := openAt(t, newPath(t))
	s.patience = 100 * time.Millisecond
	held := take(t, s, "held", "a", time.Hour)
	db := raw(t, s.path)
	exec(t, db, "BEGIN IMMEDIATE")

	_, err := try(s, "name", "a", time.Hour)
	says(t, err, s.path, "kept the file locked")
	if errors.Is(err, store.ErrUnknown) {
		t.Errorf("%v: but nothing can have happened", err)
	}
	says(t, tryRelease(s, held), s.path, "kept the file locked")
	if _, err := try(s, "held", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a refusal takes no lock, but waits for one: %v", err)
	}

	s.patience = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, claim("name", "a", time.Hour))
		done <- err
	}()
	eventually(t, "the call has its turn", func() bool { return len(s.writing) == 1 })
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("cancelled while waiting for the file: %v", err)
		}
	case <-time.After(servers.Patience):
		t.Fatal("a call that waits for the file does not heed its context")
	}
	go func() {
		_, err := try(s, "name", "a", time.Hour)
		done <- err
	}()
	exec(t, db, "COMMIT")
	if err := <-done; err != nil {
		t.Errorf("after the other has let go: %v", err)
	}
	release(t, s, held)
}

func TestCloseEndsWaiting(t *testing.T) {
	s := openAt(t, newPath(t))
	s.patience = time.Hour
	exec(t, raw(t, s.path), "BEGIN IMMEDIATE")
	done := make(chan error, 1)
	go func() {
		_, err := try(s, "name", "a", time.Hour)
		done <- err
	}()
	eventually(t, "the call has its turn", func() bool { return len(s.writing) == 1 })
	s.Close()
	if err := <-done; !errors.Is(err, store.ErrClosed) {
		t.Errorf("a call that waits for the file's lock answers %v", err)
	}
}

// A caller that opens while another keeps the file locked, to make it or to rebase it, waits too.
func TestOpenWaits(t *testing.T) {
	path := newPath(t)
	write(t, path, "")
	db := raw(t, path)
	exec(t, db, "BEGIN EXCLUSIVE")
	s, err := newStore(path)
	if err != nil {
		t.Fatal(err)
	}
	s.patience = 50 * time.Millisecond
	err = refused(s.start())
	says(t, err, path, "kept the file locked")
	if errors.Is(err, store.ErrUnusable) {
		t.Errorf("%v: but it can be opened when the other has let go", err)
	}
	exec(t, db, "COMMIT")
	db.Close()
	openAt(t, path)
}

// A file that is put in the place of another is given the greatest token of that one when the program that has it locked lets go.
func TestReplacingFileIsLocked(t *testing.T) {
	s := openAt(t, newPath(t))
	s.floor.Store(s.floor.Load() + 1)
	s.patience = 50 * time.Millisecond
	db := raw(t, s.path)
	exec(t, db, "BEGIN IMMEDIATE")
	s.file.spoil()
	says(t, s.Ping(background), s.path, "kept the file locked")
	exec(t, db, "COMMIT")
	must(t, s.Ping(background))
}
