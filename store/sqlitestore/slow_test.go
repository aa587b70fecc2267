package sqlitestore

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A release that is decided while its lease is live, and committed when that would have ended, has kept the name for its holder.
func TestReleaseThatCommitsSlowly(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s, other := openWith(t, path, h.clocks()), openWith(t, path, h.clocks())
	other.patience = 20 * time.Millisecond
	r := take(t, s, "x", "a", time.Minute)
	r.Mark = 7
	must(t, s.writing.take(background))
	err := s.write(background, s.file, func(tx *tx) error {
		done, err := tx.do(ending(r))
		if err != nil || !done {
			t.Errorf("the release: %t, %v", done, err)
		}
		h.pass(time.Hour) // while it is written to the disk
		if seen := recordOf(t, other, "x"); !seen.Free() || seen.Mark != 0 {
			t.Errorf("the record looks like %+v to others", seen)
		}
		if _, err := try(other, "x", "b", time.Minute); !errors.Is(err, errBusy) {
			t.Errorf("before the release is committed another is told %v", err)
		}
		return err
	})
	s.writing.give()
	if err != nil {
		t.Errorf("the release answers %v", err)
	}
	g, err := try(other, "x", "b", time.Minute)
	if err != nil || g.ExpiredAge != 0 || g.Mark != 7 {
		t.Errorf("the next grant is %+v, %v; want one that knows of the release", g, err)
	}
	if err := tryRelease(s, r); !errors.Is(err, store.ErrLost) {
		t.Errorf("a release of a lease that has gone to another: %v", err)
	}
}
