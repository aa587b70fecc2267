package soloist

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// FuzzStateFits shows that whatever a job's errors and schedule say, its state fits its record and can be read again.
func FuzzStateFits(f *testing.F) {
	f.Add("\x00\x01\x02", "@every 1m0s", "host/1", uint8(20))
	f.Add("<>&\u2028\"\\", "\xff", "<\"&>", uint8(30))
	f.Fuzz(func(t *testing.T, text, schedule, replica string, n uint8) {
		long := text
		for len(long) < 4000 && len(text) > 0 {
			long += text
		}
		if len(replica) > 128 || store.CheckName(replica) != nil {
			replica = "a"
		}
		s := jobState{Schedule: shorten(schedule + long)}
		for i := range int(n) {
			s.add(RunRecord{ScheduledAt: time.UnixMilli(int64(i)), Replica: replica, Outcome: OutcomeFailed, Error: long})
		}
		b := s.json()
		if len(b) > store.MaxState {
			t.Fatalf("%d bytes", len(b))
		}
		var again jobState
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if want := min(int(n), historyLength); len(again.Runs) != want {
			t.Errorf("%d runs of %d", len(again.Runs), want)
		}
	})
}

// What does not fit although texts are short goes from the oldest run on.
func TestStateThatDoesNotFitLosesItsOldestRuns(t *testing.T) {
	s := jobState{Schedule: string(make([]byte, 9000))} // 54,000 bytes of JSON
	for i := range historyLength {
		s.add(RunRecord{Attempt: i, Error: string(make([]byte, 990)) + "\""})
	}
	again, err := parseJobState(s.json())
	if err != nil || len(again.Runs) == 0 || len(again.Runs) == historyLength || again.Runs[len(again.Runs)-1].Attempt != historyLength-1 {
		t.Errorf("%d runs, %v; want some, the newest among them", len(again.Runs), err)
	}
	if len(s.Runs) != historyLength {
		t.Error("writing the state has changed it")
	}
}

// The longest state of a user fits, whatever else there is; the oldest runs make room for it.
func TestStateOfAUserFits(t *testing.T) {
	long := shorten(strings.Repeat(`"`, 4000))
	s := jobState{Schedule: long, About: long, User: bytes.Repeat([]byte{0xff}, maxKept)}
	for i := range historyLength {
		s.add(RunRecord{Attempt: i, Error: long})
	}
	b := s.json()
	again, err := parseJobState(b)
	if err != nil || len(b) > store.MaxState || !bytes.Equal(again.User, s.User) || len(again.Runs) < historyLength/2 || again.Runs[len(again.Runs)-1].Attempt != historyLength-1 {
		t.Errorf("%d bytes, a state of %d bytes, %d runs, %v", len(b), len(again.User), len(again.Runs), err)
	}
}

// What is read of a state when only its head is read is what all of it says.
func TestHeadOfAState(t *testing.T) {
	s := jobState{Since: 1, Forgot: 6, Pending: -2, Ended: 3, Trigger: 4, Runs: []RunRecord{{Token: 5}}}
	var head jobHead
	if err := json.Unmarshal(s.json(), &head); err != nil || head != s.head() || head != (jobHead{Since: 1, Forgot: 6, Pending: -2, Ended: 3, Trigger: 4}) {
		t.Errorf("read %+v, %v, want %+v", head, err, s.head())
	}
}

// A job that was claimed without success gets a note of the time that was claimed, if its record does not have it already.
func TestNoteOfAClaimWithoutSuccess(t *testing.T) {
	at := time.UnixMilli(7_000_000)
	asked, unknown := trip{at, at, 0}, trip{}
	for name, test := range map[string]struct {
		claimed, mark int64
		state         string
		expired       time.Duration
		trip          trip
		want          string // "" leaves the state
	}{
		"noted":                                {5000, 1000, `{"since":1}`, 0, asked, `{"since":1,"claimed":5000,"asked":7000000}`},
		"when is not known":                    {5000, 1000, `{"since":1}`, 0, unknown, `{"since":1,"claimed":5000}`},
		"a later one than noted":               {5000, 1000, `{"claimed":4999,"asked":3}`, 0, asked, `{"claimed":5000,"asked":7000000}`},
		"noted before":                         {5000, 1000, `{"claimed":5000,"asked":3}`, 0, asked, ""},
		"a later one was noted":                {5000, 1000, `{"claimed":6000,"asked":3}`, 0, asked, ""},
		"done":                                 {5000, 5000, `{"since":1}`, 0, asked, ""},
		"for a manual run":                     {0, 0, `{"since":1}`, 0, asked, ""},
		"no record before":                     {5000, 0, ``, second, asked, ""},
		"not ours":                             {5000, 1000, `page 7`, second, asked, ""},
		"after a death":                        {5000, 1000, `{"since":1}`, second, asked, `{"since":1,"claimed":5000,"asked":7000000,"died":6999000}`},
		"done, after a death":                  {5000, 5000, `{"since":1}`, second, asked, `{"since":1,"died":6999000}`},
		"after a death, told late":             {5000, 5000, `{"since":1}`, second, trip{at, at.Add(5 * second), 0}, `{"since":1,"died":6999000,"spread":5000}`},
		"after a death, told in a moment":      {5000, 5000, `{"since":1}`, second, trip{at, at.Add(1), 0}, `{"since":1,"died":6999000,"spread":1}`},
		"after a second death":                 {5000, 5000, `{"died":3,"spread":2}`, second, asked, ""},
		"after a death long before":            {5000, 5000, `{"since":1}`, 2 * time.Hour, asked, `{"since":1,"died":1}`},
		"after a death, and when is not known": {5000, 1000, `{"since":1}`, second, unknown, `{"since":1,"claimed":5000}`},
	} {
		got := claimedInVain(store.Claim{Mark: test.claimed}, store.Grant{Mark: test.mark, State: []byte(test.state), ExpiredAge: test.expired}, test.trip)
		if string(got) != test.want || (got == nil) != (test.want == "") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A state that no replica can have written is not read, and one with the greatest numbers is; none makes a time overflow.
func TestNumbersInAState(t *testing.T) {
	for _, field := range []string{"grace", "attempts", "next", "begun", "claimed", "asked", "died", "spread", "since", "pending", "ended", "trigger"} {
		for number, valid := range map[string]bool{"0": true, "9007199254740992": true, "9007199254740993": false, "-1": field == "pending"} {
			s, err := parseJobState([]byte(`{"` + field + `":` + number + `}`))
			if (err == nil) != valid || s.grace() <= 0 {
				t.Errorf("%s %s: %v, grace %v", field, number, err, s.grace())
			}
		}
	}
}

// What no shortening makes fit is given to the store, which refuses it. Characters of HTML count as one byte.
func TestStateThatCannotFit(t *testing.T) {
	if b := (&jobState{User: make([]byte, store.MaxState), Runs: make([]RunRecord, 3)}).json(); len(b) <= store.MaxState {
		t.Errorf("%d bytes", len(b))
	}
	s := jobState{}
	s.add(RunRecord{Error: strings.Repeat("<", 900) + strings.Repeat("\x00", 90) + strings.Repeat("é", 100)})
	if b := s.json(); !strings.Contains(string(b), strings.Repeat("<", 900)+strings.Repeat(" ", 90)) || !strings.HasSuffix(s.Runs[0].Error, "…") {
		t.Errorf("%s", b)
	}
}

// Two states that go on from one do not share its history.
func TestHistoriesAreNotShared(t *testing.T) {
	before := jobState{Runs: append(make([]RunRecord, 0, 10), RunRecord{Token: 1, Output: strings.Repeat("x", mostOutput)})}
	one, two := before, before
	one.add(RunRecord{Token: 2})
	two.add(RunRecord{Token: 3, Output: strings.Repeat("y", mostOutputs)})
	if one.Runs[1].Token != 2 || two.Runs[1].Token != 3 || len(before.Runs[0].Output) != mostOutput || two.Runs[0].Output != "" {
		t.Errorf("one ends with the run of token %d, the other one with %d; what they began with has an output of %d bytes",
			one.Runs[1].Token, two.Runs[1].Token, len(before.Runs[0].Output))
	}
}

// The note of a claim without success is made in each namespace, and for jobs alone.
func TestWhatIsGivenBackOfAJob(t *testing.T) {
	for _, namespace := range []string{"", "invoices"} {
		c, err := New(memstore.New(), Config{Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for kind, noted := range map[string]bool{kindJob: true, kindLock: false, kindLeader: false} {
			name, err := c.names.name(kind, "tick")
			if err != nil {
				t.Fatal(err)
			}
			rel := c.releaseOfGrant(store.Claim{Name: name, Mark: 5000}, store.Grant{Token: 7, Mark: 1000, State: []byte(`{"since":1}`)}, time.Time{})
			if got := string(rel.State) == `{"since":1,"claimed":5000}`; got != noted || !noted && rel.State != nil || rel.Token != 7 || rel.Name != name {
				t.Errorf("%q is given back with %+v", name, rel)
			}
		}
	}
}
