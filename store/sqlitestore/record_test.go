package sqlitestore

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// At the instant at which a lease ends it is over, for its holder as for everybody else.
func TestLeaseIsOverAtItsEnd(t *testing.T) {
	r := &record{holder: "a", until: 10}
	for now, want := range map[int64]bool{9: true, 10: false, 11: false} {
		if live := r.liveFor("a", now); live != want {
			t.Errorf("live at %d: %t; want %t", now, live, want)
		}
	}
	if r.liveFor("b", 9) {
		t.Error("it is live for another holder")
	}
}

// A lease is neither extended nor released at its end, by a statement of its own or in a transaction.
func TestLeaseIsNotRenewedAtItsEnd(t *testing.T) {
	for _, with := range []int{0, 1} { // others in the batch
		h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
		s := openWith(t, newPath(t), h.clocks())
		lease := take(t, s, "name", "a", time.Minute)
		leases := []store.Release{lease}
		for range with {
			leases = append(leases, take(t, s, "other", "a", time.Hour))
		}
		var extensions []store.Extension
		for _, l := range leases {
			extensions = append(extensions, store.Extension{Name: l.Name, Holder: l.Holder, Token: l.Token, TTL: time.Hour})
		}
		h.pass(time.Minute)
		take(t, s, "tick", "a", time.Minute) // so that one statement may do: the file's times have just been looked at
		if errs, err := s.Extend(t.Context(), extensions); err != nil || !errors.Is(errs[0], store.ErrLost) {
			t.Errorf("%d others: an extension at the end of the lease: %v, %v; want ErrLost", with, errs, err)
		}
		if errs, err := s.Release(t.Context(), leases); err != nil || !errors.Is(errs[0], store.ErrLost) {
			t.Errorf("%d others: a release at the end of the lease: %v, %v; want ErrLost", with, errs, err)
		}
		take(t, s, "name", "b", time.Minute)
	}
}

// A release is repeated by one of the same lease alone, whose mark the record has.
func TestReleaseThatRepeatsNone(t *testing.T) {
	h := &fakeHost{boot: "one", uptime: time.Hour, wall: 1e6 * time.Hour}
	s := openWith(t, newPath(t), h.clocks())
	lease := take(t, s, "name", "a", time.Minute)
	lease.Mark, lease.State = 5, []byte("left")
	release(t, s, lease)
	before := recordOf(t, s, "name")
	for what, other := range map[string]struct {
		of   store.Release
		want error
	}{
		"the same":        {lease, nil},
		"a lower mark":    {store.Release{Name: "name", Holder: "a", Token: lease.Token, Mark: 4, State: []byte("x")}, nil},
		"a higher mark":   {store.Release{Name: "name", Holder: "a", Token: lease.Token, Mark: 6}, store.ErrLost},
		"another holder":  {store.Release{Name: "name", Holder: "b", Token: lease.Token}, store.ErrLost},
		"an older token":  {store.Release{Name: "name", Holder: "a", Token: lease.Token - 1}, store.ErrLost},
		"a name not had":  {store.Release{Name: "none", Holder: "a", Token: lease.Token}, store.ErrLost},
		"a longer linger": {store.Release{Name: "name", Holder: "a", Token: lease.Token, Linger: time.Hour}, nil},
	} {
		for _, releases := range [][]store.Release{{other.of}, {other.of, other.of}} {
			errs, err := s.Release(t.Context(), releases)
			must(t, err)
			for _, err := range errs {
				if !errors.Is(err, other.want) {
					t.Errorf("%s: %v, want %v", what, err, other.want)
				}
			}
			if r := recordOf(t, s, "name"); !reflect.DeepEqual(r, before) {
				t.Errorf("%s: the record is %+v, and was %+v", what, r, before)
			}
		}
	}
}
