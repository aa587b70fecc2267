package demo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h history
		twoRuns := func(events []event) bool { return count(events, ofKind(runStart)) == 2 }
		go func() {
			for range 2 {
				time.Sleep(time.Second)
				h.add(event{Kind: runStart})
			}
		}()
		if err := h.await(t.Context(), "two runs", twoRuns); err != nil {
			t.Error(err)
		}
		late, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTooSlow)
		defer cancel()
		err := h.await(late, "a kill", func(events []event) bool { return count(events, ofKind(killed)) > 0 })
		if !errors.Is(err, errTooSlow) || !strings.Contains(err.Error(), "too long for a kill") {
			t.Errorf("what does not come: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			h.fail(context.Canceled)
			h.fail(errors.New("a later failure"))
		}()
		err = h.await(t.Context(), "a kill", func(events []event) bool { return count(events, ofKind(killed)) > 0 })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("what will not come: %v", err)
		}
		if err := h.await(t.Context(), "two runs", twoRuns); err != nil {
			t.Errorf("what has come before the failure: %v", err)
		}
	})
}

// A gate that is told to hold and then to go on before anybody comes is open.
func TestGate(t *testing.T) {
	var g gate
	never := func() { t.Error("it halts at an open gate") }
	g.pass(t.Context(), never, never)
	g.obey(strings.NewReader("hold\nhold\ngo\n"))
	g.pass(t.Context(), never, never)
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.close()
		halts, looks := 0, 0
		go func() {
			time.Sleep(5*gateLook + gateLook/2)
			g.obey(strings.NewReader("")) // the director is gone
		}()
		g.pass(t.Context(), func() { halts++ }, func() { looks++ })
		if halts != 1 || looks != 5 {
			t.Errorf("it halted %d times and looked %d times", halts, looks)
		}
		g.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.pass(ctx, func() { halts++ }, func() {})
		if halts != 2 {
			t.Error("it did not halt again")
		}
	})
}
