package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A record with a time that JSON cannot have, as by a clock that is far ahead, keeps no other one of its list back.
func TestListsWithTimesFarAhead(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{})
	s.runJob("report", func(context.Context, soloist.Run) error { return nil })
	s.trigger("report")
	for name, state := range map[string]string{
		"job/delayed":     `{"schedule":"@delay 1h","ended":9007199254740991,"since":1}`,
		"job/late":        `{"schedule":"@at 9999-12-31T23:59:59-12:00","since":1}`,
		"job/paused":      `{"schedule":"@every 1h","since":1}`,
		"control/paused":  `{"paused":{"reason":"r","by":"b","at":"9999-12-31T23:59:59-12:00"}}`,
		"replica/far":     `{"replica":"far","started":9007199254740991,"jobs":1}`,
		"replica/further": `{"replica":"further","started":-9223372036854775808,"jobs":1}`,
	} {
		outs, err := s.store.Acquire(t.Context(), []store.Claim{{Name: name, Holder: "a#1", TTL: time.Hour}})
		if err == nil {
			err = outs[0].Err
		}
		if err != nil {
			t.Fatal(err)
		}
		token := outs[0].Grant.Token
		left := store.Release{Name: name, Holder: "a#1", Token: token, State: []byte(state), Retain: soloist.Forever}
		if strings.HasPrefix(name, "replica/") {
			e := store.Extension{Name: name, Holder: "a#1", Token: token, TTL: time.Hour, State: []byte(state)}
			_, err = s.store.Extend(t.Context(), []store.Extension{e})
		} else {
			_, err = s.store.Release(t.Context(), []store.Release{left})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string][]string{
		"/v1/jobs":         {"report", "delayed", "late", "paused"},
		"/v1/jobs/delayed": {"9999"},
		"/v1/jobs/late":    {"9999"},
		"/v1/jobs/paused":  {"9999"},
		"/v1/replicas":     {"runner", "far", "further", "0000-01-01", "9999"},
		"/jobs":            {"delayed"},
		"/job?name=late":   {"late"},
		"/replicas":        {"further"},
	} {
		a := s.send("GET", path, nil)
		if a.status != 200 {
			t.Errorf("%s: %d %.300s", path, a.status, a.body)
		}
		for _, name := range want {
			if !strings.Contains(string(a.body), name) {
				t.Errorf("%s has no %q: %.2000s", path, name, a.body)
			}
		}
	}
}
