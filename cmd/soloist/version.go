package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version", GroupID: "see", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return a.print(version() + "\n") },
	}
}

// version reports which build of which version this is.
func version() string {
	version, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	return fmt.Sprintf("soloist %s%s %s %s/%s", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
