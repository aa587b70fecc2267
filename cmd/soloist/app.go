package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
)

// An app is one invocation of the command.
type app struct {
	in      *os.File
	out     io.Writer
	errs    io.Writer
	environ []string

	argv      []string // what stood after the first --: the child's, untouched
	shellLine string   // of --command, which stands for argv
	ran       bool     // the arguments were fine, and a subcommand has begun

	// The flags that every subcommand has.
	storeURL     string
	namespace    string
	replica      string
	output       string
	ttl          time.Duration
	requireFleet bool
	passStore    bool

	config        string             // the path of the configuration file
	configured    bool               // it has been read
	configStore   setting            // its store or store-file
	configRequire setting            // its require
	fromConfig    map[string]setting // the flags that it has set

	flags *pflag.FlagSet // those of every subcommand
	found source         // once it has been looked for

	messages *child.Funnel // for stderr, once there is something to say
}

func (a *app) run(args []string) int {
	defer a.flush()
	if i := slices.Index(args, "--"); i >= 0 {
		if args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd { // the child's command: the shell knows better
			return a.fail(a.print(fmt.Sprintf(":%d\n", cobra.ShellCompDirectiveDefault)))
		}
		args, a.argv = args[:i], args[i+1:]
		if len(a.argv) == 0 {
			return a.fail(usage("nothing stands after --; put the command to run there"))
		}
	}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	err := root.ExecuteContext(context.Background())
	if err != nil && !a.ran && exitCode(err) == exitUnavailable { // cobra refused the arguments
		err = usage("%v", err)
	}
	return a.fail(err)
}

// fail shows an error, if there is one, and returns its exit code.
func (a *app) fail(err error) int {
	var ended *exit
	if errors.As(err, &ended) && ended.err == nil {
		return ended.code
	}
	code := exitCode(err)
	if err != nil {
		text := inWords(err)
		if code == exitUsage || code == exitConfig {
			if where := a.setIn(text); where != "" {
				text, code = text+where, exitConfig
			}
		}
		a.say("%s", text)
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "soloist",
		Short: "Run it on one machine of the fleet at a time",
		Long: `soloist runs work that a fleet must do once on exactly one of its machines: flock and cron for a fleet, on a store that
all machines reach.

Everything after the first -- is the command to run and its arguments; soloist does not parse flags there.

Exit codes: that of the command, or 128+n after signal n; 64 wrong arguments; 69 the store cannot be reached; 70 an
element has failed too often; 75 held, or waited too long; 76 the lease was lost and the command was stopped; 77 denied;
78 wrong configuration; 126 the command is not executable; 127 it is not found.

--config FILE gives flags values from a file. What is given on the command line counts first, then the environment, then the file.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noSubcommand(c, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(badFlag)
	root.SetVersionTemplate("{{.Version}}\n")
	flags := root.PersistentFlags()
	a.flags = flags
	flags.StringVar(&a.storeURL, "store", "", "URL of the store: memory:, sqlite:PATH, redis://…, postgres://…, mysql://…, dynamodb://…, cassandra://…, hazelcast://…, etcd://…, consul://…, nats://…, zk://…, temporal://…, move:PHASE OLD NEW (see docs/operate/command.md)\n(default $SOLOIST_STORE, or the URL in the file $SOLOIST_STORE_FILE, or an SQLite file in the user's state directory)")
	flags.StringVar(&a.namespace, "namespace", a.env("SOLOIST_NAMESPACE"), "keeps names apart from those of other applications on the store ($SOLOIST_NAMESPACE)")
	flags.BoolVar(&a.requireFleet, "require-fleet", false, "refuse a store that other machines cannot share ($SOLOIST_REQUIRE=fleet,fencing,durable asks for more)")
	flags.StringVar(&a.replica, "replica", "", "what lists show as the holder (default USER@HOST/PID)")
	a.configFlag(flags)
	root.AddGroup(&cobra.Group{ID: "run", Title: "To run something:"}, &cobra.Group{ID: "see", Title: "To see and to act:"})
	root.AddCommand(a.lockCommand(), a.onceCommand(), a.semCommand(), a.leadCommand(), a.cronCommand(), a.serveCommand(),
		a.jobsCommand(), a.locksCommand(), a.leadersCommand(), a.auditCommand(), a.replicasCommand(), a.elementsCommand(), a.semsCommand(), a.doctorCommand(), a.migrateCommand(), a.verifyCommand(), a.verifyReplicaCommand(), a.benchCommand(), a.benchWaiterCommand(), a.endOrphanedCommand(), a.moveCommand(), a.importCommand(),
		a.demoCommand(), demoReplicaCommand(), a.manCommand(), a.configCommand(), a.versionCommand())
	strictHelp(root)
	a.complete(root)
	for _, c := range root.Commands() {
		a.finish(c)
	}
	return root
}

// finish makes a usage error of what cobra says of a subcommand's arguments, reads the configuration before they are
// looked at, and notes that the subcommand has begun.
func (a *app) finish(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := a.configure(c); err != nil {
				return err
			}
			a.ran = true
			return run(c, args)
		}
	}
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			if c.HasAvailableSubCommands() && c.Name() != "completion" && len(given) > 0 {
				return noSubcommand(c, given[0])
			}
			if err := a.configure(c); err != nil {
				return err
			}
			if err := args(c, given); err != nil {
				return usage("%v; usage: %s", err, c.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		a.finish(sub)
	}
}

// noChild is the Args of subcommands that run nothing.
func (a *app) noChild(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if a.argv != nil {
			return errors.New("it runs no command, so nothing may stand after --")
		}
		return args(c, given)
	}
}

// withChild is the Args of subcommands that run a command under a lease.
func (a *app) withChild(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case a.shellLine != "" && a.argv != nil:
			return errors.New("give the command after --, or by --command, not both")
		case a.shellLine != "":
			a.argv = []string{"/bin/sh", "-c", a.shellLine}
		}
		if err := cobra.ExactArgs(n)(c, given); err != nil {
			if a.argv == nil && len(given) > n {
				return errors.New("put -- before the command to run")
			}
			return err
		}
		if a.argv == nil {
			return errors.New("put the command to run after --, or a line for the shell into --command")
		}
		return nil
	}
}

// env returns the value of a variable of the environment, "" for one that is not set.
func (a *app) env(name string) string {
	value, _ := a.lookupEnv(name)
	return value
}

// lookupEnv returns a variable of the environment, and whether it is set. Of several entries the last counts.
func (a *app) lookupEnv(name string) (value string, set bool) {
	for _, entry := range slices.Backward(a.environ) {
		if value, set := strings.CutPrefix(entry, name+"="); set {
			return value, true
		}
	}
	return "", false
}

// emptyFlag reports that a flag of every subcommand was given with an empty value, as by a variable that is not set.
func (a *app) emptyFlag(name string) bool {
	flag := a.flags.Lookup(name)
	return flag != nil && flag.Changed && flag.Value.String() == ""
}

// environWithout returns the environment without some variables.
func (a *app) environWithout(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(a.environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

// client opens the store and makes a client on it. The function that it returns closes both.
func (a *app) client(cfg soloist.Config) (*soloist.Client, func() error, error) {
	s, err := a.openStore()
	if err != nil {
		return nil, nil, err
	}
	cfg.Namespace, cfg.Replica = a.namespace, a.replicaName()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler) // the command itself says what happened
	} else {
		cfg.Logger.Info("using", a.describe(context.Background(), s)...)
	}
	c, err := soloist.New(s, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return c, func() error { return errors.Join(c.Close(), s.Close()) }, nil
}

func (a *app) replicaName() string {
	if a.replica != "" {
		return a.replica
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	name := host + "/" + strconv.Itoa(os.Getpid())
	if u, err := user.Current(); err == nil {
		name = u.Username + "@" + name
	}
	return name
}

// look calls fn with a client that takes no leases of its own for long.
func (a *app) look(fn func(ctx context.Context, c *soloist.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return a.ask(ctx, fn)
}

// change is look for what takes a name that may be overdue: in a store without a clock, that is watched for as long as soloist.Options.Overdue says.
// An INT or TERM ends the wait.
func (a *app) change(what string, fn func(ctx context.Context, c *soloist.Client) error) error {
	ctx, stop := untilInterrupted(what)
	defer stop()
	err := a.ask(ctx, fn)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // and not what that has led to
	}
	return err
}

// ask calls fn with a client, and closes that.
func (a *app) ask(ctx context.Context, fn func(ctx context.Context, c *soloist.Client) error) error {
	c, closing, err := a.client(soloist.Config{})
	if err != nil {
		return err
	}
	err = fn(ctx, c)
	if closed := closing(); err == nil {
		err = closed
	}
	if errors.Is(err, soloist.ErrDone) { // an element that cannot be retried
		return &exit{exitUsage, err}
	}
	return err
}
