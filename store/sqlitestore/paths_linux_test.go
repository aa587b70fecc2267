package sqlitestore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

func init() {
	roles["hold"], roles["look"] = holdOne, lookOnce
}

// holdOne takes a name for a time that the environment says, and then asks for another whenever it is told to.
func holdOne(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	ttl, err := time.ParseDuration(os.Getenv("SQLITESTORE_TEST_TTL"))
	if err != nil {
		return err
	}
	if _, err := try(s, "held", "holder", ttl); err != nil {
		return err
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		_, err := try(s, "other", "holder", time.Hour)
		fmt.Printf("answer: %q\n", fmt.Sprint(err))
	}
	return s.Close()
}

// lookOnce opens a file as one that does not wait, and asks for what holdOne has.
func lookOnce(path string) error {
	s, err := impatient(path)
	if err == nil {
		defer s.Close()
		_, err = try(s, "held", "looker", time.Minute)
	}
	fmt.Println(err)
	return nil
}

// impatient opens a file, and does not wait for others to let go of it.
func impatient(path string) (*Store, error) {
	s, err := newStore(path)
	if err != nil {
		return nil, err
	}
	s.patience = 50 * time.Millisecond
	return s, s.start()
}

// A helper is a process in the role of holdOne.
type helper struct {
	t   *testing.T
	cmd *osexec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startHelper(t *testing.T, path string, ttl time.Duration) *helper {
	t.Helper()
	h := &helper{t: t, cmd: process(t, "hold", path)}
	h.cmd.Env = append(h.cmd.Env, "SQLITESTORE_TEST_TTL="+ttl.String())
	in, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	h.in, h.out = in, bufio.NewReader(out)
	t.Cleanup(h.kill)
	if line := h.line(); line != "ready" {
		t.Fatalf("the other process says %q", line)
	}
	return h
}

func (h *helper) line() string {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.t.Fatalf("the other process has ended: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// ask has the other process make a call, and returns what came of it.
func (h *helper) ask() string {
	h.t.Helper()
	fmt.Fprintln(h.in, "ask")
	return h.line()
}

func (h *helper) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// looked returns what a new process finds at a path.
func looked(t *testing.T, path string, wrap ...string) string {
	t.Helper()
	out, err := process(t, "look", path, wrap...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Beside each name of a file SQLite keeps a log, so that those who use the one do not see the leases of the others.
func TestHardLink(t *testing.T) {
	path := newPath(t)
	link := filepath.Join(t.TempDir(), "link.db")
	s := openAt(t, path)
	take(t, s, "x", "a", time.Hour)
	must(t, os.Link(path, link))
	_, err := Open(link)
	says(t, err, link, "2 names", path+" by process ", "delete the other")
	if !errors.Is(err, store.ErrUnusable) {
		t.Errorf("it is not store.ErrUnusable: %v", err)
	}
	if _, err := try(s, "x", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("the lease is %v for those who had the file open", err)
	}
	s.Close()
	untouched(t, path, "2 names")
	untouched(t, link, "2 names")
	must(t, os.Remove(link))
	if _, err := try(openAt(t, path), "x", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("the lease is %v when the link is gone", err)
	}
}

func TestFileMountedByItself(t *testing.T) {
	path, other := newPath(t), newPath(t)
	s := openAt(t, path)
	take(t, s, "held", "a", time.Hour)
	must(t, os.WriteFile(other, nil, 0o600))
	unshare := servers.Program(t, "unshare, of util-linux", "unshare")
	mount := func(target string) []string {
		return []string{unshare, "--mount", "sh", "-c", `mount --bind "$1" "$2" && shift 2 && exec "$@"`, "sh", target, ""}
	}
	wrap := mount(path)
	wrap[len(wrap)-1] = other
	if found := looked(t, other, wrap...); !strings.Contains(found, other) || !strings.Contains(found, path) || !strings.Contains(found, "by itself") {
		t.Errorf("a file that is mounted by itself: %s", found)
	}
	// A directory that is mounted elsewhere has the log in it.
	dir := t.TempDir()
	wrap = mount(filepath.Dir(path))
	wrap[len(wrap)-1] = dir
	if found := looked(t, filepath.Join(dir, filepath.Base(path)), wrap...); !strings.Contains(found, `"held" is held by a`) {
		t.Errorf("a directory that is mounted elsewhere: %s", found)
	}
}

// A file that is moved while it is in use leaves its log behind: who opens it at its new place would not see what is in that.
func TestMovedInUse(t *testing.T) {
	path := newPath(t)
	h := startHelper(t, path, time.Hour)
	moved := filepath.Join(filepath.Dir(path), "moved.db")
	must(t, os.Rename(path, moved))
	if found := looked(t, moved); !strings.Contains(found, "by one path") || !strings.Contains(found, moved+" by process") {
		t.Errorf("a file that was moved: %s", found)
	}
	must(t, os.Rename(moved, path))
	if found := looked(t, path); !strings.Contains(found, `"held" is held by holder`) {
		t.Errorf("a file that was moved back: %s", found)
	}
	if found := h.ask(); !strings.Contains(found, "nil") {
		t.Errorf("the process that has it open: %s", found)
	}
}

// Who opens a file whose log has been deleted waits until those who have the log open have brought it into the file.
func TestDeletedLogOfAnIdleProcess(t *testing.T) {
	path := newPath(t)
	h := startHelper(t, path, time.Hour)
	must(t, os.Remove(path+"-wal"), os.Remove(path+"-shm"))
	if found := looked(t, path); !strings.Contains(found, "in use") {
		t.Errorf("while a process has the deleted log open: %s", found)
	}
	if found := h.ask(); !strings.Contains(found, "nil") {
		t.Errorf("the process that had the log open: %s", found)
	}
	if found := looked(t, path); !strings.Contains(found, `"held" is held by holder`) {
		t.Errorf("after that: %s", found)
	}
	h.kill()
	sound(t, path)
}

// What is in a deleted log is brought into the file by the first process that lets go of it, also when one that waits has made an empty log in its place: the
// others may be killed before they do so.
func TestDeletedLogIsRescuedBesideAnEmptyOne(t *testing.T) {
	path := newPath(t)
	h := startHelper(t, path, time.Hour)
	s := openAt(t, path)
	mine := take(t, s, "mine", "a", time.Hour)
	must(t, os.Remove(path+"-wal"), os.Remove(path+"-shm"))
	write(t, path+"-wal", "")
	s.file.lookAt.Store(-1)
	s.patience = time.Millisecond
	_, err := try(s, "mine", "b", time.Hour)
	says(t, err, "in use")
	h.kill()
	eventually(t, "the file can be opened", func() bool {
		_, err = try(s, "held", "b", time.Hour)
		return !errors.Is(err, errElsewhere)
	})
	if !errors.Is(err, store.ErrHeld) {
		t.Errorf("what the killed process holds is %v for another", err)
	}
	release(t, s, mine)
	sound(t, path)
}

// backup makes a copy of a file as it should be made.
func backup(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "backup.db")
	db := raw(t, path)
	exec(t, db, "VACUUM INTO '"+to+"'")
	must(t, db.Close()) // it would count as one more that has the file open
	return to
}

// grow writes so much that file and log differ from a backup in many pages.
func grow(t *testing.T, s *Store, prefix string) {
	t.Helper()
	for i := range 30 {
		r := take(t, s, fmt.Sprint(prefix, i), "a", time.Hour)
		r.State = make([]byte, 3000)
		release(t, s, r)
	}
}

// The log of a file is never applied to a backup that is put in its place while processes use it.
func TestBackupPutInPlaceOfAFileInUse(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("the other process is killed: %t", killed), func(t *testing.T) {
			path := newPath(t)
			s := openAt(t, path)
			s.patience = 50 * time.Millisecond
			h := startHelper(t, path, time.Millisecond)
			grow(t, s, "before-")
			old := backup(t, path)
			grow(t, s, "after-")
			must(t, os.Rename(old, path))
			if found := looked(t, path); !strings.Contains(found, "lay here before") {
				t.Errorf("a new process: %s", found)
			}
			_, err := try(s, "after-1", "b", time.Hour)
			says(t, err, path, "lay here before", "stop that process")
			if killed {
				h.kill()
			} else if found := h.ask(); !strings.Contains(found, "nil") {
				t.Errorf("the last process that has the old file open: %s", found)
			}
			if g, err := try(s, "before-1", "b", time.Hour); err != nil || len(g.State) != 3000 {
				t.Errorf("what is in the backup: %v, a state of %d bytes", err, len(g.State))
			}
			if g, err := try(s, "after-1", "b", time.Hour); err != nil || len(g.State) != 0 {
				t.Errorf("what is not in the backup: %v, a state of %d bytes", err, len(g.State))
			}
			grow(t, s, "new-")
			h.kill()
			s.Close()
			if _, beside := contents(t, path); beside != "leases.db " {
				t.Errorf("beside the file there is %s", beside)
			}
			sound(t, path)
		})
	}
}

// While leases of a deleted file live, those who have it open keep it, so that nobody makes a new one beside its log, and can have it back.
func TestNobodyMakesANewFileWhileLeasesLive(t *testing.T) {
	s := openAt(t, newPath(t))
	mine := take(t, s, "mine", "a", time.Hour)
	away := s.path + ".away"
	must(t, os.Rename(s.path, away))
	_, err := try(s, "mine", "b", time.Hour)
	says(t, err, s.path, "deleted", "put it back")
	_, err = impatient(s.path)
	says(t, err, s.path, "lay here before")
	must(t, os.Rename(away, s.path))
	if _, err := try(s, "mine", "b", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("in the file that was put back the lease is %v", err)
	}
	release(t, s, mine)
}

// Without the file its log is of no use, and does not keep a new one from being made.
func TestDeletedFileAlone(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path)
	grow(t, s, "x-")
	must(t, os.Remove(path))
	_, err := try(s, "x-1", "b", time.Hour)
	says(t, err, path, "deleted")
	if g := take(t, s, "x-1", "b", time.Hour); g.Token == 0 {
		t.Error("no token")
	}
	grow(t, s, "y-")
	s.Close()
	sound(t, path)
}
