//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// A server, a table or a user that is not what a store needs is refused before anything runs, by an error that says what would be right.
func TestMistakesAboutServers(t *testing.T) {
	dir := t.TempDir()
	redis := servers.Redis(t, "--databases", "1").Addr
	refused := func(t *testing.T, url string, code int, says string, env ...string) {
		t.Helper()
		one(t, dir, append(env, "SOLOIST_STORE="+url), []string{"lock", "x", "--", "touch", "ran"}, code, says)
		got, out, errs := mistaken(t, dir, append(env, "SOLOIST_STORE="+url), []string{"doctor"})
		if got != 1 || !strings.Contains(out, says) || strings.Contains(out+errs, "canary") {
			t.Errorf("doctor of %s: exit code %d, want 1 with %q:\n%s%s", url, got, says, out, errs)
		}
	}
	t.Run("DynamoDB", func(t *testing.T) {
		t.Parallel()
		server := servers.DynamoDB(t)
		aws := []string{"AWS_ACCESS_KEY_ID=canary", "AWS_SECRET_ACCESS_KEY=canary", "AWS_EC2_METADATA_DISABLED=true"}
		at := func(table, endpoint string) string {
			return "dynamodb://" + table + "?region=eu-central-1&endpoint=" + url.QueryEscape(endpoint)
		}
		refused(t, at("missing", server.Endpoint), 78, "run `soloist migrate up`", aws...)
		makeTable(t, server.Endpoint, "foreign")
		refused(t, at("foreign", server.Endpoint), 78, "foreign", aws...)
		refused(t, at("missing", "https"+strings.TrimPrefix(server.Endpoint, "http")), 69, "write http: in its address", aws...)
		refused(t, at("missing", server.Endpoint), 69, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", aws[2])
	})
	t.Run("Cassandra", func(t *testing.T) {
		t.Parallel()
		addr := servers.Cassandra(t).Addr
		at := func(user, addr, rest string) string { return "cassandra://" + user + addr + "/" + rest }
		const user = "cassandra:cassandra@"
		servers.Wait(t, "the superuser of Cassandra", func() bool {
			_, _, errs := mistaken(t, dir, []string{"SOLOIST_STORE=" + at(user, addr, "missing")}, []string{"lock", "x", "--", "touch", "ran"})
			return strings.Contains(errs, "CREATE KEYSPACE")
		})
		refused(t, at(user, addr, "missing"), 78, `make it with "CREATE KEYSPACE missing`)
		refused(t, at(user, addr, "system"), 78, "run `soloist migrate up`")
		refused(t, at("", addr, "missing"), 77, "the server wants a user and a password")
		refused(t, at("cassandra:canary@", addr, "missing"), 77, "check the user and the password")
		refused(t, at(user, addr, "missing?tls=true"), 69, "leave out tls=true")
		refused(t, at(user, redis, "missing?dialtimeout=1s"), 69, "is it the port of Cassandra's native protocol?")
		got, _, errs := mistaken(t, dir, []string{"SOLOIST_STORE=" + at(user, addr, "system")}, []string{"migrate", "up"})
		if got != 77 || !strings.Contains(errs, "a right is missing") {
			t.Errorf("migrate up in a keyspace of the server's: exit code %d:\n%s", got, errs)
		}
	})
	t.Run("Hazelcast", func(t *testing.T) {
		t.Parallel()
		addr := servers.Hazelcast(t).Addr
		for _, rest := range []string{"/locks?cluster=other", "/locks", "/locks?cluster=" + servers.HazelcastName + "&tls=true"} {
			refused(t, "hazelcast://"+addr+rest, 69, "another name of the cluster")
		}
		refused(t, "hazelcast://"+redis+"/locks?dialtimeout=1s", 69, "another port")
		one(t, dir, []string{"SOLOIST_STORE=hazelcast://" + addr + "/expiring?cluster=" + servers.HazelcastName}, []string{"lock", "x", "--", "touch", "ran"}, 78, "time-to-live-seconds")
	})
	t.Run("Temporal", func(t *testing.T) {
		t.Parallel()
		addr := servers.Temporal(t).Addr
		refused(t, "temporal://"+addr+"/default?tls=true", 69, "leave out tls=true")
		refused(t, "temporal://"+redis+"/default", 69, "is it the address of Temporal's frontend?")
	})
}

// makeTable makes a table of DynamoDB Local whose key is no name. It does not look at signatures.
func makeTable(t *testing.T, endpoint, name string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(fmt.Sprintf(`{"TableName": %q, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`, name)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	request.Header.Set("X-Amz-Target", "DynamoDB_20120810.CreateTable")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=canary/20200101/eu-central-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		t.Fatalf("making a table: %s: %s", response.Status, text)
	}
}
