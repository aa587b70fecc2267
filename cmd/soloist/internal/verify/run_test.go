//go:build unix

package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/sqlitestore"
	"github.com/soloist-dev/soloist/test/servers"
)

// The test binary is the replica, too. Its environment says which store it opens, and what is wrong with that.
const (
	pathVariable  = "VERIFY_TEST_STORE"
	wrongVariable = "VERIFY_TEST_WRONG"
)

func TestMain(m *testing.M) {
	path, moved := os.Getenv(pathVariable), os.Getenv(movedVariable)
	open := func() (store.Store, error) { return openWrong(path, os.Getenv(wrongVariable)) }
	switch {
	case moved != "":
		open = func() (store.Store, error) { return openMoved(moved) }
	case path == "":
		servers.Main(m)
	}
	if err := Replica(context.Background(), open, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A wrongStore is a store with which something is wrong.
type wrongStore struct {
	store.Store
	before func(ctx context.Context, names []string) error // each call of one of the verbs
}

func openWrong(path, wrong string) (store.Store, error) {
	s, err := sqlitestore.Open(path)
	if err != nil {
		return nil, err
	}
	kind, arg, _ := strings.Cut(wrong, "=")
	switch kind {
	case "":
		return s, nil
	case "refuses": // all of one kind of record
		return &wrongStore{s, func(_ context.Context, names []string) error {
			if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, arg) }) {
				return errors.New("no permission for " + arg)
			}
			return nil
		}}, nil
	case "fails": // nine of ten calls
		return &wrongStore{s, func(context.Context, []string) error {
			if rand.IntN(10) > 0 {
				return errors.New("the server is out of order")
			}
			return nil
		}}, nil
	case "slow":
		d, err := time.ParseDuration(arg)
		return &wrongStore{s, func(ctx context.Context, _ []string) error {
			if !sleep(ctx, d) {
				return store.AsUnknown(ctx.Err())
			}
			return nil
		}}, err
	case "panics": // once, in one of the replicas
		return &wrongStore{s, func(context.Context, []string) error {
			if f, err := os.OpenFile(path+".panicked", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_ = f.Close()
				panic("index out of range in the reply of a server")
			}
			return nil
		}}, nil
	}
	return nil, fmt.Errorf("nothing is known of %q", wrong)
}

func namesOf[Q any](asked []Q, name func(Q) string) (names []string) {
	for _, q := range asked {
		names = append(names, name(q))
	}
	return names
}

func (w *wrongStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := w.before(ctx, namesOf(claims, func(c store.Claim) string { return c.Name })); err != nil {
		return nil, err
	}
	return w.Store.Acquire(ctx, claims)
}

func (w *wrongStore) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if err := w.before(ctx, namesOf(extensions, func(x store.Extension) string { return x.Name })); err != nil {
		return nil, err
	}
	return w.Store.Extend(ctx, extensions)
}

func (w *wrongStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if err := w.before(ctx, namesOf(releases, func(r store.Release) string { return r.Name })); err != nil {
		return nil, err
	}
	return w.Store.Release(ctx, releases)
}

func (w *wrongStore) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	chooser, ok := store.As[store.Chooser](w.Store)
	if !ok {
		return 0, store.Grant{}, errors.ErrUnsupported
	}
	if err := w.before(ctx, names); err != nil {
		return 0, store.Grant{}, err
	}
	return chooser.Choose(ctx, names, claim)
}

func (w *wrongStore) Unwrap() store.Store { return w.Store }

// configured is a verification of a store of the replicas with which something is wrong.
func configured(t *testing.T, wrong, faults string) Config {
	t.Helper()
	servers.Long(t)
	path := filepath.Join(servers.Directory(t), "store.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	some, err := ParseFaults(faults)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Open: func() (store.Store, error) { return sqlitestore.Open(path) }, Executable: self,
		Env:       append(os.Environ(), pathVariable+"="+path, wrongVariable+"="+wrong),
		Namespace: "verify-test", For: time.Second, Within: 10 * time.Minute, TTL: 300 * time.Millisecond, Replicas: 3, Faults: some, Seed: 1,
	}
}

func verified(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + r.Text())
	return r
}

func mustBe(t *testing.T, r *Report, want Verdict, why string) {
	t.Helper()
	if r.Verdict != want {
		t.Errorf("the verdict is %s, want %s", r.Verdict, want)
	}
	if !slices.ContainsFunc(r.Void, func(text string) bool { return strings.Contains(text, why) }) && want == Void {
		t.Errorf("%q is not among the reasons: %q", why, r.Void)
	}
}

// A pause ends with the verification, and the process goes on, so that it can be ended: the pause may be of hours.
func TestPauseEndsWithTheVerification(t *testing.T) {
	d := newDirector(Config{TTL: time.Hour})
	p, err := fleet.Launch{Name: "r1", Executable: "sleep", Args: []string{"1000"}, Failed: func(*fleet.EndedError) {}}.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.End(fleet.Kill); <-p.Gone }()
	ctx, cancel := context.WithCancel(t.Context())
	paused := make(chan struct{})
	go func() {
		d.pause(ctx, p, PauseLong, 2*time.Hour)
		close(paused)
	}()
	servers.Wait(t, "it is stopped", p.Stopped)
	cancel()
	servers.Wait(t, "the pause is over", func() bool {
		select {
		case <-paused:
			return true
		default:
			return false
		}
	})
	servers.Wait(t, "it goes on", func() bool { return !p.Stopped() })
}

// A cleaned store notes until when it may be listed, on the clock of the events.
type cleaned struct {
	store.Store
	until *time.Duration
}

func (s cleaned) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	if end, ok := ctx.Deadline(); ok {
		*s.until = time.Until(end) + fleet.Now()
	}
	return s.Store.List(ctx, prefix)
}

func (s cleaned) Unwrap() store.Store { return s.Store }

// A run goes on until it has its minimum, and its TTL becomes longer than the store takes to answer. There is time to
// remove what is left once the leases of that TTL are over.
func TestSlowStoreIsGivenTime(t *testing.T) {
	c := configured(t, "slow=50ms", "kill,lose")
	c.TTL = 200 * time.Millisecond
	begun := time.Now()
	var until time.Duration
	open := c.Open
	c.Open = func() (store.Store, error) { s, err := open(); return cleaned{s, &until}, err }
	r := verified(t, c)
	if least := r.events[len(r.events)-1].At + 5*time.Minute + 4*r.TTL; until < least {
		t.Errorf("records are removed until %v after the start of the host, want %v at least, with leases of %v", until, least, r.TTL)
	}
	mustBe(t, r, Held, "")
	if r.TTL <= r.FirstTTL {
		t.Errorf("the TTL is %v, as at the beginning, where each call takes 50 ms", r.TTL)
	}
	if r.Seed != c.Seed || r.FirstTTL != c.TTL || !strings.HasPrefix(r.Store.Backend, "SQLite") || r.Figures.Left != 0 {
		t.Errorf("of the seed %d, a TTL of %v, the store %q; %d records are left", r.Seed, r.FirstTTL, r.Store.Backend, r.Figures.Left)
	}
	if worked := r.span.To - r.span.From; worked < c.For || r.Figures.Seconds < worked.Seconds() || r.Figures.Seconds > time.Since(begun).Seconds() {
		t.Errorf("it took %v s, and the replicas worked for %v", r.Figures.Seconds, worked)
	}
	if want := len(works) + 3; len(r.Minimum) != want { // the faults are kill, lose-request and lose-reply
		t.Errorf("%d minima are told, want %d: %v", len(r.Minimum), want, r.Minimum)
	}
	for _, a := range r.Minimum {
		if a.Reached < a.Least {
			t.Errorf("held, with too few: %s", a)
		}
	}
}

func TestRefusedKindOfWorkIsVoid(t *testing.T) {
	for kind, work := range map[string]Work{"/lock/lock": Locks, "/semaphore/": Permits, "/leader/": Leaderships, "/job/": Runs, "/element/": Elements} {
		t.Run(string(work), func(t *testing.T) {
			t.Parallel()
			c := configured(t, "refuses="+kind, "none")
			c.Within = 2 * time.Second
			mustBe(t, verified(t, c), Void, fmt.Sprintf("too few %s: 0,", work))
		})
	}
}

func TestFailingStoreIsVoid(t *testing.T) {
	c := configured(t, "fails", "none")
	c.Within = 20 * time.Second
	r := verified(t, c)
	mustBe(t, r, Void, "too many errors: ")
	if r.Figures.ErrorShare <= r.MostErrors {
		t.Errorf("a share of %v failed, where nine of ten calls did", r.Figures.ErrorShare)
	}
}

func TestCrashedReplicaIsAViolation(t *testing.T) {
	r := verified(t, configured(t, "panics", "none"))
	mustBe(t, r, Violated, "")
	i := slices.IndexFunc(r.Violations, func(v proof.Violation) bool { return v.Checker == crashed })
	if i < 0 || !strings.Contains(r.Violations[i].Text, "panic: index out of range in the reply of a server") {
		t.Errorf("the verdict does not say how the replica ended: %v", r.Violations)
	}
}
