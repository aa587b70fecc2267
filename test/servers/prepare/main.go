//go:build unix

// Command prepare builds the server whose build takes longest, so that tests which come later find it. A test that comes before its end waits for it.
package main

import (
	"fmt"
	"os"

	"github.com/soloist-dev/soloist/test/servers"
)

func main() {
	if err := servers.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
