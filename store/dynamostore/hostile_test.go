package dynamostore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/dynamostore"
	"github.com/soloist-dev/soloist/test/servers"
)

// scripted returns a store on a server that responds to each operation as a function has it.
func scripted(t *testing.T, respond func(operation, request string) (status int, body string)) *dynamostore.Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		request, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		status, body := respond(operation, string(request))
		if status == 0 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return open(t, server.URL, "soloist")
}

const goodTable = `{"Table": {"TableName": "soloist", "TableStatus": "ACTIVE", "KeySchema": [{"AttributeName": "name", "KeyType": "HASH"}],
	"AttributeDefinitions": [{"AttributeName": "name", "AttributeType": "S"}]%s}}`

func failure(code string) string {
	return fmt.Sprintf(`{"__type": "com.amazonaws.dynamodb.v20120810#%s", "message": "so it is"}`, code)
}

// taken is the response to an update that takes a name.
func taken(t *testing.T, request string) string {
	t.Helper()
	var r struct{ ExpressionAttributeValues map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		t.Error(err)
	}
	v := r.ExpressionAttributeValues
	return fmt.Sprintf(`{"Attributes": {"name": {"S": "a"}, "holder": %s, "token": {"N": "1"}, "mark": {"N": "0"}, "ttl_ns": %s, "released": %s, "version": %s, "granted_at": %s}}`,
		v[":holder"], v[":ttl"], v[":released"], v[":version"], v[":granted"])
}

func acquire(s *dynamostore.Store, names ...string) ([]store.Outcome, error) {
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = store.Claim{Name: name, Holder: "x", TTL: time.Minute}
	}
	return s.Acquire(background, claims)
}

// first is the error of the first claim.
func first(outcomes []store.Outcome, err error) error {
	if err == nil {
		err = outcomes[0].Err
	}
	return err
}

// TestWhatErrorsMean: an error tells whether something may have been written, and what to do.
func TestWhatErrorsMean(t *testing.T) {
	for _, test := range []struct {
		rule, operation string
		status          int
		body            string
		is, isNot       error
		says            string
	}{
		{"the write was refused", "UpdateItem", 400, failure("ValidationException"), nil, store.ErrUnknown, ""},
		{"a proxy gave up the write after it had passed it on", "UpdateItem", 408, "", store.ErrUnknown, nil, ""},
		{"a proxy gave up the write, and says so in HTML", "UpdateItem", 408, "<html>", store.ErrUnknown, nil, ""},
		{"a proxy gave up the write, and says so in JSON", "UpdateItem", 408, `{"message": "stream timeout"}`, store.ErrUnknown, nil, ""},
		{"the write failed inside the service", "UpdateItem", 500, failure("InternalServerError"), store.ErrUnknown, nil, ""},
		{"the write's connection broke", "UpdateItem", 0, "", store.ErrUnknown, nil, "if the endpoint has TLS, write https:"},
		{"the response to the write is nonsense", "UpdateItem", 200, "<html>", store.ErrUnknown, nil, "does not speak as DynamoDB does"},
		{"the write returned nothing", "UpdateItem", 200, "{}", store.ErrUnknown, nil, "name"},
		{"the write returned what another has written", "UpdateItem", 200, taken(t, `{"ExpressionAttributeValues": {":holder": {"S": "y"}, ":ttl": {"N": "60000000000"}, ":released": {"BOOL": false}, ":version": {"S": "other"}, ":granted": {"S": "2026-01-01T00:00:00Z"}}}`),
			store.ErrUnknown, nil, "not the one that it was asked to make"},
		{"the write is not allowed", "UpdateItem", 400, failure("AccessDeniedException"), fs.ErrPermission, store.ErrUnknown, "docs/stores/dynamodb.md"},
		{"the credentials are wrong", "UpdateItem", 400, failure("UnrecognizedClientException"), fs.ErrPermission, store.ErrUnknown, "does not accept the credentials"},
		{"the signature is wrong", "UpdateItem", 400, failure("InvalidSignatureException"), fs.ErrPermission, store.ErrUnknown, "check them, and the clock of this machine"},
		{"the signature is incomplete", "UpdateItem", 400, failure("IncompleteSignatureException"), fs.ErrPermission, store.ErrUnknown, "does not accept the credentials"},
		{"nothing is signed", "UpdateItem", 400, failure("MissingAuthenticationTokenException"), fs.ErrPermission, store.ErrUnknown, "does not accept the credentials"},
		{"the key is that of nobody", "UpdateItem", 403, failure("InvalidClientTokenId"), fs.ErrPermission, store.ErrUnknown, "does not accept the credentials"},
		{"a first look that fails in the service", "DescribeTable", 500, failure("InternalServerError"), nil, store.ErrUnknown, "looking at the table"},
		{"a first look that returns nothing", "DescribeTable", 200, "{}", nil, store.ErrUnknown, "looking at the table: the server returned no item"},
		{"the credentials have expired", "UpdateItem", 400, failure("ExpiredTokenException"), fs.ErrPermission, store.ErrUnknown, "get new credentials"},
		{"the table has gone", "UpdateItem", 400, failure("ResourceNotFoundException"), store.ErrSchema, store.ErrUnknown, "soloist migrate up"},
		{"the table is not there", "DescribeTable", 400, failure("ResourceNotFoundException"), store.ErrSchema, store.ErrUnknown, "soloist migrate up"},
		{"everything is throttled", "DescribeTable", 400, failure("ProvisionedThroughputExceededException"), nil, store.ErrUnknown, "on-demand"},
		{"a global table", "DescribeTable", 200, fmt.Sprintf(goodTable, `, "Replicas": [{"RegionName": "eu-west-1"}]`), store.ErrUnusable, store.ErrUnknown, "use a table in one region"},
		{"another table", "DescribeTable", 200, strings.ReplaceAll(fmt.Sprintf(goodTable, ""), `"name"`, `"id"`), store.ErrSchema, store.ErrUnknown, `its key is not the text "name" alone`},
		{"a table with a second key", "DescribeTable", 200, strings.Replace(fmt.Sprintf(goodTable, ""), `"HASH"}`, `"HASH"}, {"AttributeName": "version", "KeyType": "RANGE"}`, 1),
			store.ErrSchema, store.ErrUnknown, "alone"},
		{"a table whose key is a number", "DescribeTable", 200, strings.Replace(fmt.Sprintf(goodTable, ""), `"AttributeType": "S"`, `"AttributeType": "N"`, 1), store.ErrSchema, store.ErrUnknown, "alone"},
		{"a table that tells no key", "DescribeTable", 200, `{"Table": {"TableName": "soloist", "TableStatus": "ACTIVE"}}`, store.ErrSchema, store.ErrUnknown, "alone"},
	} {
		t.Run(test.rule, func(t *testing.T) {
			var sent atomic.Int64
			s := scripted(t, func(operation, request string) (int, string) {
				switch operation {
				case test.operation:
					sent.Add(1)
					return test.status, test.body
				case "DescribeTable":
					return 200, fmt.Sprintf(goodTable, "")
				}
				return 200, "{}"
			})
			outcomes, err := acquire(s, "a")
			if err == nil {
				err = outcomes[0].Err
			}
			if err == nil || test.is != nil && !errors.Is(err, test.is) || test.isNot != nil && errors.Is(err, test.isNot) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error that is %v and not %v, and says %q", err, test.is, test.isNot, test.says)
			}
			if n := sent.Load(); test.operation == "UpdateItem" && n != 1 { // the second would hide what became of the first
				t.Errorf("the write was sent %d times", n)
			}
		})
	}
}

// TestEachStatementHasItsOutcome: of a batch, one that failed inside the service is unknown, and one that was refused because there were too many is sent again.
func TestEachStatementHasItsOutcome(t *testing.T) {
	var again atomic.Int64
	s := scripted(t, func(operation, request string) (int, string) {
		switch operation {
		case "DescribeTable":
			return 200, fmt.Sprintf(goodTable, "")
		case "BatchExecuteStatement":
			return 200, `{"Responses": [{}, {"Error": {"Code": "InternalServerError"}}, {"Error": {"Code": "ThrottlingError"}}]}`
		case "PutItem":
			again.Add(1)
		}
		return 200, "{}"
	})
	outcomes, err := acquire(s, "a", "b", "c")
	if err != nil || outcomes[0].Err != nil || !errors.Is(outcomes[1].Err, store.ErrUnknown) || outcomes[2].Err != nil || again.Load() != 1 {
		t.Errorf("got %+v, %v with %d statements sent again, want an unknown outcome of b alone, and c sent again", outcomes, err, again.Load())
	}
}

// TestStatementsThatAreRefused: a statement of a batch that is refused has the meaning and the words that a single write has.
func TestStatementsThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		statement, write string // what the service calls it
		is               error
		says             string
	}{
		{"AccessDenied", "AccessDeniedException", fs.ErrPermission, "docs/stores/dynamodb.md"},
		{"ResourceNotFound", "ResourceNotFoundException", store.ErrSchema, "soloist migrate up"},
	} {
		t.Run(test.statement, func(t *testing.T) {
			s := scripted(t, func(operation, request string) (int, string) {
				switch operation {
				case "DescribeTable":
					return 200, fmt.Sprintf(goodTable, "")
				case "BatchExecuteStatement":
					return 200, fmt.Sprintf(`{"Responses": [{}, {"Error": {"Code": %q, "Message": "so it is"}}]}`, test.statement)
				case "UpdateItem", "PutItem":
					return 400, failure(test.write)
				}
				return 200, "{}"
			})
			outcomes, err := acquire(s, "a", "b")
			if err != nil || outcomes[0].Err != nil {
				t.Fatal(outcomes, err)
			}
			single, err := acquire(s, "b")
			if err == nil {
				err = single[0].Err
			}
			for what, err := range map[string]error{"of a batch": outcomes[1].Err, "single": err} {
				if !errors.Is(err, test.is) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), test.write+": so it is") {
					t.Errorf("%s: %v, want an error that is %v, and says %q", what, err, test.is, test.says)
				}
			}
		})
	}
}

// TestConflictThatTellsNoItem: of a statement that was refused because there is an item, but which the service does not return, the item is read: who has the name is told, not that nobody
// has it.
func TestConflictThatTellsNoItem(t *testing.T) {
	respond := func(operation, request string) (int, string) {
		switch operation {
		case "DescribeTable":
			return 200, fmt.Sprintf(goodTable, "")
		case "BatchExecuteStatement":
			return 200, `{"Responses": [{"Error": {"Code": "DuplicateItem"}}, {}]}`
		case "UpdateItem", "PutItem":
			return 400, failure("ConditionalCheckFailedException")
		case "GetItem":
			return 200, `{"Item": ` + itemHeld("a") + `}`
		}
		return 400, failure("ValidationException")
	}
	for what, claims := range map[string][]store.Claim{
		"two":                {{Name: "a", Holder: "y", TTL: time.Hour}, {Name: "b", Holder: "y", TTL: time.Hour}},
		"one":                {{Name: "a", Holder: "y", TTL: time.Hour}},
		"one above a number": {{Name: "a", Holder: "y", TTL: time.Hour, Above: 7}},
	} {
		outcomes, err := scripted(t, respond).Acquire(background, claims) // which has not seen the name
		if err != nil {
			t.Fatal(what, err)
		}
		var held *store.HeldError
		if !errors.As(outcomes[0].Err, &held) || held.Record.Holder != "x" {
			t.Errorf("%s: got %v, want that x holds a", what, outcomes[0].Err)
		}
	}
}

// TestLeaseThatTheConflictDoesNotTell: an extension and a release that are refused without the item, because one before
// them took effect whose reply was lost, are not those of a lost lease: the item is read.
func TestLeaseThatTheConflictDoesNotTell(t *testing.T) {
	for what, do := range map[string]func(s *dynamostore.Store) ([]error, error){
		"an extension": func(s *dynamostore.Store) ([]error, error) {
			return s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: 1, TTL: time.Hour}})
		},
		"a release": func(s *dynamostore.Store) ([]error, error) {
			return s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: 1}})
		},
	} {
		writes, item := 0, itemHeld("a")
		s := scripted(t, func(operation, request string) (int, string) {
			switch operation {
			case "DescribeTable":
				return 200, fmt.Sprintf(goodTable, "")
			case "GetItem":
				return 200, `{"Item": ` + item + `}`
			case "PutItem":
				switch writes++; writes {
				case 1: // it takes effect, and nobody learns of it
					_, item, _ = strings.Cut(request, `"Item":`)
					end := json.NewDecoder(strings.NewReader(item))
					var written json.RawMessage
					if err := end.Decode(&written); err != nil {
						t.Error(err)
					}
					item = string(written)
					return 500, failure("InternalServerError")
				case 2:
					return 400, failure("ConditionalCheckFailedException")
				}
				return 200, "{}"
			}
			return 400, failure("ValidationException")
		})
		for _, want := range []error{store.ErrUnknown, nil} {
			if errs, err := do(s); err != nil || !errors.Is(errs[0], want) {
				t.Errorf("%s: %v, %v, want %v", what, errs, err, want)
			}
		}
	}
}

// TestPagesWithoutItems: a page of a scan that has no item, because none of those that were looked at is asked for, is not the last one.
func TestPagesWithoutItems(t *testing.T) {
	var scans atomic.Int64
	s := scripted(t, func(operation, request string) (int, string) {
		switch operation {
		case "DescribeTable":
			return 200, fmt.Sprintf(goodTable, "")
		case "Scan":
			if scans.Add(1)%3 > 0 {
				return 200, `{"Items": [], "LastEvaluatedKey": {"name": {"S": "somewhere"}}}`
			}
			return 200, `{"Items": [` + itemHeld("a") + `]}`
		}
		return 400, failure("ValidationException")
	})
	var names []string
	for r, err := range s.List(background, "a") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"a"}) {
		t.Errorf("a list has %q after two pages without an item, want a", names)
	}
	if _, err := s.Sweep(background, 10); err != nil || scans.Load() != 6 {
		t.Errorf("%d pages were read, %v, want 3 by the list and 3 by the sweep", scans.Load(), err)
	}
}

// TestThrottledToTheEnd: a write that was refused each time, because there were too many, until its caller gave up, has surely had no effect.
func TestThrottledToTheEnd(t *testing.T) {
	s := scripted(t, func(operation, request string) (int, string) {
		if operation == "DescribeTable" {
			return 200, fmt.Sprintf(goodTable, "")
		}
		return 400, failure("ThrottlingException")
	})
	for patience := 100 * time.Millisecond; patience < time.Minute; patience = patience * 3 / 2 {
		ctx, cancel := context.WithTimeout(background, patience)
		outcomes, err := s.Acquire(ctx, []store.Claim{{Name: "a", Holder: "x", TTL: time.Hour}})
		cancel()
		if err == nil {
			err = outcomes[0].Err
		}
		if err == nil {
			t.Fatal("granted")
		}
		if !errors.Is(err, store.ErrUnknown) && strings.Contains(err.Error(), "on-demand") {
			return // otherwise a request was under way at the end: it may be again where each takes longer than the time
		}
	}
	t.Error("no claim is told as refused")
}

// TestNoRightToLook: without the right to describe the table a store works, and promises no fencing.
func TestNoRightToLook(t *testing.T) {
	s := scripted(t, func(operation, request string) (int, string) {
		if operation == "DescribeTable" {
			return 400, failure("AccessDeniedException")
		}
		if operation == "UpdateItem" {
			return 200, taken(t, request)
		}
		return 200, "{}"
	})
	if outcomes, err := acquire(s, "a"); err != nil || outcomes[0].Err != nil {
		t.Errorf("got %v, %v, want a grant", outcomes, err)
	}
	c, err := s.Capabilities(background)
	if err != nil || c.Fencing.Answer != store.Unknown {
		t.Errorf("got %+v, %v, want unknown", c, err)
	}
}

// TestALookThatWasRefused: a process that cannot look at its table yet, with credentials that have expired or a right that comes later, looks when it can: it does not use a global table.
func TestALookThatWasRefused(t *testing.T) {
	for _, test := range []struct {
		code   string
		works  bool // meanwhile
		writes int64
	}{
		{"ExpiredTokenException", false, 0},
		{"UnrecognizedClientException", false, 0},
		{"AccessDeniedException", true, 1},
	} {
		t.Run(test.code, func(t *testing.T) {
			var looks, writes atomic.Int64
			s := scripted(t, func(operation, request string) (int, string) {
				switch operation {
				case "DescribeTable":
					if looks.Add(1) == 1 {
						return 400, failure(test.code)
					}
					return 200, fmt.Sprintf(goodTable, `, "Replicas": [{"RegionName": "eu-west-1"}]`)
				case "UpdateItem":
					writes.Add(1)
					return 200, taken(t, request)
				}
				return 200, "{}"
			})
			err := first(acquire(s, "a"))
			if test.works && err != nil || !test.works && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("before it can look: %v", err)
			}
			if test.works {
				dynamostore.LaterLook(s)
			}
			if err := first(acquire(s, "b")); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("when it can look: %v, want that the table cannot be used", err)
			}
			if n := writes.Load(); n != test.writes {
				t.Errorf("%d writes were sent, want %d", n, test.writes)
			}
		})
	}
}

// TestALaterLookThatFails: a process that may not look at its table works on, however a later look fails: what answers that can be away alone. Only one request
// looks, and when it succeeds at last a global table is used no more.
func TestALaterLookThatFails(t *testing.T) {
	var respond atomic.Pointer[func() (int, string)]
	answers := func(f func() (int, string)) { respond.Store(&f) }
	looking, goOn := make(chan struct{}, 9), make(chan struct{})
	s := scripted(t, func(operation, request string) (int, string) {
		switch operation {
		case "DescribeTable":
			return (*respond.Load())()
		case "UpdateItem":
			return 200, taken(t, request)
		}
		return 200, "{}"
	})
	claim := func(name string) error {
		ctx, cancel := context.WithTimeout(background, servers.Patience/10)
		defer cancel()
		return first(s.Acquire(ctx, []store.Claim{{Name: name, Holder: "x", TTL: time.Minute}}))
	}
	granted := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v, want a grant", what, err)
		}
	}
	answers(func() (int, string) { return 400, failure("AccessDeniedException") })
	granted("without the right to look", claim("a"))
	for what, answer := range map[string]func() (int, string){
		"it fails in the service": func() (int, string) { return 500, failure("InternalServerError") },
		"it is throttled":         func() (int, string) { return 400, failure("ThrottlingException") },
		"it is not answered":      func() (int, string) { looking <- struct{}{}; <-goOn; return 0, "" },
	} {
		answers(answer)
		dynamostore.LaterLook(s)
		looked := make(chan error, 1)
		go func() { looked <- claim("a") }()
		if what == "it is not answered" {
			<-looking
			granted("while another one looks", claim("b"))
		}
		granted("a look, and "+what, <-looked)
		granted("after a look, and "+what, claim("a"))
	}
	close(goOn)
	for _, bad := range []struct {
		table string
		is    error
	}{
		{fmt.Sprintf(goodTable, `, "Replicas": [{"RegionName": "eu-west-1"}]`), store.ErrUnusable},
		{strings.ReplaceAll(fmt.Sprintf(goodTable, ""), `"name"`, `"id"`), store.ErrSchema},
	} {
		answers(func() (int, string) { return 400, failure("AccessDeniedException") })
		granted("without the right to look again", claim("a"))
		answers(func() (int, string) { return 200, bad.table })
		dynamostore.LaterLook(s)
		for range 2 {
			if err := claim("a"); !errors.Is(err, bad.is) || errors.Is(err, store.ErrUnknown) {
				t.Errorf("when it can look: %v, want %v", err, bad.is)
			}
		}
	}
}

// unanswered is an HTTP client that has no answer to a look at the table, and takes a name at once.
type unanswered struct {
	t      *testing.T
	silent bool // else the look is not allowed
}

func (u *unanswered) Do(r *http.Request) (*http.Response, error) {
	request, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, body := 200, "{}"
	switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); {
	case operation == "UpdateItem":
		body = taken(u.t, string(request))
	case operation == "DescribeTable" && u.silent:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case operation == "DescribeTable":
		status, body = 400, failure("AccessDeniedException")
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// TestALaterLookLeavesTimeForTheRequest: a later look that is not answered takes a second of a claim's time, or half of it if that is less, and the claim is granted.
func TestALaterLookLeavesTimeForTheRequest(t *testing.T) {
	for has, want := range map[time.Duration]time.Duration{time.Minute: time.Second, time.Second: 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			through := &unanswered{t: t}
			options := client("http://127.0.0.1:1").Options()
			options.HTTPClient = through
			s, err := dynamostore.New(dynamodb.New(options), dynamostore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := first(acquire(s, "a")); err != nil {
				t.Fatal(err)
			}
			through.silent = true
			dynamostore.LaterLook(s)
			ctx, cancel := context.WithTimeout(t.Context(), has)
			defer cancel()
			begun := time.Now()
			err = first(s.Acquire(ctx, []store.Claim{{Name: "a", Holder: "x", TTL: time.Minute}}))
			if took := time.Since(begun); err != nil || took != want {
				t.Errorf("a claim that has %v: %v after %v, want a grant after %v", has, err, took, want)
			}
		})
	}
}

// TestGlobalTableOfTheOldVersion: a table does not say itself that it is a global table of the version of 2017. It is asked for if the table has the stream that one needs.
func TestGlobalTableOfTheOldVersion(t *testing.T) {
	const both = `, "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}`
	const keys = `, "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "KEYS_ONLY"}`
	const replicas = both + `, "Replicas": [{"RegionName": "eu-west-1"}]`
	for _, test := range []struct {
		rule, has string
		status    int
		body      string
		want      error
		fencing   store.Answer
		regions   store.Level
	}{
		{"it is one", both, 200, `{"GlobalTableDescription": {"GlobalTableName": "soloist", "ReplicationGroup": [{"RegionName": "eu-west-1"}, {"RegionName": "eu-central-1"}]}}`,
			store.ErrUnusable, store.No, store.LevelError},
		{"it is none", both, 400, failure("GlobalTableNotFoundException"), nil, store.Yes, store.LevelOK},
		{"it may not be asked for", both, 400, failure("AccessDeniedException"), nil, store.Unknown, store.LevelUnknown},
		{"it is one of the new version", replicas, 400, failure("GlobalTableNotFoundException"),
			store.ErrUnusable, store.No, store.LevelError},
		{"it can be none", keys, 400, failure("AccessDeniedException"), nil, store.Yes, store.LevelOK},
	} {
		t.Run(test.rule, func(t *testing.T) {
			s := scripted(t, func(operation, request string) (int, string) {
				switch operation {
				case "DescribeTable":
					return 200, fmt.Sprintf(goodTable, test.has)
				case "DescribeGlobalTable":
					return test.status, test.body
				case "UpdateItem":
					return 200, taken(t, request)
				}
				return 200, "{}"
			})
			if err := first(acquire(s, "a")); !errors.Is(err, test.want) {
				t.Errorf("a claim: %v, want %v", err, test.want)
			}
			if c, err := s.Capabilities(background); err != nil || c.Fencing.Answer != test.fencing {
				t.Errorf("got %+v, %v, want fencing %v", c, err, test.fencing)
			}
			findings, err := s.Examine(background)
			i := slices.IndexFunc(findings, func(f store.Finding) bool { return f.Subject == "regions" })
			if err != nil || i < 0 || findings[i].Level != test.regions {
				t.Errorf("got %+v, %v, want the level %v of its regions", findings, err, test.regions)
			}
		})
	}
}

// TestLookThatHangs: a request does not wait longer than its own deadline for another one that looks at the table.
func TestLookThatHangs(t *testing.T) {
	hangs, looking, goOn := atomic.Bool{}, make(chan struct{}, 9), make(chan struct{})
	hangs.Store(true)
	s := scripted(t, func(operation, request string) (int, string) {
		switch operation {
		case "DescribeTable":
			if hangs.Load() {
				looking <- struct{}{}
				<-goOn
			}
			return 200, fmt.Sprintf(goodTable, "")
		case "UpdateItem":
			return 200, taken(t, request)
		}
		return 200, "{}"
	})
	looked := make(chan error, 1)
	go func() { looked <- s.Ping(background) }()
	<-looking
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	other := make(chan error, 1)
	go func() {
		other <- first(s.Acquire(ctx, []store.Claim{{Name: "a", Holder: "x", TTL: time.Minute}}))
	}()
	select {
	case err := <-other:
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("got %v, want that its time is over and nothing was sent", err)
		}
	case <-time.After(servers.Patience):
		t.Error("a request waits for the look of another one, although its time is over")
	}
	hangs.Store(false)
	close(goOn)
	if err := <-looked; err != nil {
		t.Errorf("the one that looked: %v", err)
	}
	if err := first(acquire(s, "a")); err != nil {
		t.Errorf("got %v after the look, want a grant", err)
	}
}

// TestCredentialsThatHaveExpired: what a table promises is not told as a right that is missing if nothing is known because the credentials have expired.
func TestCredentialsThatHaveExpired(t *testing.T) {
	s := scripted(t, func(operation, request string) (int, string) { return 400, failure("ExpiredTokenException") })
	if c, err := s.Capabilities(background); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %+v, %v, want that the credentials have expired", c, err)
	}
	if findings, err := s.Examine(background); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %+v, %v, want that the credentials have expired", findings, err)
	}
}

// TestThrottling: what the service refuses because there is too much of it is asked for again.
func TestThrottling(t *testing.T) {
	refusals := map[string]*atomic.Int64{"UpdateItem": {}, "GetItem": {}}
	for _, n := range refusals {
		n.Store(2)
	}
	s := scripted(t, func(operation, request string) (int, string) {
		if n := refusals[operation]; n != nil && n.Add(-1) >= 0 {
			return 400, failure("ProvisionedThroughputExceededException")
		}
		if operation == "DescribeTable" {
			return 200, fmt.Sprintf(goodTable, "")
		}
		if operation == "UpdateItem" {
			return 200, taken(t, request)
		}
		return 200, "{}"
	})
	if outcomes, err := acquire(s, "a"); err != nil || outcomes[0].Err != nil {
		t.Errorf("got %v, %v, want a grant", outcomes, err)
	}
	for operation, n := range refusals {
		if n.Load() >= 0 {
			t.Errorf("%s was not repeated", operation)
		}
	}
}

// itemHeld is an item that x holds.
func itemHeld(name string) string {
	return `{"name": {"S": "` + name + `"}, "holder": {"S": "x"}, "token": {"N": "1"}, "mark": {"N": "0"}, "ttl_ns": {"N": "3600000000000"}, "released": {"BOOL": false},
		"sure": {"BOOL": true}, "version": {"S": "w"}, "granted_at": {"S": "2026-01-02T03:04:05Z"}}`
}

// TestReadInParts: what the service has not come to in a read of several items is read by another request, and is not taken for what is not there.
func TestReadInParts(t *testing.T) {
	var reads atomic.Int64
	s := scripted(t, func(operation, request string) (int, string) {
		switch operation {
		case "DescribeTable":
			return 200, fmt.Sprintf(goodTable, "")
		case "BatchGetItem":
			if reads.Add(1) == 1 {
				return 200, `{"Responses": {"soloist": [` + itemHeld("a") + `]}, "UnprocessedKeys": {"soloist": {"Keys": [{"name": {"S": "b"}}], "ConsistentRead": true}}}`
			}
			if strings.Contains(request, `{"S":"a"}`) || !strings.Contains(request, `{"S":"b"}`) {
				t.Errorf("what is left is read by %s", request)
			}
			return 200, `{"Responses": {"soloist": [` + itemHeld("b") + `]}}`
		case "BatchExecuteStatement":
			return 200, `{"Responses": [{}, {}]}`
		}
		return 400, failure("ValidationException")
	})
	errs, err := s.Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: 1, TTL: time.Hour}, {Name: "b", Holder: "x", Token: 1, TTL: time.Hour}})
	if err = errors.Join(append(errs, err)...); err != nil || reads.Load() != 2 {
		t.Errorf("two leases that are live, after %d reads: %v", reads.Load(), err)
	}
}

// TestBatchesWriteAllOfARecord: several items that are written by one request are what their records are then: what a record has no more is gone, above all the time
// after which it would be forgotten.
func TestBatchesWriteAllOfARecord(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s, names := open(t, server.Endpoint, table), []string{"a", "b"}
	look := func(what string, began time.Time, retain time.Duration, want ...string) {
		t.Helper()
		for _, name := range names {
			out, err := client(server.Endpoint).GetItem(background, &dynamodb.GetItemInput{
				TableName: &table, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"name": &types.AttributeValueMemberS{Value: name}},
			})
			if err != nil {
				t.Fatal(err)
			}
			for attr, least := range map[string]time.Time{"granted_at": began, "forget_at": began.Add(retain)} {
				text, ok := out.Item[attr].(*types.AttributeValueMemberS)
				if !ok {
					continue
				}
				if at, err := time.Parse(time.RFC3339Nano, text.Value); err != nil || at.Before(least) {
					t.Errorf("%s: %s has the %s %v, %v; want none before %v", what, name, attr, at, err, least)
				}
			}
			var has []string
			for _, attr := range []string{"sure", "state", "forget_at"} {
				if out.Item[attr] != nil {
					has = append(has, attr)
				}
			}
			if !slices.Equal(has, want) {
				t.Errorf("%s: %s has %q of those that not all have; want %q", what, name, has, want)
			}
		}
	}
	released := func(state []byte, retain time.Duration) (began time.Time) {
		t.Helper()
		began = time.Now().Round(0)
		outcomes, err := acquire(s, names...)
		if err != nil {
			t.Fatal(err)
		}
		releases := make([]store.Release, len(names))
		for i, name := range names {
			releases[i] = store.Release{Name: name, Holder: "x", Token: outcomes[i].Grant.Token, State: state, Retain: retain}
		}
		errs, err := s.Release(background, releases)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
		return began
	}
	began := released([]byte("state"), time.Hour)
	look("released with a state, for an hour", began, time.Hour, "sure", "state", "forget_at")
	began = released([]byte{}, store.Forever)
	look("released without a state, forever", began, 0, "sure")
}

// TestNamesThatWereNotSeen: a process that has never seen a name asks for it without reading it first. It takes it only if it is free for it, and with a token that is
// great enough.
func TestNamesThatWereNotSeen(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s := open(t, server.Endpoint, table)
	released := func(r store.Release) int64 {
		t.Helper()
		outcomes, err := acquire(s, r.Name)
		if err != nil || outcomes[0].Err != nil {
			t.Fatal(outcomes, err)
		}
		r.Holder, r.Token = "x", outcomes[0].Grant.Token
		errs, err := s.Release(background, []store.Release{r})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
		return r.Token
	}
	claim := func(c store.Claim) (store.Grant, error) {
		t.Helper()
		c.Holder, c.TTL = "y", time.Hour
		outcomes, err := open(t, server.Endpoint, table).Acquire(background, []store.Claim{c})
		if err != nil {
			t.Fatal(err)
		}
		return outcomes[0].Grant, outcomes[0].Err
	}
	released(store.Release{Name: "lingers", Linger: time.Hour, Retain: time.Hour})
	if _, err := claim(store.Claim{Name: "lingers"}); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a name that lingers: %v, want that it is held", err)
	}
	released(store.Release{Name: "marked", Mark: 7, Retain: time.Hour})
	if _, err := claim(store.Claim{Name: "marked", Mark: 7}); !errors.Is(err, store.ErrDone) {
		t.Errorf("a mark that is there: %v, want that it is done", err)
	}
	if g, err := claim(store.Claim{Name: "marked", Mark: 8}); err != nil || g.Mark != 7 {
		t.Errorf("a greater mark: %+v, %v", g, err)
	}
	above := released(store.Release{Name: "low", Retain: time.Hour}) + 1000
	if g, err := claim(store.Claim{Name: "low", Above: above}); err != nil || g.Token <= above {
		t.Errorf("above %d: token %d, %v", above, g.Token, err)
	}
}

// TestSweepGoesThroughTheTable: what may be forgotten is found behind many records that may not.
func TestSweepGoesThroughTheTable(t *testing.T) {
	server := shared(t)
	s := open(t, server.Endpoint, fresh(t, server.Endpoint))
	const all, gone = 170, 20
	names := make([]string, all)
	for i := range names {
		names[i] = fmt.Sprint("name ", i)
	}
	outcomes, err := acquire(s, names...)
	if err != nil {
		t.Fatal(err)
	}
	releases := make([]store.Release, all)
	for i, name := range names {
		if releases[i] = (store.Release{Name: name, Holder: "x", Token: outcomes[i].Grant.Token, Retain: store.Forever}); i >= all-gone {
			releases[i].Retain = 0
		}
	}
	errs, err := s.Release(background, releases)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(background, all); n != gone || err != nil {
		t.Errorf("%d were forgotten, %v; want %d", n, err, gone)
	}
}

// lossy loses the response to every other write, after the server has carried it out.
type lossy struct{ n atomic.Int64 }

func (l *lossy) Do(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultClient.Do(r)
	if target := r.Header.Get("X-Amz-Target"); err == nil && (strings.HasSuffix(target, "PutItem") || strings.HasSuffix(target, "UpdateItem")) && l.n.Add(1)%2 == 1 {
		_ = response.Body.Close()
		return nil, errors.New("the connection broke")
	}
	return response, err
}

// TestLostResponses: a claim whose response was lost is unknown, and asking again gives the same grant.
func TestLostResponses(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s, err := dynamostore.New(dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &server.Endpoint, HTTPClient: &lossy{},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}), dynamostore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		name := fmt.Sprint(i)
		outcomes, err := acquire(s, name)
		if err != nil {
			t.Fatal(err)
		}
		first := outcomes[0]
		if first.Err != nil && !errors.Is(first.Err, store.ErrUnknown) {
			t.Fatalf("got %v, want a grant or unknown", first.Err)
		}
		again, err := acquire(s, name)
		if err != nil || again[0].Err != nil || first.Err == nil && again[0].Grant.Token != first.Grant.Token {
			t.Fatalf("asking again: %+v, %v, after %+v", again, err, first)
		}
	}
}

func extend(ctx context.Context, s *dynamostore.Store, name string, token int64) error {
	errs, err := s.Extend(ctx, []store.Extension{{Name: name, Holder: "x", Token: token, TTL: time.Hour}})
	return errors.Join(append(errs, err)...)
}

// leased returns a store on a server that no other test has, through an HTTP client, and the token of its lease of "a".
func leased(t *testing.T, server *servers.DynamoDBServer, through dynamodb.HTTPClient) (*dynamostore.Store, int64) {
	t.Helper()
	s, err := dynamostore.New(dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &server.Endpoint, HTTPClient: through,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}), dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(background); err != nil {
		t.Fatal(err)
	}
	outcomes, err := acquire(s, "a")
	if err != nil || outcomes[0].Err != nil {
		t.Fatal(outcomes, err)
	}
	return s, outcomes[0].Grant.Token
}

// TestKilledServer: while the server is down nothing is granted or extended, and the errors say so. The emulator forgets its tables when it ends, which the
// store reports as a table that is missing.
func TestKilledServer(t *testing.T) {
	server := servers.DynamoDB(t)
	s, token := leased(t, server, http.DefaultClient)
	server.Kill()
	if outcomes, err := acquire(s, "b"); err == nil && outcomes[0].Err == nil {
		t.Error("granted without a server")
	}
	if err := extend(background, s, "a", token); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want unknown", err)
	}
	server.Start()
	if err := extend(background, s, "a", token); !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that the table is missing", err)
	}
}

// A repeating client is an HTTP client that can send a request again, and hold one up.
type repeating struct {
	mu      sync.Mutex
	sent    map[string][]*http.Request // by operation
	holdsUp string                     // the operation whose requests are not sent, and not answered
}

func (r *repeating) Do(request *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	again := request.Clone(background)
	for _, of := range []*http.Request{request, again} {
		of.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	r.mu.Lock()
	r.sent[operation] = append(r.sent[operation], again)
	held := r.holdsUp == operation
	r.mu.Unlock()
	if held {
		return nil, errLost
	}
	return http.DefaultClient.Do(request)
}

// again sends all requests of an operation once more, or at last, and returns what the server replies.
func (r *repeating) again(t *testing.T, operation string) (replies string) {
	t.Helper()
	r.mu.Lock()
	requests := r.sent[operation]
	delete(r.sent, operation)
	r.mu.Unlock()
	for _, request := range requests {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		replies += string(reply)
	}
	return replies
}

// TestLateWritesAfterARepetition: a claim is carried out twice, as a proxy may have it, and so makes a lease with
// another token. What was written for the first one and comes late has no effect on it: a token never becomes less.
func TestLateWritesAfterARepetition(t *testing.T) {
	server := shared(t)
	for operation, names := range map[string][]string{"PutItem": {"a"}, "BatchExecuteStatement": {"a", "b"}} {
		table, through := fresh(t, server.Endpoint), &repeating{sent: map[string][]*http.Request{}}
		s, err := dynamostore.New(dynamodb.New(client(server.Endpoint).Options(), func(o *dynamodb.Options) {
			o.HTTPClient = through
		}), dynamostore.Config{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		extensions, releases := make([]store.Extension, len(names)), make([]store.Release, len(names))
		for i, name := range names {
			outcomes, err := acquire(s, name)
			if err := first(outcomes, err); err != nil {
				t.Fatal(err)
			}
			token := outcomes[0].Grant.Token
			extensions[i] = store.Extension{Name: name, Holder: "x", Token: token, TTL: time.Hour, State: []byte("late")}
			releases[i] = store.Release{Name: name, Holder: "x", Token: token, Retain: store.Forever}
		}
		delete(through.sent, operation) // what else was written by it
		through.holdsUp = operation
		errs, err := s.Extend(background, extensions)
		if err := errors.Join(append(errs, err)...); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("an extension that is held up: %v, want that it is unknown", err)
		}
		errs, err = open(t, server.Endpoint, table).Release(background, releases)
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
		if replies := through.again(t, "UpdateItem"); strings.Contains(replies, "Exception") {
			t.Fatalf("a claim that is carried out again: %s", replies)
		}
		if replies := through.again(t, operation); strings.Count(replies, "ConditionalCheckFailed") != len(names) {
			t.Errorf("%s that comes late is replied to by %s", operation, replies)
		}
		for i, name := range names {
			for r, err := range s.List(background, name) {
				if err != nil || r.Token <= releases[i].Token || len(r.State) > 0 {
					t.Errorf("%s: the record is %+v, %v; want a token above %d", name, r, err, releases[i].Token)
				}
			}
		}
	}
}

// TestTwoProcessesOfOneHolder: a process whose lease another one of the same holder has extended meanwhile extends it,
// too, alone or with others, and no lease is told as lost.
func TestTwoProcessesOfOneHolder(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s, other := open(t, server.Endpoint, table), open(t, server.Endpoint, table)
	for _, names := range [][]string{{"a"}, {"b", "c"}} {
		outcomes, err := acquire(s, names...)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, s := range []*dynamostore.Store{other, s} {
				extensions := make([]store.Extension, len(names))
				for i, name := range names {
					extensions[i] = store.Extension{Name: name, Holder: "x", Token: outcomes[i].Grant.Token, TTL: time.Hour}
				}
				errs, err := s.Extend(background, extensions)
				if err := errors.Join(append(errs, err)...); err != nil {
					t.Errorf("%q: %v", names, err)
				}
			}
		}
	}
}

// A notified client calls a function a moment after it has begun a request.
type notified struct{ begun func() }

func (n *notified) Do(r *http.Request) (*http.Response, error) {
	if n.begun != nil {
		time.AfterFunc(10*time.Millisecond, n.begun)
	}
	return http.DefaultClient.Do(r)
}

// TestPausedServer: what is asked of a server that is paused is unknown at the deadline, and settled when it goes on. A holder keeps its lease.
func TestPausedServer(t *testing.T) {
	server, through := servers.DynamoDB(t), &notified{}
	s, token := leased(t, server, through)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	through.begun = cancel
	server.Pause()
	if err := extend(ctx, s, "a", token); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want unknown", err)
	}
	server.Resume()
	if err := extend(background, s, "a", token); err != nil {
		t.Error(err)
	}
}

// TestTimeToLiveIsNoticed: a table that deletes items by itself deletes tokens.
func TestTimeToLiveIsNoticed(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s := open(t, server.Endpoint, table)
	if c, err := s.Capabilities(background); err != nil || c.Fencing.Answer != store.Yes || !strings.Contains(c.Backend, "emulator") {
		t.Errorf("got %+v, %v, want fencing, on an emulator", c, err)
	}
	if _, err := client(server.Endpoint).UpdateTimeToLive(background, &dynamodb.UpdateTimeToLiveInput{TableName: &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("forget_at"), Enabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Capabilities(background); err != nil || c.Fencing.Answer != store.No {
		t.Errorf("got %+v, %v, want no fencing", c, err)
	}
	findings, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range findings {
		found = found || f.Subject == "time to live" && f.Level == store.LevelError
	}
	if !found {
		t.Errorf("got %+v, want an error about the time to live", findings)
	}
}

// TestTimeToLiveThatIsBeingTurnedOn: a table that will delete items by itself in a while is no better than one that does.
func TestTimeToLiveThatIsBeingTurnedOn(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	enabling := func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("enabling", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleInitialize(ctx, in)
			if live, is := out.Result.(*dynamodb.DescribeTimeToLiveOutput); is && err == nil {
				live.TimeToLiveDescription = &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusEnabling}
			}
			return out, metadata, err
		}), middleware.Before)
	}
	c := dynamodb.New(client(server.Endpoint).Options(), func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, enabling) })
	s, err := dynamostore.New(c, dynamostore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.Capabilities(background); err != nil || c.Fencing.Answer != store.No {
		t.Errorf("got %+v, %v, want no fencing", c, err)
	}
}

func TestURLs(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	for url, says := range map[string]string{
		"dynamodb://":                                               "names no table",
		"dynamodb://t?region=x":                                     "3 to 255",
		"dynamodb://table":                                          "names no region",
		"dynamodb://key:secret@table?region=x":                      "credentials come from",
		"dynamodb://table/more?region=x":                            "path",
		"dynamodb://table?region=x#more":                            "fragment",
		"dynamodb:table?region=x":                                   "dynamodb://TABLE",
		"dynamodb://table?region=a%20b":                             "cannot be",
		"dynamodb://table?profile=":                                 "no value",
		"dynamodb://table?region=x&endpoint=ftp%3A%2F%2Fh":          "http://127.0.0.1:8000",
		"dynamodb://table?region=x&endpoint=https%3A%2F%2F":         "http://127.0.0.1:8000",
		"dynamodb://table?region=x&endpoint=http%3A%2F%2Fh%3Ax":     "http://127.0.0.1:8000",
		"dynamodb://table:8000?region=x":                            "endpoint=",
		"dynamodb://table?region=x&region=y":                        "twice",
		"dynamodb://table?region=":                                  "no value",
		"dynamodb://table?regoin=x":                                 "unknown",
		"dynamodb://table?region=x&":                                "unknown",
		"dynamodb://table?region=x;endpoint=y":                      "cannot be",
		"dynamodb://table?region=%zz":                               "cannot be",
		"dynamodb://table?region=x&endpoint=127.0.0.1":              "http://127.0.0.1:8000",
		"dynamodb://table?region=x&endpoint=http%3A%2F%2Fu%3Ap%40h": "http://127.0.0.1:8000",
		"dynamo://table?region=x":                                   "dynamodb://TABLE",
	} {
		_, err := dynamostore.OpenURL(background, url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an invalid input that says %q", url, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the secret: %v", url, err)
		}
	}
}

// TestMigrate: a table is made once, and one that is not soloist's is left alone.
func TestMigrate(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	s := open(t, server.Endpoint, table)
	if did, err := s.Migrate(background); err != nil || len(did) != 0 {
		t.Errorf("a second migration did %v, %v, want nothing", did, err)
	}
	other := table + "-other"
	if _, err := client(server.Endpoint).CreateTable(background, &dynamodb.CreateTableInput{
		TableName: &other, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeN}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	}); err != nil {
		t.Fatal(err)
	}
	foreign := open(t, server.Endpoint, other)
	if _, err := foreign.Migrate(background); err == nil || !strings.Contains(err.Error(), "not soloist's") {
		t.Errorf("got %v, want that the table is not soloist's", err)
	}
	if _, err := acquire(foreign, "a"); err == nil {
		outcomes, _ := acquire(foreign, "a")
		if !errors.Is(outcomes[0].Err, store.ErrSchema) {
			t.Errorf("got %v, want that the table is not soloist's", outcomes[0].Err)
		}
	}
	if !strings.Contains(s.Schema(), "aws dynamodb create-table --table-name "+table) {
		t.Errorf("the schema is %q", s.Schema())
	}
}

// TestMigrateWaitsForATableThatIsBeingMade: also for one that somebody else is making. What comes after the migration can use it.
func TestMigrateWaitsForATableThatIsBeingMade(t *testing.T) {
	var looks atomic.Int64
	s := scripted(t, func(operation, request string) (int, string) {
		if operation == "CreateTable" {
			return 400, failure("ResourceInUseException")
		}
		table := fmt.Sprintf(goodTable, "")
		if looks.Add(1) < 3 {
			table = strings.Replace(table, "ACTIVE", "CREATING", 1)
		}
		return 200, table
	})
	if did, err := s.Migrate(background); err != nil || len(did) != 0 || looks.Load() < 3 {
		t.Errorf("it did %v, %v, after %d looks; want nothing done, and the table seen to be active in the third look", did, err, looks.Load())
	}
}

// TestWritesAreSentOnce: after a write whose connection broke nothing asks again by itself, whatever the verb: the refusal of a second attempt would hide that the first
// may have taken effect.
func TestWritesAreSentOnce(t *testing.T) {
	var sent sync.Map                   // how often, by operation
	lease := func(name string) string { // one that x has
		return fmt.Sprintf(`{"name": {"S": %q}, "holder": {"S": "x"}, "token": {"N": "7"}, "mark": {"N": "0"}, "ttl_ns": {"N": "60000000000"}, "released": {"BOOL": false},
			"sure": {"BOOL": true}, "version": {"S": "w"}, "granted_at": {"S": "2026-01-01T00:00:00Z"}}`, name)
	}
	respond := func(operation, _ string) (int, string) {
		switch operation {
		case "DescribeTable":
			return 200, fmt.Sprintf(goodTable, "")
		case "GetItem":
			return 200, fmt.Sprintf(`{"Item": %s}`, lease("a"))
		case "BatchGetItem":
			return 200, fmt.Sprintf(`{"Responses": {"soloist": [%s, %s]}}`, lease("a"), lease("b"))
		}
		n, _ := sent.LoadOrStore(operation, new(atomic.Int64))
		if n.(*atomic.Int64).Add(1) == 1 {
			return 0, ""
		}
		return 400, failure("ValidationException")
	}
	unknown := func(operation string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: got %v, want unknown", operation, err)
		}
		if n, ok := sent.Load(operation); !ok || n.(*atomic.Int64).Load() != 1 {
			t.Errorf("%s was not sent once", operation)
		}
	}
	outcomes, err := acquire(scripted(t, respond), "new")
	if err == nil {
		err = outcomes[0].Err
	}
	unknown("UpdateItem", err)
	unknown("PutItem", extend(background, scripted(t, respond), "a", 7))
	errs, err := scripted(t, respond).Extend(background, []store.Extension{{Name: "a", Holder: "x", Token: 7, TTL: time.Hour}, {Name: "b", Holder: "x", Token: 7, TTL: time.Hour}})
	unknown("BatchExecuteStatement", errors.Join(append(errs, err)...))
	_, err = scripted(t, func(operation, request string) (int, string) {
		switch operation {
		case "Scan":
			return 200, `{"Items": [` + itemReleased("a") + `]}`
		case "GetItem":
			return 200, `{"Item": ` + itemReleased(`\u0001floor`) + `}`
		}
		return respond(operation, request)
	}).Sweep(background, 1)
	unknown("DeleteItem", err)
}

// TestReadsAreConsistent: what the verbs, lists and sweeps read is what was confirmed last, and not what a replica of the table still has.
func TestReadsAreConsistent(t *testing.T) {
	server := shared(t)
	table := fresh(t, server.Endpoint)
	var seen sync.Map // operations
	look := middleware.InitializeMiddlewareFunc("consistency", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
		middleware.InitializeOutput, middleware.Metadata, error) {
		consistent := true
		switch p := in.Parameters.(type) {
		case *dynamodb.GetItemInput:
			consistent = p.ConsistentRead != nil && *p.ConsistentRead
		case *dynamodb.BatchGetItemInput:
			c := p.RequestItems[table].ConsistentRead
			consistent = c != nil && *c
		case *dynamodb.ScanInput:
			consistent = p.ConsistentRead != nil && *p.ConsistentRead
			seen.Store(fmt.Sprintf("a scan with a limit: %t", p.Limit != nil), true)
		}
		seen.Store(fmt.Sprintf("%T", in.Parameters), true)
		if !consistent {
			t.Errorf("a read that need not be consistent: %T", in.Parameters)
		}
		return next.HandleInitialize(ctx, in)
	})
	s, err := dynamostore.New(dynamodb.New(client(server.Endpoint).Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error { return stack.Initialize.Add(look, middleware.Before) })
	}), dynamostore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if outcomes, err := acquire(s, "a", "b"); err != nil || outcomes[0].Err != nil || outcomes[1].Err != nil {
		t.Fatal(outcomes, err)
	}
	if _, _, err := s.Choose(background, []string{"c", "d"}, store.Claim{Holder: "x", TTL: time.Minute}); err != nil {
		t.Error(err)
	}
	for _, err := range s.List(background, "a") {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Sweep(background, 10); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"*dynamodb.GetItemInput", "*dynamodb.BatchGetItemInput", "a scan with a limit: false", "a scan with a limit: true"} {
		if _, ok := seen.Load(want); !ok {
			t.Errorf("nothing was read by %s, so this shows little", want)
		}
	}
}
