package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A fakeHost has the clocks of a host, to be set at will.
type fakeHost struct {
	boot         string
	uptime, wall time.Duration // the latter since 1970
}

func (h *fakeHost) clocks() clocks {
	wall := func() int64 { return int64(h.wall) }
	return clocks{
		host: &clock{bootClock, h.boot, func() int64 { return int64(h.uptime) }, wall},
		wall: &clock{wallClock, "", wall, wall},
	}
}

func (h *fakeHost) pass(d time.Duration) { h.uptime += d; h.wall += d }

func openWith(t testing.TB, path string, c clocks) *Store {
	t.Helper()
	s, err := tryOpenWith(t, path, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tryOpenWith(t testing.TB, path string, c clocks) (*Store, error) {
	t.Helper()
	s, err := newStore(path)
	if err != nil {
		t.Fatal(err)
	}
	s.clocks = c
	t.Cleanup(func() { s.Close() })
	return s, s.start()
}

func recordOf(t testing.TB, s *Store, name string) store.Record {
	t.Helper()
	for r, err := range s.List(context.Background(), name) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("there is no record of %q", name)
	return store.Record{}
}

func TestWallClockStepsMoveNoLease(t *testing.T) {
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, newPath(t), h.clocks())
	r := take(t, s, "name", "a", time.Minute)
	if r.Token != h.wall.Microseconds() {
		t.Errorf("the first token is %d at %d microseconds", r.Token, h.wall.Microseconds())
	}
	for _, step := range []time.Duration{48 * time.Hour, -100 * time.Hour} {
		h.wall += step
		if left := recordOf(t, s, "name").Left; left != time.Minute {
			t.Errorf("after a step of %v %v are left of a minute", step, left)
		}
		if _, err := try(s, "name", "b", time.Minute); !errors.Is(err, store.ErrHeld) {
			t.Errorf("after a step of %v a second holder gets %v", step, err)
		}
	}
	h.uptime += time.Minute
	again := take(t, s, "name", "b", time.Minute)
	if again.Token <= r.Token {
		t.Errorf("token %d follows %d after the wall clock went back", again.Token, r.Token)
	}
}

func TestRebootRebasesByTheWallClock(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: 1000 * time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	h.wall += 5 * time.Hour // noticed and kept with the next change
	h.pass(2 * time.Second)
	held := take(t, s, "held", "a", time.Hour)
	lingers := take(t, s, "lingers", "a", time.Hour)
	lingers.Linger = 30 * time.Minute
	release(t, s, lingers)
	forever, brief := take(t, s, "forever", "a", time.Hour), take(t, s, "brief", "a", time.Hour)
	forever.Mark, brief.Mark, brief.Retain = 1, 1, 2*time.Hour
	release(t, s, forever)
	release(t, s, brief)
	s.Close()

	h.pass(10 * time.Minute)
	h.boot, h.uptime = "two", 3*time.Second
	s = openWith(t, path, h.clocks())
	for name, want := range map[string]time.Duration{"held": 50 * time.Minute, "lingers": 20 * time.Minute, "brief": 0} {
		r := recordOf(t, s, name)
		if r.Left != want || r.Age != 10*time.Minute {
			t.Errorf("after ten minutes and a reboot %q has %v left and is %v old; want %v", name, r.Left, r.Age, want)
		}
	}
	errs, err := s.Extend(context.Background(), []store.Extension{{Name: "held", Holder: "a", Token: held.Token, TTL: time.Hour}})
	if err != nil || errs[0] != nil {
		t.Errorf("the lease is not live for its holder after the reboot: %v, %v", errs, err)
	}
	h.pass(109 * time.Minute)
	if n, err := s.Sweep(context.Background(), 100); n != 0 || err != nil {
		t.Errorf("swept %d, %v; want none: the one that expired was not released", n, err)
	}
	recordOf(t, s, "brief")
	h.pass(2 * time.Minute)
	if _, err := s.Sweep(context.Background(), 100); err != nil {
		t.Error(err)
	}
	recordOf(t, s, "forever")
	for r := range s.List(context.Background(), "brief") {
		t.Errorf("%+v is there two hours after it was to be retained for two", r)
	}
}

// A host without a battery for its clock comes up in 1970: nothing lasts longer than it was given for.
func TestRebootWithoutWallClock(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	r := take(t, s, "name", "a", time.Minute)
	s.Close()
	h = &fakeHost{boot: "two", uptime: time.Second, wall: time.Second}
	s = openWith(t, path, h.clocks())
	if left := recordOf(t, s, "name").Left; left != time.Minute {
		t.Errorf("%v are left of a minute", left)
	}
	h.pass(time.Minute)
	if again := take(t, s, "name", "b", time.Hour); again.Token <= r.Token {
		t.Errorf("token %d follows %d", again.Token, r.Token)
	}
}

// The wall clock is wrong at one reboot, and wrong at the next: a lease lasts as long as it was given for all the same.
func TestTwoRebootsWithoutWallClock(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	take(t, s, "name", "a", time.Hour)
	for _, boot := range []string{"two", "three"} {
		s.Close()
		h.boot, h.uptime, h.wall = boot, time.Second, h.wall-1000*time.Hour
		s = openWith(t, path, h.clocks())
		if r := recordOf(t, s, "name"); r.Left != time.Hour || r.Age != 0 {
			t.Errorf("after boot %s %v of an hour are left, and it is %v old", boot, r.Left, r.Age)
		}
	}
}

// Two processes that open the file at once after a reboot both see that its times are of another boot. The second leaves them as the first has made them, though the
// wall clock has been set meanwhile, as it is after a boot.
func TestRebootRebasesOnce(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	take(t, s, "name", "a", time.Hour)
	s.Close()
	h.boot, h.uptime = "two", time.Second
	s = openWith(t, path, h.clocks())
	h.wall += 20 * time.Minute
	must(t, s.file.rebase())
	if r := recordOf(t, s, "name"); r.Left != time.Hour || r.Age != 0 {
		t.Errorf("%v of an hour are left, and it is %v old", r.Left, r.Age)
	}
}

func TestTwoHostsAreNoticed(t *testing.T) {
	for name, change := range map[string]func(*Store, store.Release) error{
		"a claim": func(s *Store, _ store.Release) error { _, err := try(s, "other", "a", time.Hour); return err },
		"an extension, which is one statement": func(s *Store, r store.Release) error {
			errs, err := s.Extend(context.Background(), []store.Extension{{Name: r.Name, Holder: r.Holder, Token: r.Token, TTL: time.Hour}})
			return errors.Join(append(errs, err)...)
		},
		"a release, which is one statement": func(s *Store, r store.Release) error { return tryRelease(s, r) },
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			one := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
			two := &fakeHost{boot: "two", uptime: time.Minute, wall: 1e6 * time.Hour}
			s := openWith(t, path, one.clocks())
			r := take(t, s, "name", "a", time.Hour)
			openWith(t, path, two.clocks())
			one.pass(2 * time.Second)
			says(t, change(s, r), path, "another host")
		})
	}
}

func TestClockKindsDoNotMix(t *testing.T) {
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	all := h.clocks()
	blind := all
	blind.host, blind.why = nil, errors.New("no /proc here")

	path := newPath(t)
	openWith(t, path, all)
	_, err := tryOpenWith(t, path, blind)
	says(t, err, path, "no /proc here", "time since boot")

	path = newPath(t)
	take(t, openWith(t, path, blind), "name", "a", time.Hour)
	s := openWith(t, path, all)
	c, err := s.Capabilities(context.Background())
	if err != nil || !strings.Contains(c.Backend, "clock wall") || !strings.Contains(c.Fencing.Why, "wall clock") {
		t.Errorf("%+v, %v; the file was made by a process that reads the wall clock alone", c, err)
	}
	h.uptime += 10 * time.Hour
	if left := recordOf(t, s, "name").Left; left != time.Hour {
		t.Errorf("%v are left by the wall clock; want an hour", left)
	}
	exec(t, raw(t, path), "UPDATE meta SET clock = 'sundial'")
	_, err = tryOpenWith(t, path, all)
	says(t, err, path, "sundial")
}

func TestTokensGrowOverSweepsAndClocks(t *testing.T) {
	path := newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, path, h.clocks())
	var last int64
	for i := range 5 {
		for _, name := range []string{"a", "b"} {
			r := take(t, s, name, "holder", time.Minute)
			if r.Token <= last && name == "a" {
				t.Fatalf("round %d: token %d follows %d", i, r.Token, last)
			}
			last = max(last, r.Token)
			r.Retain = 0
			release(t, s, r)
		}
		if n, err := s.Sweep(context.Background(), 10); n != 2 || err != nil {
			t.Fatalf("swept %d, %v", n, err)
		}
		h.wall -= 1000 * time.Hour
		s.Close()
		s = openWith(t, path, h.clocks())
	}
}

func TestTokensEnd(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path)
	release(t, s, take(t, s, "name", "a", time.Minute))
	db := raw(t, path)
	exec(t, db, fmt.Sprintf("UPDATE records SET token = %d", int64(math.MaxInt64-1)))
	r := take(t, s, "name", "a", time.Minute)
	if r.Token != math.MaxInt64 {
		t.Fatalf("token %d", r.Token)
	}
	release(t, s, r)
	if _, err := try(s, "name", "b", time.Minute); !errors.Is(err, store.ErrTokens) {
		t.Errorf("after the last token: %v", err)
	}
	exec(t, db, "UPDATE meta SET floor = 9223372036854775807")
	if _, err := try(s, "new", "b", time.Minute); !errors.Is(err, store.ErrTokens) {
		t.Errorf("above the highest floor: %v", err)
	}
}

// How the wall clock stands to the file's is noted for the next boot, whether it was set forward or back.
func TestWallClockIsNoted(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		path := newPath(t)
		host := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
		s := openWith(t, path, host.clocks())
		noted := func() (wall int64) {
			if err := raw(t, path).QueryRow("SELECT wall FROM meta").Scan(&wall); err != nil {
				t.Fatal(err)
			}
			return wall
		}
		take(t, s, "before", "a", time.Hour)
		was := noted()
		host.wall += step
		host.pass(2 * time.Second)
		take(t, s, "after", "a", time.Hour)
		if moved := time.Duration(noted() - was); moved != step {
			t.Errorf("the wall clock was set by %v, and noted is %v", step, moved)
		}
	}
}

// Until when no other file may be made, should this one be deleted, is known of leases that are extended or released together, too.
func TestWhatIsGivenTogetherIsKnown(t *testing.T) {
	s := openAt(t, newPath(t))
	a, b := take(t, s, "a", "x", time.Minute), take(t, s, "b", "x", time.Minute)
	given := s.given.Load()
	both := []store.Extension{{Name: "a", Holder: "x", Token: a.Token, TTL: time.Hour}, {Name: "b", Holder: "x", Token: b.Token, TTL: time.Hour}}
	errs, err := s.Extend(context.Background(), both)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if later := time.Duration(s.given.Load() - given); later < 50*time.Minute {
		t.Errorf("leases of an hour are known to end %v later than those of a minute", later)
	}
	given = s.given.Load()
	a.Linger, b.Linger = 3*time.Hour, 3*time.Hour
	errs, err = s.Release(context.Background(), []store.Release{a, b})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if later := time.Duration(s.given.Load() - given); later < time.Hour {
		t.Errorf("lingers of three hours are known to end %v later than leases of an hour", later)
	}
	given = s.given.Load()
	errs, err = s.Extend(context.Background(), []store.Extension{
		{Name: "c", Holder: "x", Token: take(t, s, "c", "x", time.Minute).Token, TTL: time.Minute},
		{Name: "d", Holder: "x", Token: take(t, s, "d", "x", time.Minute).Token, TTL: time.Minute},
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if s.given.Load() < given {
		t.Error("what was given for longer before is forgotten")
	}
}

// It is known of what is given in one statement, too, and what ends sooner than that changes nothing.
func TestWhatIsGivenAloneIsKnown(t *testing.T) {
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, newPath(t), h.clocks())
	for _, name := range []string{"mine", "other", "third"} {
		release(t, s, take(t, s, name, "a", time.Minute)) // a name that is known is granted in one statement
	}
	known := func(what string, want time.Duration) {
		t.Helper()
		if got := time.Duration(s.given.Load()) - h.uptime; got != want {
			t.Errorf("after %s it is known that all ends in %v, want %v", what, got, want)
		}
	}
	mine := take(t, s, "mine", "a", time.Hour)
	known("a grant", time.Hour)
	longer := store.Extension{Name: "mine", Holder: "a", Token: mine.Token, TTL: 2 * time.Hour}
	errs, err := s.Extend(background, []store.Extension{longer})
	must(t, append(errs, err)...)
	known("an extension", 2*time.Hour)
	mine.Linger = 3 * time.Hour
	release(t, s, mine)
	known("a release", 3*time.Hour)
	_, _, err = s.Choose(background, []string{"mine", "other"}, store.Claim{Holder: "a", TTL: 4 * time.Hour})
	must(t, err)
	known("a choice", 4*time.Hour)
	release(t, s, take(t, s, "third", "a", time.Minute))
	known("a shorter lease", 4*time.Hour)
}

// A file whose leases go by the wall clock is replaced by one whose leases go by the time since boot: what one clock
// has given is not taken for times of the other, by which nothing could be used for as long as since 1970.
func TestFileOfAnotherClockIsReplaced(t *testing.T) {
	path, booted, last := newPath(t), newPath(t), newPath(t)
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	blind := h.clocks()
	blind.host, blind.why = nil, errors.New("no /proc here")
	openWith(t, path, blind).Close()
	openWith(t, booted, h.clocks()).Close()
	openWith(t, last, h.clocks()).Close()
	s := openWith(t, path, h.clocks())
	mine := take(t, s, "mine", "a", 10*time.Minute)
	must(t, os.Rename(booted, path))
	_, err := try(s, "mine", "b", time.Minute)
	says(t, err, path, "replaced", "in 10m0s")
	h.pass(10 * time.Minute)
	again := take(t, s, "mine", "b", 5*time.Minute)
	if again.Token <= mine.Token {
		t.Errorf("token %d follows %d", again.Token, mine.Token)
	}
	s.file.spoil() // of a file that cannot be opened again nobody can be asked what all processes hold
	s.fileSystem = func(string) (fileSystem, error) { return fileSystem{}, errors.New("the path cannot be seen") }
	if err := s.Ping(background); err == nil {
		t.Fatal("the file is there")
	}
	must(t, os.Rename(last, path))
	s.fileSystem = fileSystemOf
	_, err = try(s, "mine", "c", time.Minute)
	says(t, err, path, "replaced", "in 5m0s")
	h.pass(5 * time.Minute)
	take(t, s, "mine", "c", time.Minute)
}

// Names that were had before and are claimed together are all granted, each from now on, and may be forgotten as the last release says.
func TestUsedNamesTogether(t *testing.T) {
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, newPath(t), h.clocks())
	names := []string{"1", "2"}
	first := map[string]int64{}
	var claims []store.Claim
	for _, name := range names {
		r := take(t, s, name, "a", time.Minute)
		r.Retain = store.Forever - 1 // as good as forever
		release(t, s, r)
		first[name] = r.Token
		claims = append(claims, claim(name, "b", time.Minute)...)
	}
	h.pass(time.Hour)
	if n, err := s.Sweep(background, 10); n != 0 || err != nil {
		t.Errorf("%d are forgotten that are to be kept, %v", n, err)
	}
	take(t, s, "other", "c", time.Minute) // so that it is not the turn of the file's clock to be looked at
	outs, err := s.Acquire(background, claims)
	must(t, err)
	var last []store.Release
	for i, name := range names {
		if r := recordOf(t, s, name); outs[i].Err != nil || outs[i].Grant.Token <= first[name] || r.Token != outs[i].Grant.Token || r.Age != 0 || r.Left != time.Minute {
			t.Errorf("granted %+v after the token %d, and the record is %+v", outs[i], first[name], r)
		}
		last = append(last, store.Release{Name: name, Holder: "b", Token: outs[i].Grant.Token})
	}
	for _, r := range last {
		release(t, s, r)
	}
	if n, err := s.Sweep(background, 10); n != 2 || err != nil {
		t.Errorf("%d are forgotten that need not be kept any more, %v", n, err)
	}
}
