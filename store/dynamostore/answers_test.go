package dynamostore_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/dynamostore"
	"github.com/soloist-dev/soloist/test/servers"
)

// answers is an HTTP client that responds to each operation as a function has it, and needs no network: so it can be used where time is not the machine's.
type answers func(operation, request string) (status int, body string)

func (f answers) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	request, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	status, body := f(operation, string(request))
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// answered returns a store on a client whose requests the SDK does not repeat.
func answered(t *testing.T, respond answers, more ...func(*dynamodb.Options)) *dynamostore.Store {
	t.Helper()
	options := client("http://127.0.0.1:1").Options()
	options.HTTPClient, options.Retryer = respond, aws.NopRetryer{}
	s, err := dynamostore.New(dynamodb.New(options, more...), dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// itemReleased is an item that may be forgotten.
func itemReleased(name string) string {
	return strings.NewReplacer(`"BOOL": false`, `"BOOL": true`, `"3600000000000"`, `"0"`, `"version"`, `"forget_at": {"S": "1999-01-02T03:04:05Z"}, "version"`).Replace(itemHeld(name))
}

// TestReadsThatFail: a record that could not be read is not taken for one that is not there, which would be a lease that is lost. Nothing was written.
func TestReadsThatFail(t *testing.T) {
	extend := func(names ...string) func(context.Context, *dynamostore.Store) error {
		return func(ctx context.Context, s *dynamostore.Store) error {
			extensions := make([]store.Extension, len(names))
			for i, name := range names {
				extensions[i] = store.Extension{Name: name, Holder: "x", Token: 1, TTL: time.Hour}
			}
			errs, err := s.Extend(ctx, extensions)
			if err == nil {
				for _, each := range errs {
					if each == nil {
						return nil
					}
				}
			}
			return errors.Join(append(errs, err)...)
		}
	}
	many := make([]string, 101) // of two requests, for a hundred names and for one, one succeeds
	for i := range many {
		many[i] = fmt.Sprint("name ", i)
	}
	list := func(ctx context.Context, s *dynamostore.Store) (err error) {
		for _, e := range s.List(ctx, "") {
			err = errors.Join(err, e)
		}
		return err
	}
	sweep := func(ctx context.Context, s *dynamostore.Store) error { _, err := s.Sweep(ctx, 10); return err }
	for _, test := range []struct {
		operation, says string
		do              func(context.Context, *dynamostore.Store) error
	}{
		{"GetItem", "dynamostore: reading: ", extend("a")},
		{"BatchGetItem", "dynamostore: reading: ", extend("a", "b")},
		{"BatchGetItem", "dynamostore: reading: ", extend(many...)},
		{"GetItem", "dynamostore: reading: ", extend(many...)},
		{"Scan", "dynamostore: listing: ", list},
		{"Scan", "dynamostore: looking for what may be forgotten: ", sweep},
	} {
		for _, code := range []string{"ValidationException", "AccessDeniedException"} {
			s := answered(t, func(operation, request string) (int, string) {
				switch operation {
				case "DescribeTable":
					return 200, fmt.Sprintf(goodTable, "")
				case test.operation:
					return 400, failure(code)
				}
				return 200, "{}"
			})
			err := test.do(background, s)
			if err == nil || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), test.says) ||
				errors.Is(err, fs.ErrPermission) != (code == "AccessDeniedException") {
				t.Errorf("%s: %s: got %v, want an error that says %q, and not that anything is lost or unknown", test.operation, code, err, test.says)
			}
		}
	}

	synctest.Test(t, func(t *testing.T) {
		reads := 0
		s := answered(t, func(operation, request string) (int, string) {
			if operation == "DescribeTable" {
				return 200, fmt.Sprintf(goodTable, "")
			}
			reads++
			return 200, `{"Responses": {}, "UnprocessedKeys": {"soloist": {"Keys": [{"name": {"S": "a"}}, {"name": {"S": "b"}}], "ConsistentRead": true}}}`
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := extend("a", "b")(ctx, s); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("what the service does not come to: got %v, want that the time is over", err)
		}
		if reads < 40 || reads > 150 {
			t.Errorf("it was asked for %d times in a minute, want about one a second", reads)
		}
	})
}

// TestThrottledRequests: whatever is refused because there is too much of it is asked for again, at most some times a second, until the caller's time is over.
func TestThrottledRequests(t *testing.T) {
	for _, code := range []string{"ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException", "Throttling"} {
		synctest.Test(t, func(t *testing.T) {
			sent, floor := map[string]int{}, false // the floor of tokens was raised
			s := answered(t, func(operation, request string) (int, string) {
				if operation == "DescribeTable" {
					return 200, fmt.Sprintf(goodTable, "")
				}
				if sent[operation]++; sent[operation] < 4 {
					return 400, failure(code)
				}
				switch operation {
				case "PutItem":
					floor = floor || strings.Contains(request, "floor")
				case "GetItem":
					if strings.Contains(request, `"held"`) {
						return 200, `{"Item": ` + itemHeld("held") + `}`
					}
					if floor {
						return 200, `{"Item": ` + itemReleased(`\u0001floor`) + `}`
					}
				case "BatchGetItem":
					return 200, `{"Responses": {"soloist": [` + itemHeld("held 1") + "," + itemHeld("held 2") + `]}}`
				case "BatchExecuteStatement":
					return 200, `{"Responses": [{}, {}]}`
				case "UpdateItem":
					return 200, taken(t, request)
				case "Scan":
					return 200, `{"Items": [` + itemReleased("gone") + `]}`
				}
				return 200, "{}"
			})
			if err := first(acquire(s, "a")); err != nil {
				t.Errorf("acquiring: %v", err)
			}
			if err := extend(t.Context(), s, "held", 1); err != nil {
				t.Errorf("extending: %v", err)
			}
			errs, err := s.Extend(t.Context(), []store.Extension{{Name: "held 1", Holder: "x", Token: 1, TTL: time.Hour}, {Name: "held 2", Holder: "x", Token: 1, TTL: time.Hour}})
			if err := errors.Join(append(errs, err)...); err != nil {
				t.Errorf("extending two: %v", err)
			}
			if n, err := s.Sweep(t.Context(), 10); n != 1 || err != nil {
				t.Errorf("%d were forgotten, %v; want 1", n, err)
			}
			for _, operation := range []string{"GetItem", "BatchGetItem", "Scan", "PutItem", "UpdateItem", "DeleteItem", "BatchExecuteStatement"} {
				if sent[operation] < 4 {
					t.Errorf("%s, refused by %s, was sent %d times", operation, code, sent[operation])
				}
			}
			sent["Scan"] = 0
			for _, err := range s.List(t.Context(), "") {
				if err != nil {
					t.Errorf("listing: %v", err)
				}
			}
		})
	}
	for _, names := range [][]string{{"a"}, {"a", "b"}} { // each name of a batch is refused with the request
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			s := answered(t, func(operation, request string) (int, string) {
				switch operation {
				case "DescribeTable":
					return 200, fmt.Sprintf(goodTable, "")
				case "UpdateItem", "BatchExecuteStatement":
					sent++
					return 400, failure("ThrottlingException")
				}
				return 200, "{}"
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			claims := make([]store.Claim, len(names))
			for i, name := range names {
				claims[i] = store.Claim{Name: name, Holder: "x", TTL: time.Hour}
			}
			begun := time.Now()
			outcomes, err := s.Acquire(ctx, claims)
			if took := time.Since(begun); took != time.Minute || sent < 40 || sent > 150 {
				t.Errorf("%d requests in %v, want about one a second for a minute", sent, took)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outcomes {
				if o.Err == nil || errors.Is(o.Err, store.ErrUnknown) || !strings.Contains(o.Err.Error(), "on-demand") {
					t.Errorf("got %v, want that the service refuses requests, and nothing unknown", o.Err)
				}
			}
		})
	}
}

// TestEveryCodeOfAStatement: what the service replies to a statement of a batch decides whether it may have taken effect. One that was refused because there were too many
// is sent again by itself, and nothing else is.
func TestEveryCodeOfAStatement(t *testing.T) {
	for code, want := range map[string]struct{ unknown, again bool }{
		"InternalServerError":             {unknown: true},
		"TransactionConflict":             {unknown: true},
		"ThrottlingError":                 {again: true},
		"RequestLimitExceeded":            {again: true},
		"ProvisionedThroughputExceeded":   {again: true},
		"ValidationError":                 {},
		"AccessDenied":                    {},
		"ResourceNotFound":                {},
		"ItemCollectionSizeLimitExceeded": {},
	} {
		again := 0
		s := answered(t, func(operation, request string) (int, string) {
			switch operation {
			case "DescribeTable":
				return 200, fmt.Sprintf(goodTable, "")
			case "BatchExecuteStatement":
				return 200, fmt.Sprintf(`{"Responses": [{}, {"Error": {"Code": %q, "Message": "so it is"}}]}`, code)
			case "PutItem":
				again++
			}
			return 200, "{}"
		})
		outcomes, err := acquire(s, "a", "b")
		if err != nil || outcomes[0].Err != nil {
			t.Fatal(outcomes, err)
		}
		if err := outcomes[1].Err; errors.Is(err, store.ErrUnknown) != want.unknown || (err == nil) != want.again || (again == 1) != want.again ||
			err != nil && (!strings.Contains(err.Error(), "so it is") || !strings.Contains(err.Error(), code)) {
			t.Errorf("%s: got %v, sent %d times by itself; want it unknown %t, sent again %t", code, err, again, want.unknown, want.again)
		}
	}
	for _, body := range []string{`{"Responses": [{}]}`, `{"Responses": [{}, {}, {}]}`, `{}`} {
		s := answered(t, func(operation, request string) (int, string) {
			switch operation {
			case "DescribeTable":
				return 200, fmt.Sprintf(goodTable, "")
			case "BatchExecuteStatement":
				return 200, body
			}
			return 200, "{}"
		})
		outcomes, err := acquire(s, "a", "b")
		if err != nil || !errors.Is(outcomes[0].Err, store.ErrUnknown) || !errors.Is(outcomes[1].Err, store.ErrUnknown) {
			t.Errorf("two statements and the response %s: got %+v, %v; want that nothing is known of both", body, outcomes, err)
		}
	}
}

// TestWhatCannotBeRead: an item that something else has written, with an attribute that is missing or of another kind, is reported by the attribute's name. What not all items have may be missing.
func TestWhatCannotBeRead(t *testing.T) {
	attributes := map[string]string{
		"holder": `{"S": "x"}`, "token": `{"N": "1"}`, "mark": `{"N": "0"}`, "ttl_ns": `{"N": "3600000000000"}`, "released": `{"BOOL": false}`, "sure": `{"BOOL": true}`,
		"version": `{"S": "w"}`, "granted_at": `{"S": "2026-01-02T03:04:05Z"}`, "state": `{"B": "c3RhdGU="}`, "forget_at": `{"S": "2026-01-02T03:04:05Z"}`,
	}
	read := func(attr, value string) error {
		item := `{"name": {"S": "a"}`
		for name, v := range attributes {
			if name == attr {
				v = value
			}
			if v != "" {
				item += fmt.Sprintf(", %q: %s", name, v)
			}
		}
		s := answered(t, func(operation, request string) (int, string) {
			if operation == "DescribeTable" {
				return 200, fmt.Sprintf(goodTable, "")
			}
			return 200, `{"Items": [` + item + `}]}`
		})
		for r, err := range s.List(background, "") {
			if err == nil && r.Name == "a" {
				return nil
			}
			return errors.Join(err, errors.New("not the record"))
		}
		return errors.New("no record")
	}
	for attr := range attributes {
		values := map[string]bool{"": attr == "sure" || attr == "state" || attr == "forget_at" || attr == "granted_at" || attr == "released", `{"L": []}`: false}
		switch attr {
		case "holder", "version":
			values[`{"S": ""}`], values[`{"N": "1"}`] = false, false
		case "token", "mark", "ttl_ns":
			values[`{"N": "1.5"}`], values[`{"N": "9223372036854775808"}`], values[`{"S": "1"}`] = false, false, false
		case "granted_at", "forget_at":
			values[`{"S": "2026-01-02 03:04:05"}`], values[`{"N": "1"}`], values[`{"S": "2026-01-02T03:04:05.123456789+02:00"}`] = false, false, true
		case "sure", "released":
			values[`{"S": "true"}`] = false
		case "state":
			values[`{"S": "text"}`] = false
		}
		for value, good := range values {
			err := read(attr, value)
			if good && err != nil || !good && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", attr)) || !strings.Contains(err.Error(), "something else has written it")) {
				t.Errorf("%s that is %q: got %v; readable: %t", attr, value, err, good)
			}
		}
	}
}

// TestWhatTheServiceReports: what is promised, and what doctor finds, follows from each thing that the service reports about the table, or does not allow to be seen.
func TestWhatTheServiceReports(t *testing.T) {
	const protected = `, "DeletionProtectionEnabled": true, "ItemCount": 7`
	good := map[string]string{
		"DescribeTable":             fmt.Sprintf(goodTable, protected),
		"DescribeTimeToLive":        `{"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}`,
		"DescribeContinuousBackups": `{"ContinuousBackupsDescription": {"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"}}}`,
	}
	const denied = ""
	local := fmt.Sprintf(goodTable, `, "TableArn": "arn:aws:dynamodb:ddblocal:000000000000:table/soloist"`+protected)
	localStream := fmt.Sprintf(goodTable, `, "TableArn": "arn:aws:dynamodb:ddblocal:000000000000:table/soloist", "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}`+protected)
	for _, test := range []struct {
		rule, operation, body string
		fencing, durable      store.Answer
		why                   string   // of the fencing
		finds                 []string // what is not OK
	}{
		{"all is good", "", "", store.Yes, store.Yes, "conditional", nil},
		{"an emulator", "DescribeTable", local, store.Yes, store.Unknown, "conditional", []string{"server warning: use it for tests alone"}},
		{"an emulator with a stream", "DescribeTable", localStream, store.Yes, store.Unknown, "conditional", []string{"server warning: use it for tests alone"}},
		{"no right to look", "DescribeTable", denied, store.Unknown, store.Yes, "dynamodb:DescribeTable is not allowed", []string{"table unknown: allow dynamodb:DescribeTable"}},
		{"no protection", "DescribeTable", fmt.Sprintf(goodTable, ""), store.Yes, store.Yes, "", []string{"deletion protection warning: aws dynamodb update-table --deletion-protection-enabled"}},
		{"a global table", "DescribeTable", fmt.Sprintf(goodTable, protected+`, "Replicas": [{"RegionName": "eu-west-1"}]`), store.No, store.Yes, "several regions", []string{"regions error: use a table in one region"}},
		{"items that expire", "DescribeTimeToLive", `{"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED"}}`, store.No, store.Yes, "time to live", []string{"time to live error: turn it off"}},
		{"items that expired until now", "DescribeTimeToLive", `{"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLING"}}`, store.Yes, store.Yes, "", nil},
		{"nothing said of expiry", "DescribeTimeToLive", `{}`, store.Yes, store.Yes, "", nil},
		{"no right to see expiry", "DescribeTimeToLive", denied, store.Unknown, store.Yes, "dynamodb:DescribeTimeToLive is not allowed", []string{"time to live unknown: allow dynamodb:DescribeTimeToLive"}},
		{"no recovery", "DescribeContinuousBackups", `{"ContinuousBackupsDescription": {"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "DISABLED"}}}`,
			store.Yes, store.Yes, "", []string{"point-in-time recovery warning: turn it on"}},
		{"nothing said of recovery", "DescribeContinuousBackups", `{"ContinuousBackupsDescription": {"ContinuousBackupsStatus": "ENABLED"}}`, store.Yes, store.Yes, "", []string{"point-in-time recovery warning: turn it on"}},
		{"nothing said of backups", "DescribeContinuousBackups", `{}`, store.Yes, store.Yes, "", []string{"point-in-time recovery warning: turn it on"}},
		{"no right to see backups", "DescribeContinuousBackups", denied, store.Yes, store.Yes, "", []string{"point-in-time recovery unknown: allow dynamodb:DescribeContinuousBackups"}},
	} {
		s := answered(t, func(operation, request string) (int, string) {
			body := good[operation]
			if operation == test.operation {
				if body = test.body; body == denied {
					return 400, failure("AccessDeniedException")
				}
			}
			return 200, body
		})
		c, err := s.Capabilities(background)
		backend := "Amazon DynamoDB, table soloist"
		if strings.Contains(test.body, "ddblocal") {
			backend = "DynamoDB Local (an emulator), table soloist"
		}
		if err != nil || c.Fencing.Answer != test.fencing || !strings.Contains(c.Fencing.Why, test.why) || c.Durable.Answer != test.durable || c.Waiting.Answer != store.No ||
			c.Scope != store.ScopeFleet || c.Backend != backend {
			t.Errorf("%s: got %+v, %v; want fencing %v because of %q, durable %v", test.rule, c, err, test.fencing, test.why, test.durable)
		}
		findings, err := s.Examine(background)
		var finds, all []string
		for _, f := range findings {
			if all = append(all, f.Subject); f.Level != store.LevelOK {
				finds = append(finds, fmt.Sprintf("%s %v: %s", f.Subject, f.Level, f.Fix))
			}
		}
		if err != nil || !slices.EqualFunc(finds, test.finds, strings.HasPrefix) || len(findings) > 1 && !slices.Equal(all[:6], []string{"table", "key", "deletion protection", "regions", "time to live", "point-in-time recovery"}) {
			t.Errorf("%s: doctor finds %q, %v; want %q not to be good", test.rule, finds, err, test.finds)
		}
		if test.operation == "" && findings[0].Found != "soloist, ACTIVE, about 7 items" {
			t.Errorf("the table is told as %q", findings[0].Found)
		}
	}
}

// TestLooksAgainAfterAMinute: a table that may not be looked at is looked at again after a minute, and not with every request.
func TestLooksAgainAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, answer := 0, "AccessDeniedException"
		s := answered(t, func(operation, request string) (int, string) {
			switch operation {
			case "DescribeTable":
				if looks++; answer != "" {
					return 400, failure(answer)
				}
				return 200, fmt.Sprintf(goodTable, "")
			case "UpdateItem":
				return 200, taken(t, request)
			}
			return 200, "{}"
		})
		for _, step := range []struct {
			after time.Duration
			looks int
		}{{0, 1}, {0, 1}, {59 * time.Second, 1}, {2 * time.Second, 2}, {0, 2}, {59 * time.Second, 2}, {2 * time.Second, 3}, {time.Hour, 3}} {
			if time.Sleep(step.after); step.looks == 3 {
				answer = ""
			}
			if err := first(acquire(s, "a")); err != nil || looks != step.looks {
				t.Errorf("%v later: %v, and it was looked at %d times; want %d", step.after, err, looks, step.looks)
			}
		}
	})
}

// TestMigrationsThatFail: a table that could not be made, or cannot be used in time, is no success, and the error has what was being done.
func TestMigrationsThatFail(t *testing.T) {
	creating := strings.Replace(fmt.Sprintf(goodTable, ""), "ACTIVE", "CREATING", 1)
	for _, test := range []struct {
		rule           string
		create, status int
		look, says     string
		is             error
	}{
		{"it may not be made", 403, 200, fmt.Sprintf(goodTable, ""), "making the table", fs.ErrPermission},
		{"one that is there may not be looked at", 400, 400, failure("AccessDeniedException"), "looking at the table", fs.ErrPermission},
		{"nothing is said of one that is there", 400, 200, "{}", "looking at the table: the server returned no item", nil},
		{"one that was made does not become usable", 200, 200, creating, "waiting for the table", nil},
		{"one that is there does not become usable", 400, 200, creating, "waiting for the table", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := answered(t, func(operation, request string) (int, string) {
				time.Sleep(time.Millisecond) // the SDK counts the time that a look takes
				switch {
				case operation != "CreateTable":
					return test.status, test.look
				case test.create == 403:
					return 400, failure("AccessDeniedException")
				case test.create == 400:
					return 400, failure("ResourceInUseException")
				}
				return 200, `{"TableDescription": {"TableName": "soloist", "TableStatus": "CREATING"}}`
			})
			if did, err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), test.says) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%s: it did %v, %v; want an error that says %q", test.rule, did, err, test.says)
			}
		})
	}
}

// TestAfterClose: a store that was closed does nothing more, also nothing that not all stores have.
func TestAfterClose(t *testing.T) {
	s := answered(t, func(operation, request string) (int, string) {
		t.Errorf("%s was sent", operation)
		return 400, failure("ValidationException")
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, migrating := s.Migrate(background)
	_, probing := s.Capabilities(background)
	_, examining := s.Examine(background)
	for what, err := range map[string]error{"Migrate": migrating, "Capabilities": probing, "Examine": examining} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v, want that the store is closed", what, err)
		}
	}
}

// TestCredentialsThatCannotBeRenewed: a write for which there are no credentials any more was not sent.
func TestCredentialsThatCannotBeRenewed(t *testing.T) {
	var gone atomic.Bool
	provider := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		if gone.Load() {
			return aws.Credentials{}, errors.New("nobody gives any")
		}
		return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
	})
	s := answered(t, func(operation, request string) (int, string) {
		if operation == "DescribeTable" {
			return 200, fmt.Sprintf(goodTable, "")
		}
		return 200, `{"Item": ` + itemHeld("a") + `}`
	}, func(o *dynamodb.Options) { o.Credentials = provider })
	if err := s.Ping(background); err != nil {
		t.Fatal(err)
	}
	gone.Store(true)
	if err := first(acquire(s, "b")); err == nil || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), "nobody gives any") {
		t.Errorf("got %v, want that there are no credentials, and nothing unknown", err)
	}
}

// TestNoServer: where nobody listens nothing is granted and nothing is unknown, and TLS is not what is missing.
func TestNoServer(t *testing.T) {
	c := dynamodb.New(client(fmt.Sprintf("http://127.0.0.1:%d", servers.FreePort(t))).Options(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	s, err := dynamostore.New(c, dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first(acquire(s, "a")); !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, store.ErrUnknown) || strings.Contains(err.Error(), "TLS") {
		t.Errorf("got %v, want that the connection is refused", err)
	}
}

// TestConfigurations: what a table may be called, and that a client is needed.
func TestConfigurations(t *testing.T) {
	c := dynamodb.New(dynamodb.Options{Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if _, err := dynamostore.New(nil, dynamostore.Config{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a client: %v", err)
	}
	for table, good := range map[string]bool{
		"": true, "ab": false, "abc": true, "a_.-Z9": true, "a/b": false, "a b": false, "täble": false, "abc\n": false,
		strings.Repeat("a", 255): true, strings.Repeat("a", 256): false,
	} {
		s, err := dynamostore.New(c, dynamostore.Config{Table: table})
		if good != (err == nil) || !good && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a table %q: %v; good: %t", table, err, good)
		}
		if !good {
			continue
		}
		for _, part := range []string{"--table-name " + cmp.Or(table, "soloist") + " ", "AttributeName=name,AttributeType=S ", "AttributeName=name,KeyType=HASH ", "--billing-mode PAY_PER_REQUEST"} {
			if !strings.Contains(s.Schema(), part) {
				t.Errorf("the command for %q lacks %q: %s", table, part, s.Schema())
			}
		}
	}
}

// TestOptionsOfURLs: a region and a profile of a URL decide which credentials sign the requests, and for where.
func TestOptionsOfURLs(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_REGION", "of-the-environment")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config":      "[default]\nregion = of-the-file\n[profile work]\nregion = of-the-profile\n",
		"credentials": "[default]\naws_access_key_id = DEFAULTKEY\naws_secret_access_key = s\n[work]\naws_access_key_id = WORKKEY\naws_secret_access_key = s\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	var mu sync.Mutex
	var signed string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var about struct{ TableName string }
		err := json.NewDecoder(r.Body).Decode(&about)
		_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=") // KEY/DAY/REGION/dynamodb/aws4_request
		if parts := strings.Split(credential, "/"); len(parts) > 2 {
			signed = parts[0] + " " + parts[2]
		}
		if err != nil || about.TableName != "Table.of_X" { // each letter as it stands in the URL
			t.Errorf("a request is about the table %q, %v", about.TableName, err)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	for _, test := range []struct{ options, environment, want string }{
		{"", "of-the-environment", "DEFAULTKEY of-the-environment"},
		{"&region=of-the-url", "of-the-environment", "DEFAULTKEY of-the-url"},
		{"&profile=work", "", "WORKKEY of-the-profile"},
		{"&profile=work&region=of-the-url", "", "WORKKEY of-the-url"},
	} {
		t.Setenv("AWS_REGION", test.environment)
		s, err := dynamostore.OpenURL(background, "dynamodb://Table.of_X?endpoint="+url.QueryEscape(server.URL)+test.options)
		if err != nil {
			t.Errorf("%q: %v", test.options, err)
			continue
		}
		_ = s.Ping(background) // the server refuses it
		mu.Lock()
		if signed != test.want {
			t.Errorf("%q: requests are signed by %q, want %q", test.options, signed, test.want)
		}
		mu.Unlock()
		_ = s.Close()
	}
	if _, err := dynamostore.OpenURL(background, "dynamodb://table?region=x&profile=none"); err == nil || !strings.Contains(err.Error(), "reading the configuration of AWS") {
		t.Errorf("a profile that is not there: %v", err)
	}
}
