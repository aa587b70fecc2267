package cassandrastore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
)

// TestExclusionByEffect: processes that add one to a plain number under a lock lose no addition.
func TestExclusionByEffect(t *testing.T) {
	const processes, each = 4, 6
	server := shared(t)
	_, cfg := server.fresh(t)
	number, tokens := 0, []int64(nil) // guarded by the lock alone
	var wait sync.WaitGroup
	for p := range processes {
		s := server.open(t, cfg)
		wait.Go(func() {
			for i := range each {
				claim := store.Claim{Name: "number", Holder: fmt.Sprintf("%d/%d", p, i), TTL: time.Hour}
				for {
					outcomes, err := s.Acquire(background, []store.Claim{claim})
					if err == nil {
						err = outcomes[0].Err
					}
					if errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrUnknown) {
						time.Sleep(time.Millisecond)
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					break
				}
				outcomes, err := s.Acquire(background, []store.Claim{claim})
				if err != nil || outcomes[0].Err != nil {
					t.Error(outcomes, err)
					return
				}
				number++
				tokens = append(tokens, outcomes[0].Grant.Token)
				errs, err := s.Release(background, []store.Release{{Name: "number", Holder: claim.Holder, Token: outcomes[0].Grant.Token, Retain: store.Forever}})
				if err := errors.Join(append(errs, err)...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if number != processes*each {
		t.Errorf("counted to %d, want %d", number, processes*each)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Fatalf("token %d after %d", tokens[i], tokens[i-1])
		}
	}
}

// TestNoTombstones: acquiring, extending and releasing write no null, of which Cassandra would keep a tombstone each time.
func TestNoTombstones(t *testing.T) {
	server := shared(t)
	s, cfg := server.fresh(t)
	complete := func(after string) {
		t.Helper()
		columns, err := server.session.Query(`SELECT * FROM ` + cfg.Keyspace + `.soloist WHERE name = 'a'`).Iter().RowData()
		if err != nil {
			t.Fatal(err)
		}
		rows := server.session.Query(`SELECT * FROM ` + cfg.Keyspace + `.soloist WHERE name = 'a'`).Iter()
		values := make([][]byte, len(columns.Columns))
		into := make([]any, len(values))
		for i := range values {
			into[i] = &raw{&values[i]}
		}
		if !rows.Scan(into...) {
			t.Fatalf("after the %s: %v", after, rows.Close())
		}
		for i, v := range values {
			if v == nil {
				t.Errorf("after the %s: %s is null", after, columns.Columns[i])
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	grant, err := acquire(background, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	complete("claim")
	if errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: grant.Token, TTL: time.Hour, State: []byte{}}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	complete("extension")
	if errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token, Retain: store.Forever}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	complete("release")
	if _, err := acquire(background, s, "a"); err != nil {
		t.Fatal(err)
	}
	complete("second claim")
}

// raw takes a column as it is: nil if it is null.
type raw struct{ to *[]byte }

// UnmarshalCQL implements gocql.Unmarshaler.
func (r *raw) UnmarshalCQL(_ gocql.TypeInfo, data []byte) error {
	*r.to = data
	return nil
}
