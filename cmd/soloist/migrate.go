package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/store"
)

func (a *app) migrateCommand() *cobra.Command {
	c := &cobra.Command{Use: "migrate", Short: "Make the store's schema, or bring it up to date", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand,
		Long: `Some stores keep their records in tables, which must be made before the first use and updated for later versions. Other
stores need no migration. Many replicas may migrate at the same time.`}
	shedlock := false
	within := 5 * time.Minute
	up := &cobra.Command{
		Use: "up", Short: "Make the tables, or bring them up to date", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			m, s, err := a.migrator(shedlock)
			if err != nil {
				return err
			}
			defer s.Close()
			if m == nil {
				a.say("this store needs no schema")
				return nil
			}
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			done, err := m.Migrate(ctx)
			for _, line := range done {
				_ = a.print(line + "\n")
			}
			if err == nil && len(done) == 0 {
				err = a.print("the schema is up to date\n")
			}
			if err == nil && shedlock {
				a.say("put shedlock=true into the URL of the store that each replica uses: without it they would not share this table")
			}
			return err
		},
	}
	up.Flags().DurationVar(&within, "within", within, "give up after this time")
	show := &cobra.Command{
		Use: "print", Short: "Print the statements that make the tables, for a database administrator", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			m, s, err := a.migrator(shedlock)
			if err != nil {
				return err
			}
			defer s.Close()
			if m == nil {
				a.say("this store needs no schema")
				return nil
			}
			return a.print(strings.TrimRight(m.Schema(), "\n") + "\n")
		},
	}
	for _, sub := range []*cobra.Command{up, show} {
		sub.Flags().BoolVar(&shedlock, "shedlock", false, "the table is ShedLock's, and is shared with its Java clients (as shedlock=true in the URL)")
		c.AddCommand(sub)
	}
	return c
}

// migrator returns the store, and it as a Migrator or nil if it has no schema.
func (a *app) migrator(shedlock bool) (store.Migrator, store.Store, error) {
	src, err := a.source()
	if err != nil {
		return nil, nil, err
	}
	if src.scheme() == moveScheme {
		return nil, nil, badConfig(fmt.Errorf("%s names two stores: migrate each of them by its own URL", src.from))
	}
	if shedlock {
		switch src.scheme() {
		case "postgres", "postgresql", "cockroach", "mysql", "mariadb":
			if src.text, err = withOption(src.text, "shedlock", "true"); err != nil {
				return nil, nil, badConfig(fmt.Errorf("%s: %w", src.from, err))
			}
		default:
			return nil, nil, usage("--shedlock is for the tables of PostgreSQL and MySQL, and %s names another store", src.from)
		}
	}
	s, err := src.open()
	if err != nil {
		return nil, nil, err
	}
	m, _ := store.As[store.Migrator](s)
	return m, s, nil
}

// withOption adds an option to the query of a URL unless it is there. One that is there with another value is an error.
func withOption(text, key, value string) (string, error) {
	head, query, _ := strings.Cut(text, "?")
	for _, option := range strings.Split(query, "&") {
		switch name, given, _ := strings.Cut(option, "="); {
		case name == key && given != value:
			return "", fmt.Errorf("the URL says %s, and --%s asks for %s=%s: say the same in both", option, key, key, value)
		case name == key:
			return text, nil
		}
	}
	if query != "" {
		query += "&"
	}
	return head + "?" + query + key + "=" + value, nil
}
