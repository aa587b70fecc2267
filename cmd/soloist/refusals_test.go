//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/rogpeppe/go-internal/testscript"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc"

	"github.com/soloist-dev/soloist/test/servers"
)

// TestRefusals runs the scripts of testdata/refusals: a store without a clock that cannot be used as it is, or not by this user, says why and what to do.
func TestRefusals(t *testing.T) {
	for name, environment := range map[string]func(*testing.T, *testscript.Env){
		"dynamodb": refusingDynamoDB, "cassandra": refusingCassandra, "hazelcast": refusingHazelcast, "temporal": refusingTemporal,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Files: []string{filepath.Join("testdata", "refusals", name+".txtar")},
				Setup: func(env *testscript.Env) error { environment(t, env); return nil },
				Cmds:  map[string]func(*testscript.TestScript, bool, []string){"refused": refused, "works": works, "fails": fails},
			})
		})
	}
}

// refused CODE REGEXP URL wants that the store of a URL is refused, by an error that matches: by lock, which ends with the code and has not run its command, and by
// doctor, for which it is a finding.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: refused code regexp url")
	}
	for _, run := range []struct {
		code, says string
		args       []string
	}{
		{args[0], "(?m)" + args[1], []string{"lock", "x", "--", "touch", "ran"}},
		{"1", "(?m)^error +[a-z ]+ +.*(?:" + args[1] + ")", []string{"doctor"}},
	} {
		says := regexp.MustCompile(run.says)
		code, text := said(ts, args[2], run.args)
		for end := time.Now().Add(servers.Patience); (code != run.code || !says.MatchString(text)) && timeOut.MatchString(text) && time.Now().Before(end); {
			code, text = said(ts, args[2], run.args) // a busy machine did not get as far as the refusal
		}
		if code != run.code || !says.MatchString(text) || strings.Contains(text, "canary") || strings.Contains(text, "goroutine") {
			ts.Fatalf("%s: exit code %s, want %s with %s:\n%s", run.args, code, run.code, run.says, text)
		}
	}
	if _, err := os.Stat(ts.MkAbs("ran")); err == nil {
		ts.Fatalf("%s: the command has run", args[2])
	}
}

// works URL wants that the store of a URL can be used.
func works(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: works url")
	}
	run := []string{"lock", "x", "--", "true"}
	code, text := said(ts, args[0], run)
	for end := time.Now().Add(servers.Patience); code == strconv.Itoa(exitUnavailable) && timeOut.MatchString(text) && time.Now().Before(end); {
		if code, text = said(ts, args[0], run); code == strconv.Itoa(exitHeld) { // by the one before, whose grant came too late
			code, text = said(ts, args[0], append([]string{"lock", "--wait", servers.Patience.String()}, run[1:]...))
		}
	}
	if code != "0" {
		ts.Fatalf("%s: exit code %s:\n%s", args[0], code, text)
	}
}

// said runs the command in a script, and returns its exit code and what it wrote.
func said(ts *testscript.TestScript, store string, args []string) (code, text string) {
	path, err := exec.LookPath("soloist")
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "SOLOIST_STORE=" + store}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		ts.Check(err)
	}
	return strconv.Itoa(cmd.ProcessState.ExitCode()), out.String()
}

// website is a server of something else.
func website(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func refusingDynamoDB(t *testing.T, env *testscript.Env) {
	server := servers.DynamoDB(t)
	at := func(endpoint string) string { return "region=eu-central-1&endpoint=" + url.QueryEscape(endpoint) }
	plain := strings.TrimPrefix(server.Endpoint, "http://")
	encrypted, _ := servers.Encrypted(t, plain, "http/1.1")
	env.Setenv("HERE", at(server.Endpoint))
	env.Setenv("TLS_WITHOUT", at("https://"+plain))
	env.Setenv("PLAIN_WITH_TLS", at("http://"+encrypted))
	env.Setenv("UNTRUSTED", at("https://"+encrypted))
	env.Setenv("WEBSITE", at("http://"+website(t)))
	env.Setenv("AWS_ACCESS_KEY_ID", "canary")
	env.Setenv("AWS_SECRET_ACCESS_KEY", "canary")
	env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for name, code := range map[string]string{
		"EXPIRED": "ExpiredTokenException", "DENIED": "AccessDeniedException", "UNKNOWN": "UnrecognizedClientException", "THROTTLED": "ProvisionedThroughputExceededException",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"so it is"}`, code)
		}))
		t.Cleanup(s.Close)
		env.Setenv(name, at(s.URL))
	}
	table := func(name, key string) {
		t.Helper()
		request, err := http.NewRequest(http.MethodPost, server.Endpoint, strings.NewReader(fmt.Sprintf(`{"TableName": %q, "BillingMode": "PAY_PER_REQUEST",
			"KeySchema": [{"AttributeName": "name", "KeyType": "HASH"}%s]}`, name, key)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Amz-Target", "DynamoDB_20120810.CreateTable")
		request.Header.Set("Content-Type", "application/x-amz-json-1.0")
		request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/eu-central-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("making the table %s: %s %v", name, text, err)
		}
	}
	table("wide", `, {"AttributeName": "at", "KeyType": "RANGE"}], "AttributeDefinitions": [{"AttributeName": "name", "AttributeType": "S"}, {"AttributeName": "at", "AttributeType": "N"}`)
	table("numbers", `], "AttributeDefinitions": [{"AttributeName": "name", "AttributeType": "N"}`)
}

func refusingCassandra(t *testing.T, env *testscript.Env) {
	server := servers.Cassandra(t)
	plain, _ := servers.Encrypted(t, server.Addr, "")
	env.Setenv("ADDR", server.Addr)
	env.Setenv("SUPER", "cassandra:cassandra@"+server.Addr)
	env.Setenv("ENCRYPTED", plain)
	env.Setenv("WEBSITE", website(t))
	cluster := gocql.NewCluster(server.Addr)
	cluster.Authenticator = gocql.PasswordAuthenticator{Username: "cassandra", Password: "cassandra"}
	cluster.Timeout, cluster.ConnectTimeout = servers.Patience, servers.Patience
	var session *gocql.Session
	servers.Wait(t, "the superuser of Cassandra", func() (ok bool) {
		var err error
		session, err = cluster.CreateSession()
		return err == nil
	})
	defer session.Close()
	for _, statement := range []string{
		`CREATE KEYSPACE one WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
		`CREATE KEYSPACE three WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}`,
		`CREATE TABLE one.other (id int PRIMARY KEY, note text)`,
		`CREATE ROLE reader WITH PASSWORD = 'reader' AND LOGIN = true`,
	} {
		if err := session.Query(statement).Exec(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func refusingHazelcast(t *testing.T, env *testscript.Env) {
	server := servers.Hazelcast(t)
	encrypted, _ := servers.Encrypted(t, server.Addr, "")
	env.Setenv("ADDR", server.Addr)
	env.Setenv("CLUSTER", servers.HazelcastName)
	env.Setenv("ENCRYPTED", encrypted)
	env.Setenv("WEBSITE", website(t))
}

func refusingTemporal(t *testing.T, env *testscript.Env) {
	server := servers.Temporal(t)
	encrypted, _ := servers.Encrypted(t, server.Addr, "h2")
	env.Setenv("ADDR", server.Addr)
	env.Setenv("ENCRYPTED", encrypted)
	env.Setenv("WEBSITE", website(t))
	for name, failure := range map[string]error{
		"NOWHERE": serviceerror.NewNamespaceNotFound("nowhere"), "DENIED": serviceerror.NewPermissionDenied("Request unauthorized.", ""),
		"THROTTLED": &serviceerror.ResourceExhausted{Message: "namespace rate limit exceeded"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return serviceerror.ToStatus(failure).Err() }))
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		env.Setenv(name, l.Addr().String())
	}
}
