package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/dynamostore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) {
	if about := os.Getenv(workerVariable); about != "" {
		fmt.Println(work(about))
		return
	}
	servers.Main(m)
}

var shared = servers.Shared(func(t servers.Test) *servers.DynamoDBServer { return servers.DynamoDB(t) })

var background = context.Background()

// client returns a client of a server, whose credentials can be any.
func client(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

var tables atomic.Int64

// fresh makes a table, and returns its name.
func fresh(t testing.TB, endpoint string) string {
	t.Helper()
	table := fmt.Sprintf("soloist-%d", tables.Add(1))
	if _, err := open(t, endpoint, table).Migrate(background); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = client(endpoint).DeleteTable(background, &dynamodb.DeleteTableInput{TableName: &table})
	})
	return table
}

func open(t testing.TB, endpoint, table string) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.New(client(endpoint), dynamostore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A handle is a store with its table.
type handle struct {
	*dynamostore.Store
	table string
}

// Unwrap is the convention of package store.
func (h handle) Unwrap() store.Store { return h.Store }

func TestConformance(t *testing.T) {
	server := shared(t)
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) store.Store {
			table := fresh(t, server.Endpoint)
			return handle{open(t, server.Endpoint, table), table}
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			return handle{open(t, server.Endpoint, s.(handle).table), s.(handle).table}
		},
		Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
			return corrupt(t, server.Endpoint, s.(handle).table, name, way)
		},
		Fail: func(t testing.TB, s store.Store, fate func() storetest.Fate) store.Store {
			options := client(server.Endpoint).Options()
			options.HTTPClient, options.Retryer = failing(fate), aws.NopRetryer{}
			made, err := dynamostore.New(dynamodb.New(options), dynamostore.Config{Table: s.(handle).table})
			if err != nil {
				t.Fatal(err)
			}
			return handle{made, s.(handle).table}
		},
		TTL:   time.Second,
		Names: 500,
	})
}

// failing is an HTTP client whose requests have a fate.
type failing func() storetest.Fate

func (f failing) Do(r *http.Request) (*http.Response, error) {
	fate := f()
	if fate == storetest.Lost {
		return nil, errLost
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil || fate == storetest.Carried {
		return reply, err
	}
	_, _ = io.Copy(io.Discard, reply.Body)
	_ = reply.Body.Close()
	return nil, errLost
}

var errLost = errors.New("the connection broke")

// corrupt writes over an item, and its version with it. A caller that changes an item and leaves its version is overruled by its
// holder, who has not read it since.
func corrupt(t testing.TB, endpoint, table, name string, way int) string {
	ways := []struct {
		what, update string
		value        types.AttributeValue
	}{
		{"a token that is a text", "SET #a = :v, version = :edited", &types.AttributeValueMemberS{Value: "many"}},
		{"a negative mark", "SET #a = :v, version = :edited", &types.AttributeValueMemberN{Value: "-1"}},
		{"a number that is no int64", "SET #a = :v, version = :edited", &types.AttributeValueMemberN{Value: "1e30"}},
		{"no version", "REMOVE #a", nil},
		{"a state that is a list", "SET #a = :v, version = :edited", &types.AttributeValueMemberL{}},
		{"an instant that is none", "SET #a = :v, version = :edited", &types.AttributeValueMemberS{Value: "yesterday"}},
		{"a release that is a text", "SET #a = :v, version = :edited", &types.AttributeValueMemberS{Value: "true"}},
	}
	attrs := []string{"token", "mark", "ttl_ns", "version", "state", "granted_at", "released"}
	if way >= len(ways) {
		return ""
	}
	in := &dynamodb.UpdateItemInput{
		TableName: &table, Key: map[string]types.AttributeValue{"name": &types.AttributeValueMemberS{Value: name}},
		UpdateExpression: aws.String(ways[way].update), ExpressionAttributeNames: map[string]string{"#a": attrs[way]},
	}
	if ways[way].value != nil {
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":v": ways[way].value, ":edited": &types.AttributeValueMemberS{Value: "edited"}}
	}
	if _, err := client(endpoint).UpdateItem(background, in); err != nil {
		t.Fatal(err)
	}
	return ways[way].what
}

func credentialsInEnvironment(t *testing.T) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
}

func TestOpenURL(t *testing.T) {
	server := shared(t)
	credentialsInEnvironment(t)
	table := fresh(t, server.Endpoint)
	s, err := dynamostore.OpenURL(background, "dynamodb://"+table+"?region=eu-central-1&endpoint="+url.QueryEscape(server.Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ping(background); err != nil {
		t.Fatal(err)
	}
}

// TestQuietSDK: the SDK warns of what DynamoDB Local gets wrong. A store prints nothing.
func TestQuietSDK(t *testing.T) {
	server := shared(t)
	credentialsInEnvironment(t)
	printed, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	stderr := os.Stderr
	os.Stderr = printed
	defer func() { os.Stderr = stderr }()
	s, err := dynamostore.OpenURL(background, "dynamodb://missing?region=eu-central-1&endpoint="+url.QueryEscape(server.Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ping(background); !errors.Is(err, store.ErrSchema) {
		t.Errorf("got %v, want that the table is missing", err)
	}
	if text, err := os.ReadFile(printed.Name()); err != nil || len(text) > 0 {
		t.Errorf("%v; printed: %s", err, text)
	}
}

// TestNoCredentials: the error says where credentials can come from, and that nothing was sent.
func TestNoCredentials(t *testing.T) {
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
	} {
		t.Setenv(name, "")
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	s, err := dynamostore.OpenURL(background, "dynamodb://table?region=eu-central-1&endpoint=http%3A%2F%2F127.0.0.1%3A1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	outcomes, err := acquire(s, "a")
	if err == nil {
		err = outcomes[0].Err
	}
	if err == nil || !strings.Contains(err.Error(), "no valid credentials: set AWS_ACCESS_KEY_ID") || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want an error that names AWS_ACCESS_KEY_ID", err)
	}
}
