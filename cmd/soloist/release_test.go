package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A permit is found by its token only if no other permit of the semaphore is held with the same one: nobody knows which of them is meant.
func TestPermitsOfTheSameToken(t *testing.T) {
	c, s := soloisttest.NewClient(t)
	const above = 1 << 60
	claims := []store.Claim{{Name: "semaphore/pdf/0", Holder: "a#2", TTL: time.Hour, Above: above}, {Name: "semaphore/pdf/1", Holder: "b#2", TTL: time.Hour, Above: above}}
	outs, err := s.Acquire(t.Context(), claims)
	if err != nil || outs[0].Err != nil || outs[1].Err != nil || outs[0].Grant.Token != outs[1].Grant.Token {
		t.Fatal(outs, err)
	}
	token := outs[0].Grant.Token
	find := func(token int64) (soloist.LeaseInfo, error) {
		return permitOf(t.Context(), c.Admin(), []string{"pdf"}, token)
	}
	if found, err := find(token); err == nil || !strings.Contains(err.Error(), "2 permits") {
		t.Errorf("of two: found %+v, %v", found, err)
	}
	if _, err := find(token + 1); !errors.Is(err, soloist.ErrNotHeld) {
		t.Errorf("of none: %v", err)
	}
	if errs, err := s.Release(t.Context(), []store.Release{{Name: claims[0].Name, Holder: claims[0].Holder, Token: token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if found, err := find(token); err != nil || found.Permit != 1 || found.Token != token {
		t.Errorf("of one: found %+v, %v", found, err)
	}
}

// A list of the elements of one status that could not be read to its end shows what was read, and is no success.
func TestElementsOfAStatusThatCannotBeRead(t *testing.T) {
	broken := errors.New("the connection was reset")
	infos := func(yield func(soloist.ElementInfo, error) bool) {
		_ = yield(soloist.ElementInfo{ID: "4711", Status: "failed"}, nil) && yield(soloist.ElementInfo{ID: "4712", Status: "processed"}, nil) && yield(soloist.ElementInfo{}, broken)
	}
	for status, want := range map[string]string{"": "4711 4712", "failed": "4711", "waiting": ""} {
		var out bytes.Buffer
		err := (&app{out: &out, output: "table"}).listElements(infos, status)
		var shown []string
		for _, id := range []string{"4711", "4712"} {
			if strings.Contains(out.String(), id) {
				shown = append(shown, id)
			}
		}
		if got := strings.Join(shown, " "); !errors.Is(err, broken) || got != want {
			t.Errorf("with the status %q: shows %q, want %q; %v", status, got, want, err)
		}
	}
}
