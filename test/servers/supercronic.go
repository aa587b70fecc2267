//go:build unix

package servers

import _ "embed"

// Supercronic, which runs crontabs, is a Go module, of which there is no package; so it is built.
var (
	//go:embed testdata/supercronic/go.mod.txt
	supercronicMod string
	//go:embed testdata/supercronic/go.sum.txt
	supercronicSum string
)

// SupercronicProgram returns the path of supercronic, which is built once on a machine.
func SupercronicProgram(t Test) string {
	t.Helper()
	return built(t, "supercronic", module{"go.mod": supercronicMod, "go.sum": supercronicSum}, "github.com/aptible/supercronic")
}
