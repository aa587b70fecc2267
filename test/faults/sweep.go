package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Fault is a way in which a step fails.
type Fault struct {
	Name string
	Arm  func(k int) // has the k-th step from now on fail, once
	Off  func() bool // has no step fail any more, and reports whether one has
}

// A Subject is a store that is checked.
type Subject struct {
	Open   func(t testing.TB) store.Store // a new handle, whose steps fail
	Warm   bool                           // a handle is for all steps of an operation: opening one takes long, and what it does first is not a part of the operation
	Plain  store.Store                    // a handle on the same data, whose steps do not
	Faults []Fault

	// Complete completes work in a transaction whose steps fail too. It may be nil. The error of a commit must be ErrUnknown unless nothing was committed.
	Complete func(ctx context.Context, s store.Store, c store.Completion) error

	// Fresh makes handles on what has not been migrated, by what there is of it: one whose steps fail, and one whose steps do not.
	Fresh map[string]func(t testing.TB) (s, plain store.Store)
}

// most is how many steps an operation can have: one that has more does not end.
const most = 500

// patience is how long a call may take.
const patience = time.Minute

// Run checks each operation with each fault in each of its steps.
func Run(t *testing.T, subject Subject) {
	all := operations
	for name, open := range subject.Fresh {
		all = append(all[:len(all):len(all)], operation{"migrate " + name, func(x *trial) { x.migrate(open) }})
	}
	for _, fault := range subject.Faults {
		t.Run(fault.Name, func(t *testing.T) {
			total := 0
			for _, op := range all {
				t.Run(op.name, func(t *testing.T) {
					total += sweep(t, subject, fault, op)
				})
			}
			if total == 0 {
				t.Error("no step has failed: the test is blind")
			}
			t.Logf("%d steps failed", total)
		})
	}
}

// sweep lets each step of an operation fail, and returns how many it has.
func sweep(t testing.TB, subject Subject, fault Fault, op operation) int {
	beside := newTrial(t, subject, fault, op, 0)
	beside.hold("beside", "b")
	var without calmly
	open := func() (s store.Store, closeIt func()) {
		s = subject.Open(t)
		return s, func() {
			if err := s.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		}
	}
	if subject.Warm {
		s, closeIt := open()
		defer closeIt()
		open = func() (store.Store, func()) { return s, func() {} }
	}
	for k := 1; ; k++ {
		x := newTrial(t, subject, fault, op, k)
		x.calmly = &without
		s, closeIt := open()
		x.s = s
		op.run(x)
		closeIt()
		if !x.fired {
			beside.unchanged("beside")
		}
		switch {
		case t.Failed():
			t.Fatalf("it was step %d that failed", k)
		case !x.fired:
			return k - 1
		case k == most:
			t.Fatalf("step %d failed, and it goes on", k)
		}
	}
}

// A trial is one operation one of whose steps fails.
type trial struct {
	Subject
	testing.TB
	fault  Fault
	k      int
	fired  bool
	prefix string // of the names
	s      store.Store
	before map[string]store.Record
	calmly *calmly
}

// calmly is what an operation has returned without a fault.
type calmly struct {
	promises *store.Capabilities
	findings []store.Finding
}

func newTrial(t testing.TB, s Subject, f Fault, op operation, k int) *trial {
	return &trial{Subject: s, TB: t, fault: f, k: k, prefix: fmt.Sprintf("%s/%s/%d/", f.Name, op.name, k), before: map[string]store.Record{}}
}

// armed makes a call one of whose steps fails.
func (x *trial) armed(call func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	x.fault.Arm(x.k)
	call(ctx)
	x.fired = x.fault.Off() || x.fired
}

// calm makes a call none of whose steps fails.
func (x *trial) calm(call func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	call(ctx)
}

func (x *trial) name(name string) string { return x.prefix + name }

func (x *trial) claim(name, holder string) store.Claim {
	return store.Claim{Name: x.name(name), Holder: holder, TTL: time.Hour}
}

// acquire makes one claim by a handle, as calm does.
func acquire(x *trial, s store.Store, c store.Claim) (g store.Grant, err error) {
	x.calm(func(ctx context.Context) {
		var out []store.Outcome
		if out, err = s.Acquire(ctx, []store.Claim{c}); err == nil {
			g, err = out[0].Grant, out[0].Err
		}
	})
	return g, err
}

// hold takes a name that is free, without a fault.
func (x *trial) hold(name, holder string) store.Grant {
	g, err := acquire(x, x.Plain, x.claim(name, holder))
	if err != nil {
		x.Fatalf("taking %s for %s without a fault: %v", name, holder, err)
	}
	x.before[name] = x.record(name)
	return g
}

// left makes a record that is free, with a mark and a state.
func (x *trial) left(name string, retain time.Duration) {
	g := x.hold(name, "last")
	x.end(name, store.Release{Holder: "last", Token: g.Token, Mark: 3, State: []byte("left"), Retain: retain})
}

// end releases a lease without a fault.
func (x *trial) end(name string, r store.Release) {
	r.Name = x.name(name)
	x.calm(func(ctx context.Context) {
		errs, err := x.Plain.Release(ctx, []store.Release{r})
		if err = errors.Join(append(errs, err)...); err != nil {
			x.Fatalf("releasing %s without a fault: %v", name, err)
		}
	})
	x.before[name] = x.record(name)
}

// record reads a record without a fault. A name without one has the zero record.
func (x *trial) record(name string) (found store.Record) {
	x.calm(func(ctx context.Context) {
		for r, err := range x.Plain.List(ctx, x.name(name)) {
			if err != nil {
				x.Fatalf("reading without a fault: %v", err)
			}
			if r.Name == x.name(name) {
				found = r
				return
			}
		}
	})
	return found
}

func same(a, b store.Record) bool {
	return a.Name == b.Name && a.Holder == b.Holder && a.Token == b.Token && a.Mark == b.Mark && string(a.State) == string(b.State) && a.Free() == b.Free()
}

// unchanged checks that a record is what it was before.
func (x *trial) unchanged(name string) {
	if r := x.record(name); !same(r, x.before[name]) {
		x.Errorf("%s was not to be changed: it is %+v, and was %+v", name, r, x.before[name])
	}
}

// told checks what was told of a change: with nil it is done, with ErrUnknown it may be, and with any other error it is not.
func (x *trial) told(name string, err error, done func(store.Record) bool) {
	switch r := x.record(name); {
	case err == nil && !done(r):
		x.Errorf("%s is told as done, and is %+v", name, r)
	case errors.Is(err, store.ErrUnknown) && !done(r) && !same(r, x.before[name]):
		x.Errorf("%s is neither done nor as it was: it is %+v, and was %+v", name, r, x.before[name])
	case err != nil && !errors.Is(err, store.ErrUnknown) && !same(r, x.before[name]):
		x.Errorf("%s is told as not done (%v), and is %+v; it was %+v", name, err, r, x.before[name])
	}
}
