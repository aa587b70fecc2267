package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/importer"
)

func (a *app) importCommand() *cobra.Command {
	from := ""
	var d crontab.Dialect
	c := &cobra.Command{
		Use: "import FILE", Short: "Make the YAML of soloist cron from a crontab, Kubernetes CronJobs or ShedLock's annotations", GroupID: "see",
		Long: `import writes the YAML of soloist cron to standard output, and what it could not carry over to standard error, line by line, and
as comments above each job. FILE is a crontab; a manifest of Kubernetes if its name ends in .yaml or .yml; Java or Kotlin with
ShedLock's annotations if it ends in .java or .kt; - is standard input. The exit code is 78 if no job could be carried over.`,
		Example: `  soloist import crontab >jobs.yaml
  kubectl get cronjobs -o yaml | soloist import --from kubernetes - >jobs.yaml
  grep -rhA3 @Scheduled src | soloist import --from shedlock - >jobs.yaml`,
		Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if from == "" {
				from = originOf(args[0])
			}
			return a.importFile(args[0], from, d)
		},
	}
	flags := c.Flags()
	flags.StringVar(&from, "from", "", "crontab, kubernetes or shedlock (default by the file's name)")
	flags.BoolVar(&d.SystemUsers, "user-column", false, "a crontab with a user before the command, as /etc/crontab; only the current user's lines are carried over")
	flags.BoolVar(&d.LiteralPercent, "literal-percent", false, "in a crontab, % means itself, as in supercronic")
	return c
}

// originOf returns what a file is by its name.
func originOf(name string) string {
	switch filepath.Ext(name) {
	case ".yaml", ".yml":
		return "kubernetes"
	case ".java", ".kt":
		return "shedlock"
	}
	return "crontab"
}

func (a *app) importFile(path, from string, d crontab.Dialect) error {
	var data []byte
	var err error
	name := path
	if path == "-" {
		name = "standard input"
		data, err = io.ReadAll(a.in)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return badConfig(err)
	}
	var result importer.Result
	switch from {
	case "crontab":
		result, err = importer.Crontab(name, data, d)
	case "kubernetes":
		result, err = importer.Kubernetes(name, data)
	case "shedlock":
		result, err = importer.ShedLock(name, data)
	default:
		return usage("--from %q: give crontab, kubernetes or shedlock", from)
	}
	if err != nil {
		return badConfig(err)
	}
	for _, note := range result.Notes {
		a.say("%s", note)
	}
	if result.Jobs == 0 {
		return badConfig(fmt.Errorf("%s: there is no job in it that could be carried over", name))
	}
	_, err = a.out.Write(result.YAML)
	return err
}
