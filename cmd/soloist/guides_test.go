//go:build unix

package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/soloist-dev/soloist/test/servers"
)

// TestGuidesForCommands runs the scripts of testdata/guides: the commands that docs/guides/from-cron.md replaces, and what replaces them, side by side.
func TestGuidesForCommands(t *testing.T) {
	for name, environment := range map[string]func(*testing.T, *testscript.Env){
		"flock": func(*testing.T, *testscript.Env) {},
		"supercronic": func(t *testing.T, env *testscript.Env) {
			env.Setenv("SUPERCRONIC", servers.SupercronicProgram(t))
		},
		"consul": func(t *testing.T, env *testscript.Env) {
			env.Setenv("CONSUL", servers.ConsulProgram(t))
			server := servers.Consul(t, 1, nil)[0]
			env.Setenv("CONSUL_HTTP_ADDR", server.Addr)
			env.Setenv("SOLOIST_STORE", "consul://"+server.Addr+"/soloist")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Files:       []string{filepath.Join("testdata", "guides", name+".txtar")},
				WorkdirRoot: memoryDir(t),
				Setup: func(env *testscript.Env) error {
					env.Setenv("SOLOIST_STORE", "sqlite:"+filepath.Join(env.WorkDir, "store.db"))
					environment(t, env)
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await, "fails": fails, "signal": signalBackground},
			})
		})
	}
}
