//go:build unix

package servers

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// The server of Temporal is a Go module, of which there is no package; so it is built.
var (
	//go:embed testdata/temporal/main.go.txt
	temporalMain string
	//go:embed testdata/temporal/go.mod.txt
	temporalMod string
	//go:embed testdata/temporal/go.sum.txt
	temporalSum string
	//go:embed testdata/temporal/config.yaml
	temporalYAML string

	temporalTemplate = template.Must(template.New("config.yaml").Parse(temporalYAML))
)

// TemporalOnPostgres starts Temporal itself, with its data in PostgreSQL. It has no namespace yet. Building it, once on a machine, takes six minutes of CPU.
func TemporalOnPostgres(t Test) *TemporalServer {
	t.Helper()
	path := built(t, "temporal", module{"main.go": temporalMain, "go.mod": temporalMod, "go.sum": temporalSum}, ".")
	postgres, dir := Postgres(t, "fsync=on"), Directory(t)
	host, port, _ := strings.Cut(postgres.Addr, ":")
	for database, schema := range map[string]string{"temporal": "postgresql/v12/temporal", "visibility": "postgresql/v12/visibility"} {
		tool := func(args ...string) {
			t.Helper()
			runAs(t, nil, path, append([]string{"schema", "--plugin", "postgres12", "--endpoint", host, "--port", port, "--user", PostgresUser,
				"--password", PostgresPassword, "--database", database}, args...)...)
		}
		tool("create-database", "--defaultdb", "postgres")
		tool("setup-schema", "--version", "0.0")
		tool("update-schema", "--schema-name", schema)
	}
	services := map[string][]int{}
	for _, name := range []string{"frontend", "matching", "history", "worker"} {
		services[name] = []int{FreePort(t), FreePort(t)}
	}
	addr, config := address(services["frontend"][0]), filepath.Join(dir, "config.yaml")
	var text strings.Builder
	err := temporalTemplate.Execute(&text, map[string]any{
		"Postgres": postgres.Addr, "User": PostgresUser, "Password": PostgresPassword, "Services": services, "Addr": addr,
	})
	if err == nil {
		err = os.WriteFile(config, []byte(text.String()), 0o644)
	}
	if err != nil {
		t.Fatalf("writing the configuration of Temporal: %v", err)
	}
	p := &Process{name: "temporal", path: path, args: []string{"serve", config}, dir: dir, ready: listening(addr)}
	return &TemporalServer{Process: launch(t, p), Addr: addr}
}

// Register makes a namespace, or returns nil if it exists. A server that has just started may refuse that.
func (s *TemporalServer) Register(namespace string) error {
	const name, retention, seconds = 1<<3 | 2, 4<<3 | 2, 1 << 3 // the fields of RegisterNamespaceRequest, and that of Duration
	day := append([]byte{seconds}, binary.AppendUvarint(nil, 24*60*60)...)
	message := append(append([]byte{name, byte(len(namespace))}, namespace...), append([]byte{retention, byte(len(day))}, day...)...)
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	var two http.Protocols
	two.SetUnencryptedHTTP2(true)
	client := http.Client{Transport: &http.Transport{Protocols: &two}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodPost, "http://"+s.Addr+"/temporal.api.workflowservice.v1.WorkflowService/RegisterNamespace", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil { // the trailers come after it
		return err
	}
	const exists = "6"
	if status := response.Header.Get("Grpc-Status") + response.Trailer.Get("Grpc-Status"); status != "0" && status != exists {
		return fmt.Errorf("registering the namespace %s: gRPC status %q %s", namespace, status, response.Header.Get("Grpc-Message")+response.Trailer.Get("Grpc-Message"))
	}
	return nil
}
