package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/dynamostore"
)

// A cost is what a verb takes of the service.
type cost struct {
	requests    int
	write, read float64 // capacity units
	other       bool    // there was a request that is neither a read nor a write
}

// A meter asks the server for the units of each request, and adds them up.
type meter struct {
	mu   sync.Mutex
	cost cost
}

func (m *meter) install(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("units", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		switch p := in.Parameters.(type) {
		case *dynamodb.GetItemInput:
			p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		case *dynamodb.BatchGetItemInput:
			p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		case *dynamodb.ScanInput:
			p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		case *dynamodb.PutItemInput:
			p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		case *dynamodb.UpdateItemInput:
			p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		case *dynamodb.DeleteItemInput:
			p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		}
		out, metadata, err := next.HandleInitialize(ctx, in)
		m.count(out.Result, err)
		return out, metadata, err
	}), middleware.Before)
}

// count adds a response. One to a write whose condition failed has no units; the service bills that write as any other:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html#WorkingWithItems.ConditionalUpdate.
func (m *meter) count(result any, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cost.requests++
	if conflict := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &conflict) {
		m.cost.write++
		return
	}
	switch r := result.(type) {
	case *dynamodb.GetItemOutput:
		m.cost.read += *r.ConsumedCapacity.CapacityUnits
	case *dynamodb.BatchGetItemOutput:
		for _, c := range r.ConsumedCapacity {
			m.cost.read += *c.CapacityUnits
		}
	case *dynamodb.ScanOutput:
		m.cost.read += *r.ConsumedCapacity.CapacityUnits
	case *dynamodb.PutItemOutput:
		m.cost.write += *r.ConsumedCapacity.CapacityUnits
	case *dynamodb.UpdateItemOutput:
		m.cost.write += *r.ConsumedCapacity.CapacityUnits
	case *dynamodb.DeleteItemOutput:
		m.cost.write += *r.ConsumedCapacity.CapacityUnits
	case *dynamodb.BatchExecuteStatementOutput: // DynamoDB Local returns no units of statements
	default:
		m.cost.other = true
	}
}

// of returns the cost of what f does.
func (m *meter) of(f func()) cost {
	m.mu.Lock()
	m.cost = cost{}
	m.mu.Unlock()
	f()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cost
}

// metered returns a store whose table has been checked, so that only the verbs are counted, and its meter.
func metered(t *testing.T, endpoint, table string) (*dynamostore.Store, *meter) {
	t.Helper()
	m := &meter{}
	c := client(endpoint)
	s, err := dynamostore.New(dynamodb.New(c.Options(), func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, m.install) }), dynamostore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range s.List(background, "") {
		t.Fatalf("%+v, %v in a new table", r, err)
	}
	return s, m
}

// TestUnits: what each verb costs, as the server counts it, is what the documentation says.
func TestUnits(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s, m := metered(t, server.Endpoint, table)
	other, seen := metered(t, server.Endpoint, table)
	third, newcomer := metered(t, server.Endpoint, table)
	var g store.Grant
	claim := func(s store.Store, holder string, want error) func() {
		return func() {
			out, err := s.Acquire(background, []store.Claim{{Name: "name", Holder: holder, TTL: time.Hour}})
			if err != nil || !errors.Is(out[0].Err, want) {
				t.Fatalf("%s: got %+v, %v, want %v", holder, out, err, want)
			}
			g = out[0].Grant
		}
	}
	settled := func(errs []error, err error) {
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Error(err)
		}
	}
	extend := func() {
		settled(s.Extend(background, []store.Extension{{Name: "name", Holder: "a", Token: g.Token, TTL: 2 * time.Hour}}))
	}
	release := func() {
		settled(s.Release(background, []store.Release{{Name: "name", Holder: "a", Token: g.Token, Retain: time.Hour}}))
	}
	first := m.of(claim(s, "a", nil))
	renewal, end := m.of(extend), m.of(release)
	stranger := seen.of(claim(other, "b", nil))
	settled(other.Release(background, []store.Release{{Name: "name", Holder: "b", Token: g.Token, Retain: time.Hour}}))
	claim(s, "a", nil)()
	release()
	again := m.of(claim(s, "a", nil))
	release()
	claim(other, "b", nil)()
	settled(other.Release(background, []store.Release{{Name: "name", Holder: "b", Token: g.Token, Retain: time.Hour}}))
	after := m.of(claim(s, "a", nil))
	claim(other, "b", store.ErrHeld)()
	refused := seen.of(claim(other, "b", store.ErrHeld))
	unseen := newcomer.of(claim(third, "b", store.ErrHeld))

	page, err := os.ReadFile("../../docs/stores/dynamodb.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what string
		cost cost
	}{
		{"acquire a new name", first},
		{"acquire a free name", again},
		{"acquire a free name", stranger},
		{"acquire a free name", after},
		{"a refused attempt, for a name that it has seen", refused},
		{"a refused attempt, for a name that it has not seen", unseen},
		{"renew, release", renewal},
		{"renew, release", end},
	} {
		line := fmt.Sprintf("\n| %s | %d | %v | %v |\n", row.what, row.cost.requests, row.cost.write, row.cost.read)
		if !strings.Contains(string(page), line) || row.cost.other {
			t.Errorf("the documentation lacks%s", line)
		}
	}
}

// TestRequestsOfBatches: a batch is a write for each 25 names.
func TestRequestsOfBatches(t *testing.T) {
	for _, n := range []int{2, 25, 26, 60, 101} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { requestsOfBatches(t, n) })
	}
}

func requestsOfBatches(t *testing.T, n int) {
	t.Helper()
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s, m := metered(t, server.Endpoint, table)
	claims, extensions, releases := make([]store.Claim, n), make([]store.Extension, n), make([]store.Release, n)
	for i := range n {
		claims[i] = store.Claim{Name: fmt.Sprint("name ", i), Holder: "a", TTL: time.Hour}
	}
	sure := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	acquired := m.of(func() {
		out, err := s.Acquire(background, claims)
		sure(err)
		for i, o := range out {
			sure(o.Err)
			extensions[i] = store.Extension{Name: claims[i].Name, Holder: "a", Token: o.Grant.Token, TTL: 2 * time.Hour}
			releases[i] = store.Release{Name: claims[i].Name, Holder: "a", Token: o.Grant.Token, Retain: time.Hour}
		}
	})
	renewed := m.of(func() {
		errs, err := s.Extend(background, extensions)
		sure(errors.Join(append(errs, err)...))
	})
	released := m.of(func() {
		errs, err := s.Release(background, releases)
		sure(errors.Join(append(errs, err)...))
	})
	writes, units := (n+24)/25, 0.0
	if n%25 == 1 { // one that is left over is no statement, and the server tells its unit
		units = 1
	}
	for what, pair := range map[string][2]cost{
		"acquiring": {acquired, {requests: writes + 1, write: units, read: 1}}, // and the floor
		"renewing":  {renewed, {requests: writes, write: units}},
		"releasing": {released, {requests: writes, write: units}},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s %d names costs %+v, want %+v", what, n, pair[0], pair[1])
		}
	}
}

// TestForgottenSinceItWasSeen: a process takes a name by what it remembers, and others have forgotten the record since. Its token is above the forgotten ones, and the
// record has nothing of what it remembers.
func TestForgottenSinceItWasSeen(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s, other := open(t, server.Endpoint, table), open(t, server.Endpoint, table)
	take := func(s store.Store, holder string) store.Grant {
		t.Helper()
		out, err := s.Acquire(background, []store.Claim{{Name: "name", Holder: holder, TTL: time.Hour}})
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
		return out[0].Grant
	}
	give := func(s store.Store, holder string, token, mark int64, retain time.Duration) {
		t.Helper()
		errs, err := s.Release(background, []store.Release{{Name: "name", Holder: holder, Token: token, Mark: mark, State: []byte("state"), Retain: retain}})
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	give(s, "a", take(s, "a").Token, 5, store.Forever)
	var last store.Grant
	for range 3 {
		last = take(other, "b")
		if last.Mark != 5 || string(last.State) != "state" {
			t.Errorf("got %+v, want what the release before has left", last)
		}
		give(other, "b", last.Token, 5, 0)
	}
	if n, err := other.Sweep(background, 10); n != 1 || err != nil {
		t.Fatalf("%d records were forgotten, %v", n, err)
	}
	if g := take(s, "c"); g.Token <= last.Token || g.Mark != 0 || len(g.State) != 0 {
		t.Errorf("got %+v after the token %d was forgotten with its record", g, last.Token)
	}
}
