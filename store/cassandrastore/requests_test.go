package cassandrastore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
)

// A counter counts the statements about a table that the driver has sent.
type counter struct{ transactions, reads atomic.Int64 }

func (c *counter) ObserveQuery(_ context.Context, q gocql.ObservedQuery) {
	if strings.Contains(q.Statement, "SELECT") {
		c.reads.Add(1)
		return
	}
	c.transactions.Add(1)
}

// TestRequests: what each verb costs is what the documentation says.
func TestRequests(t *testing.T) {
	server := shared(t)
	_, cfg := server.fresh(t)
	var c counter
	observed := cluster(server.Addr, "cassandra", "cassandra")
	observed.QueryObserver = &c
	session, err := observed.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	s, other, third := on(t, session, cfg), on(t, session, cfg), on(t, session, cfg)
	for _, s := range []*cassandrastore.Store{s, other, third} { // the table is looked at before the first request
		if err := s.Ping(background); err != nil {
			t.Fatal(err)
		}
	}
	var token int64
	claim := func(s *cassandrastore.Store, holder string, want error) func() {
		return func() {
			outcomes, err := s.Acquire(background, []store.Claim{{Name: "a", Holder: holder, TTL: time.Hour}})
			if err == nil {
				err = outcomes[0].Err
			}
			if !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			if err == nil {
				token = outcomes[0].Grant.Token
			}
		}
	}
	extend := func() {
		errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: token, TTL: time.Hour}})
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	release := func() {
		errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: token, Retain: store.Forever}})
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		verb                string
		do                  func()
		transactions, reads int64
	}{
		{"acquire a new name", claim(s, "x", nil), 1, 1}, // the floor is read
		{"be refused a name that this process has not seen", claim(other, "y", store.ErrHeld), 1, 0},
		{"be refused a name that it has seen", claim(other, "y", store.ErrHeld), 0, 1},
		{"extend", extend, 1, 0},
		{"release", release, 1, 0},
		{"acquire the name that this process released last", claim(s, "x", nil), 1, 0},
		{"release it again", release, 1, 0},
		{"acquire a free name that this process has not seen as it is", claim(third, "x", nil), 2, 0},
		{"release it there", func() {
			errs, err := third.Release(background, []store.Release{{Name: "a", Holder: "x", Token: token, Retain: store.Forever}})
			if err := errors.Join(append(errs, err)...); err != nil {
				t.Fatal(err)
			}
		}, 1, 0},
		{"acquire a free name that another process has had since this one released it", claim(s, "x", nil), 2, 0},
	} {
		transactions, reads := c.transactions.Load(), c.reads.Load()
		step.do()
		if transactions, reads = c.transactions.Load()-transactions, c.reads.Load()-reads; transactions != step.transactions || reads != step.reads {
			t.Errorf("to %s took %d transactions and %d reads; want %d and %d", step.verb, transactions, reads, step.transactions, step.reads)
		}
	}
}
