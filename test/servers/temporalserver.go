//go:build unix

package servers

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
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
