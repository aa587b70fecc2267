// Command soloist runs commands, crontabs and jobs of a fleet on one machine at a time. See docs/command.md.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // so that zones are known on machines without a database of them

	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
)

func main() { os.Exit(run(os.Args[1:])) }

// run runs the command and answers its exit code.
func run(args []string) int {
	if err := child.Adopt(); err != nil {
		fmt.Fprintln(os.Stderr, "soloist: daemons that a command leaves behind will not be found:", err)
	}
	a := &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr, environ: os.Environ()}
	return a.run(args)
}
