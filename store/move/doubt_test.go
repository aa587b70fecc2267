package move

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// TestWhatIsLearnedOfAClaim: a claim whose outcome is unknown is remembered with the first answer about each grant of the shadow, which does not say twice how the lease before ended.
// What is known of one grant is not that of the next.
func TestWhatIsLearnedOfAClaim(t *testing.T) {
	none := errors.New("no reply")
	grant := func(token int64, age time.Duration) store.Outcome {
		return store.Outcome{Grant: store.Grant{Token: token, ExpiredAge: age}}
	}
	refused := func(err error) store.Outcome { return store.Outcome{Err: err} }
	for what, c := range map[string]struct {
		answers []store.Outcome
		want    doubt
		half    half // of a grant with the token 7 that does not have how the lease before ended
	}{
		"a crash":                       {[]store.Outcome{grant(7, 1)}, doubt{token: 7, unreleased: true}, half{unreleased: true}},
		"a crash, told once":            {[]store.Outcome{grant(7, 1), grant(7, 0)}, doubt{token: 7, unreleased: true}, half{unreleased: true}},
		"no crash":                      {[]store.Outcome{grant(7, 0), grant(7, 1)}, doubt{token: 7}, half{}},
		"a crash before another grant":  {[]store.Outcome{grant(7, 1), grant(8, 0)}, doubt{token: 8}, half{}},
		"a crash before an older grant": {[]store.Outcome{grant(6, 1)}, doubt{token: 6, unreleased: true}, half{}},
		"a crash, and then a refusal":   {[]store.Outcome{grant(7, 1), refused(store.ErrHeld), refused(&store.DoneError{})}, doubt{token: 7, unreleased: true}, half{unreleased: true}},
		"no answer":                     {[]store.Outcome{refused(store.AsUnknown(none))}, doubt{unheard: true}, half{unsure: true}},
		"no answer, and then a grant":   {[]store.Outcome{refused(none), grant(7, 0)}, doubt{unheard: true, token: 7}, half{unsure: true}},
		"a crash, and then no answer":   {[]store.Outcome{grant(7, 1), refused(none)}, doubt{unheard: true, token: 7, unreleased: true}, half{unreleased: true, unsure: true}},
	} {
		b, claim := pair(nil, nil, OldDecides), store.Claim{Name: "n", Holder: "me", TTL: time.Minute}
		for _, answer := range c.answers {
			b.learn(&claiming{claim: claim, first: answer, outcome: &store.Outcome{}})
		}
		if got := b.doubtOf(claim); got != c.want {
			t.Errorf("%s: learned %+v, want %+v", what, got, c.want)
		}
		if got := b.doubtOf(store.Claim{Name: "n", Holder: "other"}); got != (doubt{}) {
			t.Errorf("%s: of another claim %+v is known", what, got)
		}
		h := b.halfOf(claim, store.Grant{Token: 7})
		if h.name != "n" || h.holder != "me" || h.grant.Token != 7 || h.unreleased != c.half.unreleased || h.unsure != c.half.unsure {
			t.Errorf("%s: the half is %+v, want %+v", what, h, c.half)
		}
		if h := b.halfOf(claim, store.Grant{Token: 7, ExpiredAge: 1}); !h.unreleased || h.unsure {
			t.Errorf("%s: the half of a grant that tells of a crash is %+v", what, h)
		}
	}
}

// TestWhatAHalfIsReleasedWith: the shadow is released with what the store that decides has if that is newer or was left by a crash, and else as it is. It is left to expire
// if nobody knows which of two states is the newer one.
func TestWhatAHalfIsReleasedWith(t *testing.T) {
	record := func(mark int64, state string) store.Record {
		return store.Record{Token: 9, Mark: mark, State: []byte(state)}
	}
	for what, c := range map[string]struct {
		truth              store.Record
		unreleased, unsure bool
		open               bool
		mark               int64
		state              string // of the release; none for ""
	}{
		"a greater mark":                         {truth: record(4, "new"), mark: 4, state: "new"},
		"a greater mark, unsure":                 {truth: record(4, "new"), unsure: true, mark: 4, state: "new"},
		"the same mark":                          {truth: record(3, "new")},
		"the same mark after a crash":            {truth: record(3, "new"), unreleased: true, mark: 3, state: "new"},
		"the same mark, unsure":                  {truth: record(3, "new"), unsure: true, open: true},
		"the same record, unsure":                {truth: record(3, "s"), unsure: true},
		"a smaller mark after a crash":           {truth: record(2, "old"), unreleased: true},
		"a smaller mark, unsure":                 {truth: record(2, "old"), unsure: true},
		"no record after a crash":                {unreleased: true},
		"no record, unsure":                      {unsure: true},
		"no record, with the same mark, unsure":  {truth: store.Record{Mark: 3}, unsure: true},
		"no record, with the same mark, a crash": {truth: store.Record{Mark: 3, State: []byte("new")}, unreleased: true},
	} {
		h := half{name: "n", holder: "me", grant: store.Grant{Token: 7, Mark: 3, State: []byte("s")}, truth: c.truth, unreleased: c.unreleased, unsure: c.unsure}
		if h.open() != c.open {
			t.Errorf("%s: open %t", what, h.open())
		}
		r := h.release()
		if !c.open && (r.Mark != c.mark || string(r.State) != c.state || (r.State == nil) != (c.state == "")) {
			t.Errorf("%s: released with %d %q, want %d %q", what, r.Mark, r.State, c.mark, c.state)
		}
		if r.Name != "n" || r.Holder != "me" || r.Token != 7 || r.Retain != store.Forever {
			t.Errorf("%s: got %+v", what, r)
		}
	}
}
