// Command soloist runs commands, crontabs and jobs of a fleet on one machine at a time. See docs/operate/command.md.
package main

import (
	"os"
	_ "time/tzdata" // so that zones are known on machines without a database of them
)

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr, environ: os.Environ()}
	os.Exit(a.run(os.Args[1:]))
}
