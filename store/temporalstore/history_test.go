package temporalstore

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
)

func inputOf(t testing.TB, e entry) *common.Payloads {
	t.Helper()
	p, err := e.payloads()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLog: of the writes that replace one version the first takes effect, whatever stands between, and whoever reads a longer history agrees.
func TestLog(t *testing.T) {
	granted := time.Unix(1, 0).UTC()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		l := newLog("n")
		l.write(inputOf(t, entry{Name: "n", Version: "v0", Holder: "h", Granted: &granted}))
		model, past := "v0", []string{"v0"}
		for i := range 40 {
			replaces := past[random.IntN(len(past))]
			if random.IntN(2) == 0 {
				replaces = model
			}
			e := entry{Name: "n", Version: fmt.Sprint("v", i+1), Replaces: replaces, Holder: "h", Granted: &granted}
			won := replaces == model
			if won {
				model = e.Version
			}
			past = append(past, e.Version)
			for range 1 + random.IntN(2) { // it may be carried out twice
				l.write(inputOf(t, e))
			}
			if l.current.Version != model || (l.took[e.Version] > 0) != won || (l.refused[e.Version] > 0) == won {
				t.Fatalf("seed %d: after %+v the current version is %q, want %q", seed, e, l.current.Version, model)
			}
		}
	}
}

// TestRefusedWritesAreCounted: a history becomes long by writes that are refused, too, and their senders continue it: of many clients on one name most are refused.
func TestRefusedWritesAreCounted(t *testing.T) {
	granted, begun := time.Unix(1, 0).UTC(), 0
	l := newLog("n")
	for i := range 2 * longEvents {
		e := entry{Name: "n", Version: fmt.Sprint("v", i), Replaces: "another", Holder: "h", Granted: &granted}
		l.addEvent(&history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, Attributes: &history.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
			WorkflowExecutionSignaledEventAttributes: &history.WorkflowExecutionSignaledEventAttributes{SignalName: signal, Input: inputOf(t, e)},
		}})
		if l.begins(e.Version) {
			begun++
		}
	}
	if want := longEvents/longEvery + 1; begun != want {
		t.Errorf("%d of %d writes begin the next run, want %d", begun, 2*longEvents, want)
	}
}

// TestForgottenLog: nothing takes effect after a record was forgotten.
func TestForgottenLog(t *testing.T) {
	granted := time.Unix(1, 0).UTC()
	l := newLog("n")
	l.write(inputOf(t, entry{Name: "n", Version: "v0", Holder: "h", Granted: &granted}))
	l.write(inputOf(t, entry{Name: "n", Version: "v1", Replaces: "v0", Deleted: true}))
	l.write(inputOf(t, entry{Name: "n", Version: "v2", Replaces: "v1", Holder: "h", Granted: &granted}))
	if item := l.item(); !l.gone() || item.Name != "n" || item.Version != "" || item.Err != nil || l.refused["v2"] == 0 {
		t.Errorf("got %+v, %+v, want no record", l, item)
	}
}

// TestLogOfOthers: a run that something else has started or written to has no record any more that could be granted,
// replaced or forgotten, whatever is written to it after that.
func TestLogOfOthers(t *testing.T) {
	of := func(version, replaces string) *common.Payloads {
		return inputOf(t, entry{Name: "n", Version: version, Replaces: replaces, Holder: "h", Granted: &granted})
	}
	other := inputOf(t, entry{Name: "m", Version: "v1", Replaces: "v0", Holder: "h", Granted: &granted})
	deletion := inputOf(t, entry{Name: "n", Version: "v1", Replaces: "v0", Deleted: true})
	const otherName = `it is of the name "m"`
	for what, c := range map[string]struct {
		inputs []*common.Payloads
		says   string
	}{
		"no start":                       {nil, "does not begin with its start"},
		"a start of something else":      {[]*common.Payloads{nil, of("v1", "v0")}, "0 payloads"},
		"a start of another name":        {[]*common.Payloads{other, of("v2", "v1")}, otherName},
		"a signal of something else":     {[]*common.Payloads{of("v0", ""), nil, of("v1", "v0")}, "0 payloads"},
		"a signal of another name":       {[]*common.Payloads{of("v0", ""), other, of("v3", "v0")}, otherName},
		"a signal to a forgotten record": {[]*common.Payloads{of("v0", ""), deletion, other}, otherName},
		"a signal after another odd one": {[]*common.Payloads{of("v0", ""), nil, other}, "0 payloads"},
	} {
		l := newLog("n")
		for _, input := range c.inputs {
			l.write(input)
		}
		l.add(&history.History{}) // the end of a page
		item := l.item()
		if item.Name != "n" || item.Version != "" || !strings.Contains(fmt.Sprint(item.Err), c.says) || l.gone() {
			t.Errorf("%s: got %+v, forgotten: %t; want an error that says %q", what, item, l.gone(), c.says)
		}
		if l.took["v2"]+l.took["v3"] > 0 {
			t.Errorf("%s: a later write took effect: %v", what, l.took)
		}
	}
	l := newLog("n")
	l.write(of("v8", "v7")) // as a run begins that continues another one
	if item := l.item(); item.Err != nil || item.Version != "v8" {
		t.Errorf("a run that continues another one: got %+v", item)
	}
}

// TestWaysToEnd: however something else has ended a run, the name is neither held nor free, and the error says how it was ended.
func TestWaysToEnd(t *testing.T) {
	granted := time.Unix(1, 0).UTC()
	for _, test := range []struct {
		event enums.EventType
		says  string
	}{
		{enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, "was completed by"},
		{enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, "was failed by"},
		{enums.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT, "was timed out by"},
		{enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, "was canceled by"},
		{enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, "was terminated by"},
	} {
		l := newLog("n")
		l.write(inputOf(t, entry{Name: "n", Version: "v0", Holder: "h", Granted: &granted}))
		l.addEvent(&history.HistoryEvent{EventType: test.event})
		if item := l.item(); item.Err == nil || item.Version != "" || l.moved || l.gone() || !strings.Contains(item.Err.Error(), test.says) {
			t.Errorf("%v: %+v, want an error that says %q", test.event, item, test.says)
		}
	}
}

// TestWorkflowIDs: two names that differ in a byte have two IDs that differ in more than case, none is longer than what databases take, and short ones are readable.
func TestWorkflowIDs(t *testing.T) {
	cfg := Config{Prefix: "soloist"}
	if id := cfg.workflowID("app/job-1"); id != "soloist:app/job-1" {
		t.Errorf("the ID is %q", id)
	}
	for length, whole := range map[int]bool{longestID - len("soloist:"): true, longestID - len("soloist:") + 1: false} {
		if name, ok := cfg.nameOf(cfg.workflowID(strings.Repeat("y", length))); ok != whole || whole && len(name) != length {
			t.Errorf("the ID of a name of %d bytes has the whole name: %t, want %t", length, ok, whole)
		}
	}
	long := strings.Repeat("x", 254)
	seen := map[string]string{}
	for _, name := range []string{"a", "A", "%41", "%61", "a ", "ä", "a\u0308", "~", "a~", long + "a", long + "b", strings.Repeat("Ä", 120), strings.Repeat("ä", 120), "\x01floor"} {
		id := cfg.workflowID(name)
		if other, ok := seen[id]; ok || len(id) > longestID || id != strings.ToLower(id) {
			t.Errorf("the ID of %q is %q, which is that of %q, too", name, id, other)
		}
		seen[id] = name
		if got, ok := cfg.nameOf(id); ok && got != name || !ok && len(name) < 80 {
			t.Errorf("the name of %q is %q, %v, want %q", id, got, ok, name)
		}
	}
}

// FuzzParse: what is no entry is an error, and what is one is written as it was read.
func FuzzParse(f *testing.F) {
	f.Add(`{"name":"n","version":"v","holder":"h","token":1,"ttl_ns":1,"granted_at":"2026-01-02T03:04:05Z"}`)
	f.Add(`{"name":"n","version":"v","replaces":"u","deleted":true}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parse(&common.Payloads{Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(text)}}})
		if err != nil {
			return
		}
		again, err := parse(inputOf(t, e))
		first, _ := json.Marshal(e)
		second, _ := json.Marshal(again)
		if err != nil || string(first) != string(second) {
			t.Errorf("%s was read as %s, %v", first, second, err)
		}
	})
}
