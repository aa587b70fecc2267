package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A request that is repeated reaches the store once more, also when the client has its reply and has ended the first.
func TestRepetitionOutlastsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(newRecorder(io.Discard), orders{TTL: time.Second, Seed: 1})
		n.odds = map[Fault]float64{Repeat: 1}
		var carriedOut atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		_, err := through(ctx, n, []int{1}, func(ctx context.Context, asked []int) ([]int, error) {
			if ctx.Err() == nil {
				carriedOut.Add(1)
			}
			return asked, ctx.Err()
		})
		if err != nil || carriedOut.Load() != 1 {
			t.Errorf("carried out %d times at first, %v", carriedOut.Load(), err)
		}
		cancel()
		if n.late.Wait(); carriedOut.Load() != 2 {
			t.Errorf("carried out %d times, want once more after the request has ended", carriedOut.Load())
		}
	})
}

// Each fault of the network does what its name says, and is told when it takes effect; of a lost request a client learns what it
// learns of a lost reply.
func TestFaultsOfTheNetwork(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		fault   Fault
		fails   error // of the store
		ends    int32 // the call of the store that ends the request; 0 before the first
		reached int32 // how often the store is
		faults  int
		err     error // of the client, nil for none
		slow    bool
	}{
		"none":                          {"", nil, -1, 1, 0, nil, false},
		"none, and refused":             {"", refused, -1, 1, 0, refused, false},
		"a slow request and reply":      {Slow, nil, -1, 1, 2, nil, true},
		"a slow request that ends":      {Slow, nil, 0, 0, 1, store.ErrUnknown, false},
		"a slow reply to one that ends": {Slow, nil, 1, 1, 2, store.ErrUnknown, true},
		"a slow request, refused":       {Slow, refused, -1, 1, 1, refused, true},
		"a lost request":                {LoseRequest, nil, -1, 0, 1, store.ErrUnknown, false},
		"a lost reply":                  {LoseReply, nil, -1, 1, 1, store.ErrUnknown, false},
		"a lost reply, refused":         {LoseReply, refused, -1, 1, 0, refused, false},
		"a repeated request":            {Repeat, nil, -1, 2, 1, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told bytes.Buffer
				rec := newRecorder(&told)
				n := newNetwork(rec, orders{TTL: time.Minute, Seed: 1, Faults: []Fault{c.fault}})
				if n.odds[c.fault] > 0.1 || len(n.odds) > 1 {
					t.Errorf("the odds are %v", n.odds)
				}
				n.odds = map[Fault]float64{c.fault: 1}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.ends == 0 {
					cancel()
				}
				var reached atomic.Int32
				begin := time.Now()
				answers, err := through(ctx, n, []int{1, 2}, func(_ context.Context, asked []int) ([]int, error) {
					if reached.Add(1) == c.ends {
						cancel()
					}
					if !slices.Equal(asked, []int{1, 2}) {
						t.Errorf("the store was asked %v", asked)
					}
					return []int{3, 4}, c.fails
				})
				took := time.Since(begin)
				n.late.Wait()
				if !errors.Is(err, c.err) || c.err == nil && !slices.Equal(answers, []int{3, 4}) || reached.Load() != c.reached {
					t.Errorf("answered %v, %v; the store was asked %d times", answers, err, reached.Load())
				}
				if (took > 0) != c.slow || took > time.Minute {
					t.Errorf("it took %v", took)
				}
				if c.fault == Repeat && time.Since(begin) == 0 {
					t.Error("the repetition came at once")
				}
				all := written(t, rec, &told)
				for _, e := range all {
					if e.Kind != proof.Fault || Fault(e.Fault) != c.fault || e.At == 0 {
						t.Errorf("told %+v", e)
					}
				}
				if len(all) != c.faults {
					t.Errorf("%d faults are told, want %d", len(all), c.faults)
				}
			})
		})
	}
}

// Only the faults of the network that were asked for are made, and each now and then.
func TestOddsAreOfTheFaultsAskedFor(t *testing.T) {
	if got := odds([]Fault{Kill, PauseLong}); len(got) != 0 {
		t.Errorf("without any of the network: %v", got)
	}
	if got := odds([]Fault{Kill, Slow, Repeat}); len(got) != 2 || got[Slow] <= 0 || got[Repeat] <= 0 {
		t.Errorf("of two: %v", got)
	}
	n := newNetwork(newRecorder(io.Discard), orders{TTL: time.Second, Faults: []Fault{Slow}, Seed: 1})
	hits := 0
	for range 10000 {
		if hit, d := n.strikes(Slow); hit {
			if hits++; d < 0 || d > 500*ms {
				t.Errorf("a delay of %v with a TTL of a second", d)
			}
		}
		if hit, _ := n.strikes(LoseReply); hit {
			t.Fatal("a fault that was not asked for")
		}
	}
	if hits < 100 || hits > 400 {
		t.Errorf("%d of 10000 calls were slow, want about 200", hits)
	}
}

// A short pause is shorter than the TTL, and a long one longer, whatever is drawn.
func TestPauses(t *testing.T) {
	for _, x := range []float64{0, 0.5, 0.9999} {
		short, long := pauseFor(PauseShort, time.Second, x), pauseFor(PauseLong, time.Second, x)
		if short <= 0 || short >= time.Second || long <= time.Second || long > 3*time.Second {
			t.Errorf("a short pause of %v and a long one of %v", short, long)
		}
	}
}

// A scripted store answers what it is told to.
type scripted struct {
	store.Store
	outs  []store.Outcome
	errs  []error
	err   error
	index int
}

func (s *scripted) Acquire(context.Context, []store.Claim) ([]store.Outcome, error) {
	return s.outs, s.err
}
func (s *scripted) Extend(context.Context, []store.Extension) ([]error, error) { return s.errs, s.err }
func (s *scripted) Release(context.Context, []store.Release) ([]error, error)  { return s.errs, s.err }

func (s *scripted) Choose(context.Context, []string, store.Claim) (int, store.Grant, error) {
	if len(s.outs) > 0 {
		return s.index, s.outs[0].Grant, s.err
	}
	return s.index, store.Grant{}, s.err
}

// Each element of a call is told as what it was, with its own outcome, and the client has the answer of the store.
func TestEachElementOfACallIsTold(t *testing.T) {
	away, refused, unknown := errors.New("away"), &store.HeldError{Record: store.Record{Holder: "other", Token: 3}}, store.AsUnknown(errors.New("cut"))
	granted := []store.Outcome{{Grant: store.Grant{Token: 7}}, {Err: refused}, {Err: unknown}}
	errs := []error{nil, store.ErrLost, unknown}
	acquire := func(l *link) error {
		outs, err := l.Acquire(t.Context(), []store.Claim{{Name: "a"}, {Name: "b"}, {Name: "c"}})
		if err == nil && !reflect.DeepEqual(outs, granted) {
			t.Errorf("answered %v", outs)
		}
		return err
	}
	extend := func(l *link) error {
		got, err := l.Extend(t.Context(), []store.Extension{{Name: "a"}, {Name: "b"}, {Name: "c"}})
		if err == nil && fmt.Sprint(got) != fmt.Sprint(errs) {
			t.Errorf("answered %v", got)
		}
		return err
	}
	release := func(l *link) error {
		got, err := l.Release(t.Context(), []store.Release{{Name: "a"}, {Name: "b"}, {Name: "c"}})
		if err == nil && fmt.Sprint(got) != fmt.Sprint(errs) {
			t.Errorf("answered %v", got)
		}
		return err
	}
	choose := func(l *link) error {
		i, grant, err := l.Choose(t.Context(), []string{"a", "b", "c"}, store.Claim{Holder: "x"})
		if err == nil && (i != 1 || grant.Token != granted[0].Grant.Token) {
			t.Errorf("answered %d, %v", i, grant)
		}
		return err
	}
	for name, c := range map[string]struct {
		call  func(*link) error
		store scripted
		want  string
	}{
		"acquire":          {acquire, scripted{outs: granted}, "acquire a granted, acquire b held, acquire c unknown"},
		"acquire, away":    {acquire, scripted{err: away}, "acquire a failed, acquire b failed, acquire c failed"},
		"acquire, unknown": {acquire, scripted{err: unknown}, "acquire a unknown, acquire b unknown, acquire c unknown"},
		"extend":           {extend, scripted{errs: errs}, "extend a ok, extend b lost, extend c unknown"},
		"extend, away":     {extend, scripted{err: away}, "extend a failed, extend b failed, extend c failed"},
		"release":          {release, scripted{errs: errs}, "release a ok, release b lost, release c unknown"},
		"release, unknown": {release, scripted{err: unknown}, "release a unknown, release b unknown, release c unknown"},
		"choose":           {choose, scripted{outs: granted, index: 1}, "acquire a failed, acquire b granted, acquire c failed"},
		"choose, all held": {choose, scripted{err: refused}, "acquire a failed, acquire b failed, acquire c failed"},
		"choose, unknown":  {choose, scripted{err: unknown}, "acquire a unknown, acquire b unknown, acquire c unknown"},
		"choose, if away":  {choose, scripted{err: away}, "acquire a failed, acquire b failed, acquire c failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			rec := newRecorder(&told)
			c.store.Store = memstore.New()
			if err := c.call(&link{Store: &c.store, net: newNetwork(rec, orders{TTL: time.Second})}); !errors.Is(err, c.store.err) {
				t.Errorf("the client is told %v", err)
			}
			var got []string
			for i, e := range written(t, rec, &told) {
				if i < 3 && (e.Result != proof.Unknown || e.Until != proof.Never) {
					t.Errorf("told before the call: %+v", e)
				}
				if i < 3 {
					continue
				}
				got = append(got, fmt.Sprintf("%s %s %s", e.Kind, e.Name, e.Result))
				if (e.Until == proof.Never) != (e.Result == proof.Unknown) || (e.Token == 7) != (e.Result == proof.Granted) {
					t.Errorf("told after the call: %+v", e)
				}
				if (e.Err != "") != (e.Result == proof.Unknown || c.store.err != nil && errors.Is(c.store.err, away)) {
					t.Errorf("told with the error %q: %+v", e.Err, e)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
	bare := &link{Store: struct{ store.Store }{memstore.New()}, net: newNetwork(newRecorder(io.Discard), orders{TTL: time.Second})}
	if _, _, err := bare.Choose(t.Context(), []string{"a"}, store.Claim{Holder: "x"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("chosen where that is not possible: %v", err)
	}
}
