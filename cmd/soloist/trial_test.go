package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// shared is a store that others use, too.
type shared struct{ store.Store }

func (shared) Close() error { return nil }

// leading returns what opens connections that lead to one of some stores after the other.
func leading(stores ...store.Store) func() (store.Store, error) {
	var n atomic.Int64
	return func() (store.Store, error) { return shared{stores[int(n.Add(1))%len(stores)]}, nil }
}

// An impatient store gives up on some calls, as with a time-out that is too short.
type impatient struct {
	store.Store
	calls *atomic.Int64
}

func (s impatient) Extend(ctx context.Context, x []store.Extension) ([]error, error) {
	if s.calls.Add(1)%3 == 0 {
		return nil, errors.New("canceling statement due to statement timeout")
	}
	return s.Store.Extend(ctx, x)
}

// A discreet store does not say with which token another holder has a name.
type discreet struct{ store.Store }

func (s discreet) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	for i := range outs {
		var held *store.HeldError
		if errors.As(outs[i].Err, &held) {
			outs[i].Err = &store.HeldError{Record: store.Record{Name: held.Record.Name, Left: held.Record.Left}}
		}
	}
	return outs, err
}

func TestTrial(t *testing.T) {
	one, two := memstore.New(), memstore.New()
	for name, c := range map[string]struct {
		first store.Store
		open  func() (store.Store, error)
		want  []string // of the findings: level, subject and text
	}{
		"one server":                     {one, leading(one), []string{"ok trial: of 90 leases", "ok one server: 8 new connections know"}},
		"one that shows no tokens":       {discreet{one}, leading(discreet{one}), []string{"ok trial: of 90 leases", "ok one server: 8 new connections know"}},
		"a store in this process":        {one, nil, []string{"ok trial: of 10 leases"}},
		"two servers behind one address": {one, leading(one, two), []string{"ok trial", "error one server: 4 of 8 new connections do not know"}},
		"time-outs that are too short":   {impatient{one, new(atomic.Int64)}, nil, []string{"error trial: 3 of 10 lives of a lease failed, over 1 connections or more at once; the first: extending a lease: canceling"}},
		"nobody is there any more": {one, func() (store.Store, error) { return nil, errors.New("too many clients") },
			[]string{"error trial: connecting again: too many clients"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := (&trial{first: c.first, open: c.open}).findings(context.Background())
			if len(found) != len(c.want) {
				t.Fatalf("want %q, found %v", c.want, found)
			}
			for i, f := range found {
				if text := string(f.Level) + " " + f.Subject + ": " + f.Found; !strings.HasPrefix(text, c.want[i]) {
					t.Errorf("want %q, found %q", c.want[i], text)
				}
				if f.Level == store.LevelError && f.Fix == "" && !strings.Contains(f.Found, "too many clients") {
					t.Errorf("nothing says what to change: %q", f.Found)
				}
			}
		})
	}
	for _, s := range []store.Store{one, two} {
		for r, err := range s.List(context.Background(), "") {
			if err != nil || !r.Free() {
				t.Errorf("left: %v, %v", r, err)
			}
		}
	}
}

// Text and JSON say the same, and the exit code with it.
func TestDoctorSaysTheSameInEachForm(t *testing.T) {
	finding := func(level store.Level, fix string) store.Finding {
		return store.Finding{Subject: "subject-" + string(level), Found: "found-" + string(level), Level: level, Fix: fix}
	}
	ok, warning, bad, unknown := finding(store.LevelOK, ""), finding(store.LevelWarning, "fix-1"), finding(store.LevelError, "fix-2"), finding(store.LevelUnknown, "")
	for want, findings := range map[string][]store.Finding{
		"1 ok, 0 warnings, 0 errors, 0 unknown: the store can be used (exit code 0)":                                   {ok},
		"1 ok, 1 warnings, 0 errors, 0 unknown: the store can be used, with less than could be promised (exit code 0)": {ok, warning},
		"0 ok, 0 warnings, 0 errors, 1 unknown: the store can be used, with less than could be promised (exit code 0)": {unknown},
		"1 ok, 1 warnings, 1 errors, 1 unknown: the store cannot be used, or not relied on (exit code 1)":              {ok, warning, bad, unknown},
	} {
		for _, form := range []string{"table", "json", "jsonl"} {
			var out bytes.Buffer
			a := &app{out: &out, output: form}
			err := a.tell(findings)
			if code := map[bool]int{true: 1}[slices.Contains(findings, bad)]; exitCode(err) != code {
				t.Errorf("%s: exit code %d, want %d", form, exitCode(err), code)
			}
			for _, f := range findings {
				for _, text := range []string{f.Subject, f.Found, string(f.Level), f.Fix} {
					if !strings.Contains(out.String(), text) {
						t.Errorf("%s lacks %q:\n%s", form, text, &out)
					}
				}
			}
			if sum := summaryIn(t, form, out.String()); sum != want {
				t.Errorf("%s: %q, want %q", form, sum, want)
			}
		}
	}
}

func summaryIn(t *testing.T, form, out string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	text := out
	switch form {
	case "table":
		return lines[len(lines)-1]
	case "jsonl":
		text = lines[len(lines)-1]
	}
	var found struct{ Summary summary }
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found.Summary.String()
}
