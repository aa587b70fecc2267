//go:build unix

package fleet

import (
	"strings"
	"testing"
)

// A replica that crashes when it is told to end is reported as one that crashed; one that ends otherwise, or is killed, is not reported.
func TestCrashAtTheEndIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		script string // what it does on TERM
		kill   bool
		want   string
	}{
		"it obeys":   {script: "exit 0"},
		"it fails":   {script: "exit 1"},
		"it panics":  {script: "echo panic: it is over >&2; exit 2", want: "panic: it is over"},
		"it aborts":  {script: "trap - ABRT; kill -ABRT $$", want: "abort"},
		"it is shot": {script: "exit 2", kill: true},
	} {
		t.Run(name, func(t *testing.T) {
			ready := make(chan struct{})
			var failed []*EndedError
			p, err := Launch{
				Name: "r1", Executable: "/bin/sh", Args: []string{"-c", "ulimit -c 0; trap '" + c.script + "' TERM; echo ready; while :; do sleep 0.01; done"},
				Line: func([]byte) { close(ready) }, Failed: func(e *EndedError) { failed = append(failed, e) },
			}.Start()
			if err != nil {
				t.Fatal(err)
			}
			<-ready
			sig := Terminate
			if c.kill {
				sig = Kill
			}
			if err := p.End(sig); err != nil {
				t.Fatal(err)
			}
			<-p.Gone
			switch {
			case c.want == "" && len(failed) > 0:
				t.Errorf("%v", failed[0])
			case c.want != "" && (len(failed) != 1 || !failed[0].Crashed || !strings.Contains(failed[0].Error(), "replica r1 has crashed") || !strings.Contains(failed[0].Error(), c.want)):
				t.Errorf("%v, want a crash, %q", failed, c.want)
			}
		})
	}
}
