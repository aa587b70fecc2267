//go:build unix

package servers

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// dynamoDBLocal is the emulator of DynamoDB by its vendor, pinned to a version that resolves.
const dynamoDBLocal = "software.amazon.dynamodb:DynamoDBLocal:3.1.0"

// A DynamoDBServer is DynamoDB Local.
type DynamoDBServer struct {
	*Process
	Endpoint string // http://127.0.0.1:port
}

// DynamoDB starts DynamoDB Local, with its tables in memory. It takes any region and any credentials, and each of them has the same tables.
func DynamoDB(t Test) *DynamoDBServer {
	t.Helper()
	return startDynamoDB(t, Directory(t), "-inMemory")
}

// DynamoDBOnDisk is DynamoDB, which has its tables again when it is killed and started.
func DynamoDBOnDisk(t Test) *DynamoDBServer {
	t.Helper()
	dir := Directory(t)
	return startDynamoDB(t, dir, "-dbPath", dir)
}

func startDynamoDB(t Test, dir string, where ...string) *DynamoDBServer {
	t.Helper()
	java := Program(t, "Java", "java")
	path := jars(t, dynamoDBLocal)
	port := FreePort(t)
	lib := path[:len(path)-len("/*")]
	args := append([]string{"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.library.path=" + lib, "-cp", path,
		"software.amazon.dynamodb.services.local.main.ServerRunner", "-sharedDb", "-disableTelemetry", "-port", strconv.Itoa(port)}, where...)
	endpoint := "http://" + address(port)
	p := launch(t, &Process{name: fmt.Sprintf("dynamodb-%d", port), path: java, args: args, dir: dir, ready: responding(endpoint)})
	return &DynamoDBServer{Process: p, Endpoint: endpoint}
}

// responding is nil when a server responds to HTTP, with any status.
func responding(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
}
