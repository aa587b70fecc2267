package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

var (
	hostileSeed  = flag.Uint64("hostile.seed", 1, "of the lies of TestHostileServer")
	hostileSteps = flag.Int("hostile.steps", 1500, "of TestHostileServer")
)

// A server that returns nonsense, or the answers to other requests, ends no program. Nobody believes in a grant that there is none of, and all
// goes on when it comes to its senses.
func TestHostileServer(t *testing.T) {
	server := servers.Redis(t)
	for what, make := range map[string]func(*rand.Rand) func(*resp) []*resp{
		"nonsense": func(rng *rand.Rand) func(*resp) []*resp {
			return func(v *resp) []*resp {
				if rng.IntN(3) > 0 {
					return []*resp{v}
				}
				return garble(rng, v)
			}
		},
		"out of step": outOfStep,
	} {
		t.Run(what, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(*hostileSeed, 7)) //nolint:gosec // it is to be repeated
			p := newLiar(t, server.Addr)
			prefix := "?prefix=" + strings.ReplaceAll(what, " ", "-")
			h := &hostile{T: t, rng: rng, exact: what == "out of step", truth: open(t, server.URL+prefix), s: open(t, p.url()+prefix+"&pool=4&timeout=500ms")}
			if err := h.s.Ping(background); err != nil {
				t.Fatal(err)
			}
			lie := make(rand.New(rand.NewPCG(*hostileSeed, 8))) //nolint:gosec // it is to be repeated
			p.lying(lie)
			for range *hostileSteps {
				h.step()
			}
			p.lying(nil)
			repeated(t, "going on as before", func() error { return tried(background, h.s, "afterwards/"+what, "a") })
			t.Logf("%d lies in %d steps, %d grants, %d refusals, %d unknown, %d other errors", p.lies(), *hostileSteps, h.granted, h.refused, h.unknown, h.failed)
			if p.lies() < *hostileSteps/20 || h.granted == 0 || h.unknown == 0 {
				t.Error("that shows nothing")
			}
		})
	}
}

// A server that greets with nonsense while the store subscribes keeps nobody from closing the store.
func TestCloseWhileAServerGreetsWithNonsense(t *testing.T) {
	p := newLiar(t, servers.Redis(t).Addr)
	s, err := redisstore.OpenURL(background, p.url())
	must(t, err)
	must(t, s.Ping(background))
	p.lying(func(v *resp) []*resp {
		if v.kind == '%' { // the answer to HELLO
			v.of[1].raw = "$9223372036854775807\r\n"
		}
		return []*resp{v}
	})
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	go func() { _, _ = s.Watch(ctx, []string{"lock/x"}) }()
	repeated(t, "a lie", func() error {
		if p.lies() < 1 {
			return errors.New("the server has not greeted again")
		}
		return nil
	})
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		must(t, err)
	case <-time.After(servers.Patience):
		t.Fatal("the store is not closed")
	}
}

// ours is how answers of the scripts begin.
var ours = regexp.MustCompile(`^[A-Z2-7]{12}-[0-9a-z]+( -?[0-9]+)*$`)

// outOfStep gives some answers to the requests of others, and some twice.
func outOfStep(rng *rand.Rand) func(*resp) []*resp {
	var before *resp
	return func(v *resp) []*resp {
		if !ours.MatchString(v.text) && !(v.kind == '*' && len(v.of) == 2 && ours.MatchString(v.of[0].text)) {
			return []*resp{v}
		}
		last := before
		before = v
		switch rng.IntN(4) {
		case 0:
			if last != nil {
				return []*resp{last}
			}
		case 1:
			return []*resp{v, v}
		}
		return []*resp{v}
	}
}

// A hostile makes requests of a server that lies, and looks with another store at what is so.
type hostile struct {
	*testing.T
	rng   *rand.Rand
	s     *redisstore.Store
	truth *redisstore.Store
	exact bool // a grant must be there, with that token

	n                                 int
	granted, refused, unknown, failed int
}

func (h *hostile) name() string { return fmt.Sprint("n", h.rng.IntN(40)) }

// step makes one request of a random kind.
func (h *hostile) step() {
	h.n++
	holder := fmt.Sprint("h", h.n)
	ctx, cancel := context.WithTimeout(background, 5*time.Second)
	defer cancel()
	switch h.rng.IntN(8) {
	case 0, 1, 2:
		claims := make([]store.Claim, 1+h.rng.IntN(4))
		for i := range claims {
			claims[i] = store.Claim{Name: fmt.Sprint("n", (h.n+i)%40), Holder: holder, TTL: time.Hour, Mark: int64(h.rng.IntN(3) - 1)}
		}
		outs, err := h.s.Acquire(ctx, claims)
		if err == nil && len(outs) != len(claims) {
			h.Fatalf("%d outcomes of %d claims", len(outs), len(claims))
		}
		for i, c := range claims {
			if err != nil {
				outs = append(outs, store.Outcome{Err: err})
			}
			h.outcome(c, outs[i])
		}
	case 3:
		errs, err := h.s.Extend(ctx, []store.Extension{{Name: h.name(), Holder: holder, Token: 1, TTL: time.Hour}, {Name: h.name(), Holder: holder, Token: 1, TTL: time.Hour}})
		h.never("extended", errs, err)
	case 4:
		errs, err := h.s.Release(ctx, []store.Release{{Name: h.name(), Holder: holder, Token: 1}, {Name: h.name(), Holder: holder, Token: 1}})
		h.never("released", errs, err)
	case 5:
		names := []string{h.name(), h.name() + "x", "free" + holder}
		i, grant, err := h.s.Choose(ctx, names, store.Claim{Holder: holder, TTL: time.Hour})
		if i < 0 || i >= len(names) {
			h.Fatalf("chosen: %d of %d", i, len(names))
		}
		h.outcome(store.Claim{Name: names[i], Holder: holder}, store.Outcome{Grant: grant, Err: err})
	case 6:
		for r, err := range h.s.List(ctx, "n") {
			if err == nil && (!strings.HasPrefix(r.Name, "n") || r.Left < 0 || r.Age < 0 || r.Token <= 0) {
				h.Errorf("listed: %+v", r)
			}
		}
		if n, err := h.s.Sweep(ctx, 5); n < 0 || n > 5 {
			h.Errorf("swept %d, %v", n, err)
		}
	default:
		h.inLine(ctx, holder)
	}
}

// inLine waits for a name that is released meanwhile.
func (h *hostile) inLine(ctx context.Context, holder string) {
	name := "line" + holder
	outs, err := h.truth.Acquire(ctx, []store.Claim{{Name: name, Holder: "before", TTL: 300 * time.Millisecond}})
	if err != nil || outs[0].Err != nil {
		h.Fatal(err, outs)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(time.Duration(h.n%3) * time.Millisecond)
		_, _ = h.truth.Release(ctx, []store.Release{{Name: name, Holder: "before", Token: outs[0].Grant.Token, Retain: time.Hour}})
	}()
	claim := store.Claim{Name: name, Holder: holder, TTL: time.Hour}
	grant, _, err := h.s.Queue(ctx, claim)
	<-done
	h.outcome(claim, store.Outcome{Grant: grant, Err: err})
	_, _ = h.s.Leave(ctx, name, holder)
}

// outcome judges what a claim was told.
func (h *hostile) outcome(c store.Claim, out store.Outcome) {
	var held *store.HeldError
	var done *store.DoneError
	switch {
	case out.Err == nil:
		h.granted++
		if out.Grant.Token <= 0 || out.Grant.Mark < 0 || out.Grant.ExpiredAge < 0 {
			h.Errorf("%s was granted %+v", c.Name, out.Grant)
		}
		if !h.exact {
			return
		}
		found := false
		for r, err := range h.truth.List(background, c.Name) {
			found = found || r.Name == c.Name
			if err != nil || r.Name == c.Name && (r.Holder != c.Holder || r.Token != out.Grant.Token) {
				h.Errorf("%s believes that it has %q with token %d, and it is %+v, %v", c.Holder, c.Name, out.Grant.Token, r, err)
			}
		}
		if !found {
			h.Errorf("%s believes that it has %q with token %d, and there is no record", c.Holder, c.Name, out.Grant.Token)
		}
	case errors.As(out.Err, &held):
		h.refused++
		if held.Record.Left <= 0 || held.Record.Token < 0 {
			h.Errorf("refused: %+v", held.Record)
		}
	case errors.As(out.Err, &done):
		h.refused++
	case isUnknown(out.Err):
		h.unknown++
	default:
		h.failed++
	}
}

// never judges the answers to requests of somebody who has no lease.
func (h *hostile) never(what string, errs []error, err error) {
	for _, e := range append(errs, err) {
		if isUnknown(e) {
			h.unknown++
		}
	}
	if h.exact && err == nil && (errs[0] == nil || errs[1] == nil) {
		h.Errorf("%s what it never had: %v", what, errs)
	}
}

// What a server returns for a key that somebody watches ends no program either, also where the client has not come from a URL.
func TestNonsenseAboutASharedKey(t *testing.T) {
	server := shared(t)
	p, env, name := newLiar(t, server.Addr), prefix(), prefix()
	s, err := redisstore.New(plainClient(t, p.url()), redisstore.Config{Prefix: env, Share: env + ":*"})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	theirs := plainClient(t, server.URL)
	must(t, theirs.Set(background, env+":"+name, "another library", 0).Err())
	w := watched(t, s, "lock/"+name)
	p.lying(func(*resp) []*resp { return []*resp{{raw: "$9223372036854775807\r\n"}} })
	servers.Wait(t, "the store to look at the key", func() bool { return p.lies() > 0 })
	p.lying(nil)
	must(t, theirs.Del(background, env+":"+name).Err())
	if !woken(w) {
		t.Error("the key is gone, and nobody is woken")
	}
}
