package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// An operation is made with one of its steps failing, looked at, and made again.
type operation struct {
	name string
	run  func(x *trial)
}

var operations = []operation{
	{"acquire", func(x *trial) { x.acquire("free") }},
	{"acquire what was left", func(x *trial) { x.acquire("left") }},
	{"acquire again", func(x *trial) { x.acquire("mine") }},
	{"acquire what is held", func(x *trial) { x.acquire("other") }},
	{"acquire several", func(x *trial) { x.acquire("free", "mine", "left", "other", "another free") }},
	{"acquire one twice", (*trial).twice},
	{"read", (*trial).read},
	{"choose", (*trial).choose},
	{"queue", (*trial).queue},
	{"leave", (*trial).leave},
	{"extend", func(x *trial) { x.extend("mine") }},
	{"extend several", func(x *trial) { x.extend("mine", "lost", "mine too") }},
	{"release", func(x *trial) { x.release("mine") }},
	{"release several", func(x *trial) { x.release("mine", "lost", "mine too") }},
	{"complete", (*trial).complete},
	{"fill", (*trial).fill},
	{"list", (*trial).list},
	{"sweep", (*trial).sweep},
	{"watch", (*trial).watch},
	{"ping", (*trial).ping},
	{"capabilities", (*trial).capabilities},
	{"examine", (*trial).examine},
}

const (
	mine   = "h"
	others = "o"
)

// prepare makes what a name says of itself.
func (x *trial) prepare(name string) {
	switch {
	case strings.HasPrefix(name, "mine"):
		x.hold(name, mine)
	case strings.HasPrefix(name, "other"):
		x.hold(name, others)
	case strings.HasPrefix(name, "left"):
		x.left(name, store.Forever)
	}
}

// acquire claims names.
func (x *trial) acquire(names ...string) {
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		x.prepare(name)
		claims[i] = x.claim(name, mine)
	}
	var outs []store.Outcome
	var err error
	x.armed(func(ctx context.Context) { outs, err = x.s.Acquire(ctx, claims) })
	outs = x.outcomes(len(names), outs, err)
	if x.Failed() {
		return
	}
	for i, name := range names {
		before, out := x.before[name], outs[i]
		if before.Holder == others {
			if out.Err == nil {
				x.Errorf("%s is held, and was granted: %+v", name, out.Grant)
			}
			x.unchanged(name)
			if _, err := acquire(x, x.s, claims[i]); !errors.Is(err, store.ErrHeld) {
				x.Errorf("%s is held, and asked again it is %v", name, err)
			}
			continue
		}
		if errors.Is(out.Err, store.ErrHeld) && before.Holder == mine {
			x.Errorf("%s is the holder's own, and refused: %v", name, out.Err)
		}
		x.told(name, out.Err, func(r store.Record) bool { return granted(r, before, out) })
		x.again(claims[i], name)
	}
}

// outcomes returns the outcomes of n claims, one for each.
func (x *trial) outcomes(n int, outs []store.Outcome, err error) []store.Outcome {
	if err != nil {
		return slices.Repeat([]store.Outcome{{Err: err}}, n)
	}
	if len(outs) != n {
		x.Errorf("there are %d outcomes of %d claims", len(outs), n)
	}
	return outs
}

// granted reports whether a record is what a claim has made of the one before, which is told in out if it has no error.
func granted(r, before store.Record, out store.Outcome) bool {
	if r.Holder != mine || r.Free() || r.Mark != before.Mark || string(r.State) != string(before.State) || r.Token < before.Token ||
		r.Token == before.Token && before.Holder != mine {
		return false
	}
	return out.Err != nil || out.Grant.Token == r.Token && out.Grant.Mark == r.Mark && string(out.Grant.State) == string(r.State)
}

// again claims a name again, and must be granted what it had been granted, or has been told nothing of.
func (x *trial) again(c store.Claim, name string) {
	is := x.record(name)
	g, err := acquire(x, x.s, c)
	switch {
	case err != nil:
		x.Errorf("asked again for %s: %v", name, err)
	case is.Holder == mine && g.Token != is.Token:
		x.Errorf("asked again for %s: token %d, and it was %d", name, g.Token, is.Token)
	case is.Holder != mine && g.Token <= x.before[name].Token:
		x.Errorf("asked again for %s: token %d follows %d", name, g.Token, x.before[name].Token)
	}
	if r := x.record(name); err == nil && (r.Holder != c.Holder || r.Token != g.Token || r.Free()) {
		x.Errorf("asked again for %s: told as granted, %+v, and is %+v", name, g, r)
	}
}

// twice claims a name for two holders in one batch.
func (x *trial) twice() {
	claims := []store.Claim{x.claim("free", mine), x.claim("free", others)}
	var outs []store.Outcome
	var err error
	x.armed(func(ctx context.Context) { outs, err = x.s.Acquire(ctx, claims) })
	outs = x.outcomes(2, outs, err)
	if x.Failed() {
		return
	}
	r := x.record("free")
	for i, out := range outs {
		switch {
		case out.Err == nil && (r.Holder != claims[i].Holder || r.Token != out.Grant.Token):
			x.Errorf("it was granted to %s, %+v, and is %+v", claims[i].Holder, out.Grant, r)
		case out.Err != nil && !errors.Is(out.Err, store.ErrUnknown) && r.Holder == claims[i].Holder:
			x.Errorf("it was refused to %s, %v, and is %+v", claims[i].Holder, out.Err, r)
		}
	}
	if r.Holder == others {
		x.Errorf("the second claim came first: %+v", r)
	}
	x.again(claims[0], "free")
}

// read makes a claim that never takes a name.
func (x *trial) read() {
	for _, name := range []string{"left", "other"} {
		x.prepare(name)
		c := x.claim(name, mine)
		c.Mark = -1
		check := func(outs []store.Outcome, err error) error {
			out := x.outcomes(1, outs, err)[0]
			var done *store.DoneError
			switch {
			case errors.As(out.Err, &done):
				if !same(done.Record, x.before[name]) {
					x.Errorf("%s is told as %+v, and is %+v", name, done.Record, x.before[name])
				}
				return nil
			case out.Err == nil:
				x.Errorf("reading %s has granted %+v", name, out.Grant)
			}
			return out.Err
		}
		x.armed(func(ctx context.Context) { _ = check(x.s.Acquire(ctx, []store.Claim{c})) })
		x.unchanged(name)
		x.calm(func(ctx context.Context) {
			if err := check(x.s.Acquire(ctx, []store.Claim{c})); err != nil {
				x.Errorf("reading %s again: %v", name, err)
			}
		})
	}
}

func (x *trial) choose() {
	chooser, is := store.As[store.Chooser](x.s)
	if !is {
		return
	}
	for _, names := range [][]string{{"other", "free", "left"}, {"other", "left"}, {"other", "left", "mine"}, {"other", "others too"}} {
		whole := make([]string, len(names))
		for i, name := range names {
			if _, there := x.before[name]; !there {
				x.prepare(name)
			}
			whole[i] = x.name(name)
		}
		var i int
		var g store.Grant
		var err error
		x.armed(func(ctx context.Context) { i, g, err = chooser.Choose(ctx, whole, x.claim("", mine)) })
		var has []string
		for _, name := range names {
			if r := x.record(name); r.Holder == mine && !r.Free() {
				has = append(has, name)
			} else if r.Holder == mine || !same(r, x.before[name]) {
				x.Errorf("%s is %+v, and was %+v", name, r, x.before[name])
			}
		}
		had := slices.Contains(names, "mine")
		switch {
		case len(has) > 1:
			x.Errorf("%v were granted: %v", has, err)
		case err == nil && (len(has) == 0 || has[0] != names[i] || x.record(names[i]).Token != g.Token):
			x.Errorf("%s was told as granted, %+v, and %v are", names[i], g, has)
		case err != nil && !errors.Is(err, store.ErrUnknown) && !had && len(has) > 0:
			x.Errorf("%s was granted, and %v told", has[0], err)
		case had && len(has) == 1 && has[0] != "mine":
			x.Errorf("%s was granted beside what the holder had", has[0])
		}
		x.calm(func(ctx context.Context) {
			i, g, err := chooser.Choose(ctx, whole, x.claim("", mine))
			switch {
			case names[1] == "others too":
				if !errors.Is(err, store.ErrHeld) {
					x.Errorf("all are held, and the answer is %v", err)
				}
			case err != nil || len(has) > 0 && names[i] != has[0] || x.record(names[i]).Token != g.Token || g.Token <= x.before[names[i]].Token && !had:
				x.Errorf("choosing again returns %d, %+v, %v; the holder had %v", i, g, err, has)
			default:
				x.end(names[i], store.Release{Holder: mine, Token: g.Token, Mark: 3, State: []byte("left"), Retain: store.Forever})
			}
		})
		if x.Failed() {
			return
		}
	}
}

// queue waits for a name as a client does, while its holder releases it.
func (x *trial) queue() {
	queuer, is := store.As[store.Queuer](x.s)
	if !is || x.unsupported(func(ctx context.Context) error {
		_, _, err := queuer.Queue(ctx, x.claim("is it one", mine))
		return err
	}) {
		return
	}
	x.prepare("other")
	before := x.before["other"]
	var g store.Grant
	var err error
	x.armed(func(ctx context.Context) {
		released := make(chan struct{})
		go func() {
			defer close(released)
			_, _ = x.Plain.Release(ctx, []store.Release{{Name: x.name("other"), Holder: others, Token: before.Token, Mark: 3, State: []byte("left"), Retain: store.Forever}})
		}()
		for {
			if g, _, err = queuer.Queue(ctx, x.claim("other", mine)); err == nil || ctx.Err() != nil {
				break
			}
		}
		<-released
	})
	r := x.record("other")
	if err != nil || r.Holder != mine || r.Free() || r.Token != g.Token || g.Token <= before.Token || g.Mark != 3 || string(g.State) != "left" {
		x.Errorf("who waited is told %+v, %v; the record is %+v", g, err, r)
	}
}

// unsupported reports whether a call is not supported.
func (x *trial) unsupported(call func(ctx context.Context) error) (is bool) {
	x.calm(func(ctx context.Context) { is = errors.Is(call(ctx), errors.ErrUnsupported) })
	return is
}

// leave takes a holder out of a queue that it is in.
func (x *trial) leave() {
	queuer, is := store.As[store.Queuer](x.s)
	if !is || x.unsupported(func(ctx context.Context) error {
		_, _, err := queuer.Queue(ctx, x.claim("is it one", mine))
		return err
	}) {
		return
	}
	x.prepare("other")
	var waited, told error
	x.calm(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond) // on a slow machine it may not be in the queue by then, and leaves it all the same
		defer cancel()
		_, _, waited = queuer.Queue(ctx, x.claim("other", mine))
	})
	x.armed(func(ctx context.Context) { _, told = queuer.Leave(ctx, x.name("other"), mine) })
	x.calm(func(ctx context.Context) {
		left, err := queuer.Leave(ctx, x.name("other"), mine)
		if err != nil {
			x.Errorf("leaving again: %v", err)
		}
		if certain := told != nil && !errors.Is(told, store.ErrUnknown); certain && errors.Is(waited, store.ErrHeld) && !left {
			x.Errorf("%v, though the place in the queue was left", told)
		}
	})
	x.end("other", store.Release{Holder: others, Token: x.before["other"].Token, Retain: store.Forever})
	if r := x.record("other"); r.Holder != "" || !r.Free() {
		x.Errorf("a holder that has left the queue has been handed the name: %+v", r)
	}
}

func (x *trial) extend(names ...string) {
	extensions := make([]store.Extension, len(names))
	for i, name := range names {
		x.prepare(name)
		extensions[i] = store.Extension{Name: x.name(name), Holder: mine, Token: max(1, x.before[name].Token), TTL: 2 * time.Hour, Mark: 5, State: []byte("extended")}
	}
	x.change(names, func(ctx context.Context) ([]error, error) { return x.s.Extend(ctx, extensions) }, func(name string) func(store.Record) bool {
		return func(r store.Record) bool {
			return r.Holder == mine && r.Token == x.before[name].Token && r.Mark == 5 && string(r.State) == "extended" && r.Left > time.Hour
		}
	})
}

func (x *trial) release(names ...string) {
	releases := make([]store.Release, len(names))
	for i, name := range names {
		x.prepare(name)
		releases[i] = store.Release{Name: x.name(name), Holder: mine, Token: max(1, x.before[name].Token), Mark: 5, State: []byte("released"), Retain: store.Forever}
	}
	x.change(names, func(ctx context.Context) ([]error, error) { return x.s.Release(ctx, releases) }, func(name string) func(store.Record) bool {
		return func(r store.Record) bool {
			return r.Holder == "" && r.Token == x.before[name].Token && r.Mark == 5 && string(r.State) == "released" && r.Free()
		}
	})
	for _, name := range names {
		if g, err := acquire(x, x.s, x.claim(name, others)); err != nil || g.Token <= x.before[name].Token {
			x.Errorf("acquiring %s after its release: %+v, %v", name, g, err)
		}
	}
}

// change changes leases, those that are there.
func (x *trial) change(names []string, call func(context.Context) ([]error, error), done func(name string) func(store.Record) bool) {
	var errs []error
	var err error
	for _, calm := range []bool{false, true} {
		if calm {
			x.calm(func(ctx context.Context) { errs, err = call(ctx) })
		} else {
			x.armed(func(ctx context.Context) { errs, err = call(ctx) })
		}
		if err != nil {
			errs = slices.Repeat([]error{err}, len(names))
		}
		if len(errs) != len(names) {
			x.Errorf("there are %d errors of %d", len(errs), len(names))
			return
		}
		for i, name := range names {
			if x.before[name].Holder != mine {
				if errs[i] == nil || calm && !errors.Is(errs[i], store.ErrLost) {
					x.Errorf("of a lease that is not there is told: %v", errs[i])
				}
				x.unchanged(name)
				continue
			}
			if calm && errs[i] != nil {
				x.Errorf("asked again: %s: %v", name, errs[i])
			}
			if errors.Is(errs[i], store.ErrLost) {
				x.Errorf("a lease that lives is told as lost: %s: %v", name, errs[i])
			}
			if !calm || errs[i] == nil {
				x.told(name, errs[i], done(name))
			}
		}
	}
}

func (x *trial) complete() {
	if x.Complete == nil {
		return
	}
	x.prepare("mine")
	c := store.Completion{Name: x.name("mine"), Holder: mine, Token: x.before["mine"].Token, Mark: 5, State: []byte("completed")}
	done := func(r store.Record) bool {
		return r.Holder == mine && r.Token == c.Token && r.Mark == 5 && string(r.State) == "completed"
	}
	var err error
	x.armed(func(ctx context.Context) { err = x.Complete(ctx, x.s, c) })
	if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrDone) {
		x.Errorf("of work that is not done, and a lease that lives, is told: %v", err)
	}
	x.told("mine", err, done)
	is := done(x.record("mine"))
	x.calm(func(ctx context.Context) { err = x.Complete(ctx, x.s, c) })
	if is && !errors.Is(err, store.ErrDone) || !is && err != nil {
		x.Errorf("completed again: %v; it is done: %t", err, is)
	}
	if !done(x.record("mine")) {
		x.Errorf("what was completed is %+v", x.record("mine"))
	}
}

func (x *trial) fill() {
	filler, is := store.As[store.Filler](x.s)
	if !is || x.unsupported(func(ctx context.Context) error { _, err := filler.Fill(ctx, nil); return err }) {
		return
	}
	names := []string{"free", "left", "another free"}
	x.prepare("left")
	fillings := make([]store.Filling, len(names))
	for i, name := range names {
		fillings[i] = store.Filling{Name: x.name(name), Mark: 7, State: []byte("filled"), Retain: store.Forever}
	}
	filled := func(r store.Record) bool {
		return r.Token > 0 && r.Free() && r.Mark == 7 && string(r.State) == "filled"
	}
	for _, calm := range []bool{false, true} {
		var made []bool
		var err error
		if calm {
			x.calm(func(ctx context.Context) { made, err = filler.Fill(ctx, fillings) })
		} else {
			x.armed(func(ctx context.Context) { made, err = filler.Fill(ctx, fillings) })
		}
		x.unchanged("left")
		if calm && err != nil {
			x.Errorf("filling again: %v", err)
		}
		for i, name := range names {
			r := x.record(name)
			if i != 1 && (r.Name != "" || calm) && !filled(r) || err == nil && made[i] && !filled(r) {
				x.Errorf("after filling, %v, %v: %s is %+v", made, err, name, r)
			}
		}
	}
}

func (x *trial) list() {
	claims, want := []store.Claim{}, map[string]string{}
	for i := range 200 { // two pages, the same in each trial
		c := store.Claim{Name: fmt.Sprintf("list/%03d", i), Holder: "l", TTL: time.Hour}
		claims, want[c.Name] = append(claims, c), c.Holder
	}
	if x.k == 1 {
		x.calm(func(ctx context.Context) {
			outs, err := x.Plain.Acquire(ctx, claims)
			for _, out := range x.outcomes(len(claims), outs, err) {
				if out.Err != nil {
					x.Fatalf("without a fault: %v", out.Err)
				}
			}
		})
	}
	check := func(ctx context.Context) error {
		last, n := "", 0
		var told error
		for r, err := range x.s.List(ctx, "list/") {
			switch {
			case told != nil:
				x.Errorf("something after the error: %+v, %v", r, err)
			case err != nil:
				told = err
			case r.Name <= last || r.Holder != want[r.Name]:
				x.Errorf("%+v after %s", r, last)
			default:
				last, n = r.Name, n+1
			}
		}
		if told == nil && n != len(want) {
			x.Errorf("%d records, and no error is told; there are %d", n, len(want))
		}
		return told
	}
	x.armed(func(ctx context.Context) { _ = check(ctx) })
	x.calm(func(ctx context.Context) {
		if err := check(ctx); err != nil {
			x.Errorf("listing again: %v", err)
		}
	})
}

func (x *trial) sweep() {
	sweeper, is := store.As[store.Sweeper](x.s)
	if !is {
		return
	}
	names := []string{"left", "left too", "left as well"}
	x.calm(func(ctx context.Context) { // what trials before this one have left
		for {
			if n, err := sweeper.Sweep(ctx, 1000); err != nil || n == 0 {
				return
			}
		}
	})
	for _, name := range names {
		x.left(name, 0)
	}
	gone := func() (n int) {
		for _, name := range names {
			switch r := x.record(name); {
			case r.Name == "":
				n++
			case !same(r, x.before[name]):
				x.Errorf("%s was not forgotten, and is %+v", name, r)
			}
		}
		return n
	}
	var n int
	var err error
	x.armed(func(ctx context.Context) { n, err = sweeper.Sweep(ctx, 1000) })
	if now := gone(); n > now || err == nil && n != now {
		x.Errorf("%d records are told as forgotten, %v; %d are", n, err, now)
	}
	x.calm(func(ctx context.Context) {
		for gone() < len(names) && ctx.Err() == nil {
			if _, err := sweeper.Sweep(ctx, 1000); err != nil {
				x.Errorf("sweeping again: %v", err)
				return
			}
		}
	})
	for _, name := range names {
		if g, err := acquire(x, x.s, x.claim(name, mine)); err != nil || g.Token <= x.before[name].Token || g.Mark != 0 {
			x.Errorf("%s after it was forgotten: %+v, %v; its token was %d", name, g, err, x.before[name].Token)
		}
	}
}

func (x *trial) watch() {
	watcher, is := store.As[store.Watcher](x.s)
	if !is {
		return
	}
	x.prepare("other")
	x.armed(func(ctx context.Context) {
		wake, err := watcher.Watch(ctx, []string{x.name("other")})
		if err != nil {
			return
		}
		select {
		case <-wake: // of what was before the release
		default:
		}
		x.end("other", store.Release{Holder: others, Token: x.before["other"].Token, Retain: store.Forever})
		select {
		case <-wake: // or closed: the subscription is lost, as is told
		case <-ctx.Done():
			x.Errorf("a release was missed")
		}
	})
	x.calm(func(ctx context.Context) {
		if _, err := watcher.Watch(ctx, []string{x.name("other")}); err != nil {
			x.Errorf("watching again: %v", err)
		}
	})
}

func (x *trial) ping() {
	pinger, is := store.As[store.Pinger](x.s)
	if !is {
		return
	}
	x.armed(func(ctx context.Context) { _ = pinger.Ping(ctx) })
	x.calm(func(ctx context.Context) {
		if err := pinger.Ping(ctx); err != nil {
			x.Errorf("asked again: %v", err)
		}
	})
}

func (x *trial) capabilities() {
	if _, is := store.As[store.Prober](x.s); !is {
		return
	}
	answers := func(c store.Capabilities) []store.Answer {
		return []store.Answer{c.Fencing.Answer, c.Durable.Answer, c.Waiting.Answer}
	}
	var got store.Capabilities
	var err error
	x.armed(func(ctx context.Context) { got, err = store.CapabilitiesOf(ctx, x.s) })
	if x.calmly.promises == nil {
		x.calm(func(ctx context.Context) {
			want, err := store.CapabilitiesOf(ctx, x.s)
			if err != nil {
				x.Errorf("asked again: %v", err)
			}
			x.calmly.promises = &want
		})
	}
	want := *x.calmly.promises
	for i, is := range answers(want) {
		if told := answers(got)[i]; err == nil && told == store.Yes && is != store.Yes {
			x.Errorf("it promises %+v, and without a fault %+v", got, want)
		}
	}
	if err == nil && !slices.Equal(answers(got), answers(want)) && !slices.Contains(answers(got), store.Unknown) && answers(got)[2] != store.No {
		x.Errorf("it promises %+v, and nothing is unknown; without a fault %+v", got, want)
	}
}

func (x *trial) examine() {
	examiner, is := store.As[store.Examiner](x.s)
	if !is {
		return
	}
	levels := func(all []store.Finding) map[string]store.Level {
		found := map[string]store.Level{}
		for _, f := range all {
			found[f.Subject] = f.Level
		}
		return found
	}
	var got []store.Finding
	var err error
	x.armed(func(ctx context.Context) { got, err = examiner.Examine(ctx) })
	if x.calmly.findings == nil {
		x.calm(func(ctx context.Context) {
			var err error
			if x.calmly.findings, err = examiner.Examine(ctx); err != nil {
				x.Errorf("asked again: %v", err)
			}
		})
	}
	want := x.calmly.findings
	if err != nil {
		return
	}
	found, told := levels(got), false
	for _, f := range got {
		told = told || f.Level == store.LevelUnknown || f.Level == store.LevelError
	}
	for subject, level := range levels(want) {
		if now, there := found[subject]; (!there || now != level) && !told {
			x.Errorf("%s is %q with a fault and %q without, and nothing is told as unknown: %+v", subject, now, level, got)
		}
	}
}

// migrate makes a schema where there is none, or another.
func (x *trial) migrate(open func(t testing.TB) (s, plain store.Store)) {
	s, plain := open(x.TB)
	migrator, is := store.As[store.Migrator](s)
	if !is {
		x.Fatal("it does not migrate")
	}
	var err error
	x.armed(func(ctx context.Context) { _, err = migrator.Migrate(ctx) })
	works := func(name string) error {
		_, err := acquire(x, plain, x.claim(name, mine))
		return err
	}
	if err == nil {
		if err := works("first"); err != nil {
			x.Errorf("the tables are told as made: %v", err)
		}
	}
	x.calm(func(ctx context.Context) {
		if _, err := migrator.Migrate(ctx); err != nil {
			x.Errorf("migrating again: %v", err)
		}
		if did, err := migrator.Migrate(ctx); err != nil || len(did) > 0 {
			x.Errorf("migrating once more: %q, %v", did, err)
		}
	})
	if err := works("second"); err != nil {
		x.Errorf("after migrating again: %v", err)
	}
}
