package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// OpenURL opens a store by a URL, such as
//
//	postgres://user:password@host:5432/database?sslmode=verify-full&table=leases
//	postgres://host1,host2/database?target_session_attrs=read-write
//	cockroach://user@host:26257/database
//
// The scheme is postgres, postgresql, cockroach or cockroachdb. What pgx knows may stand in the query, its pool's settings too, and
// these of soloist: schema, table, shedlock (true or false), shedlock_columns (four names with commas between, in the order of ShedLockColumns),
// listen (auto or off). An option that neither we nor the server knows is an error: ours at once, the server's at the first call. Nothing is
// asked of the server yet. A *store.InvalidError says what is wrong, without the password.
func OpenURL(ctx context.Context, text string) (*Store, error) {
	pool, cfg, err := ParseURL(text)
	if err != nil {
		return nil, err
	}
	return Open(ctx, pool, cfg)
}

// Open opens a store with its own pool, which Close closes. The pool's configuration is given to Prepare, and its connections do not
// cancel at the server what they stop waiting for: a commit whose wait for a standby is cancelled is in force, and lost in a failover.
func Open(ctx context.Context, pool *pgxpool.Config, cfg Config) (*Store, error) {
	Prepare(pool)
	dontCancel(pool)
	if pool.ConnConfig.RuntimeParams["application_name"] == "" {
		pool.ConnConfig.RuntimeParams["application_name"] = "soloist"
	}
	p, err := pgxpool.NewWithConfig(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("opening a pool of connections: %w", err)
	}
	s, err := New(p, cfg)
	if err != nil {
		p.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

// ParseURL returns the configuration in a URL, which is as for OpenURL.
func ParseURL(text string) (*pgxpool.Config, Config, error) {
	u, cfg, err := splitURL(text)
	if err != nil {
		return nil, Config{}, err
	}
	pool, err := pgxpool.ParseConfig(u.String())
	if file, is := errors.AsType[*fs.PathError](err); is && errors.Is(file, fs.ErrPermission) {
		return nil, Config{}, fmt.Errorf("a file that the store's URL names: %w", file)
	}
	if err != nil {
		return nil, Config{}, invalidURL(reason(err, u))
	}
	return pool, cfg, nil
}

// ports matches a list of hosts if one of them has a port.
var ports = regexp.MustCompile(`:[0-9]+(,|$)`)

// splitURL takes our own options out of the query.
func splitURL(text string) (*url.URL, Config, error) {
	var cfg Config
	u, err := url.Parse(text)
	if err != nil {
		return nil, cfg, invalidURL("it cannot be read; write postgres://user:password@host:port/database, with what is special in the " +
			"password written as %XX")
	}
	switch u.Scheme {
	case "postgres", "postgresql":
	case "cockroach", "cockroachdb":
		cfg.Dialect = CockroachDB
	default:
		return nil, cfg, invalidURL("its scheme must be postgres, postgresql, cockroach or cockroachdb")
	}
	u.Scheme = "postgres"
	if strings.Contains(text, "#") {
		return nil, cfg, invalidURL("it has a #, after which nothing would be read: write it as %23")
	}
	if u.Opaque != "" {
		return nil, cfg, invalidURL("two slashes must follow its scheme: postgres://host/database")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, cfg, invalidURL("what follows its ? cannot be read; write name=value, with & in between")
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, cfg, invalidURL(fmt.Sprintf("%s is there %d times; once is enough", shown(name), len(values)))
		}
	}
	if err := cfg.read(query); err != nil {
		return nil, cfg, err
	}
	if cfg.Dialect == CockroachDB && !ports.MatchString(u.Host) && !query.Has("port") {
		query.Set("port", "26257")
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // pgx takes a plus for itself
	return u, cfg, nil
}

// options are those of soloist.
var options = []string{"schema", "table", "shedlock", shedlock.ColumnsOption, "listen"}

// read takes the options of our own out of query.
func (c *Config) read(query url.Values) error {
	for name := range query {
		// A server takes any name for its own setting, and says only later that it knows none. What is meant for us is refused here.
		for _, ours := range options {
			if name != ours && strings.EqualFold(strings.NewReplacer("_", "", "-", "").Replace(name), ours) {
				return invalidURL(fmt.Sprintf("the option %s is written %s", shown(name), ours))
			}
		}
		if !slices.Contains(options, name) && !known(name) {
			return invalidURL(fmt.Sprintf("it has the unknown option %s; ours are %s, and those of pgx and the server's settings are taken too",
				shown(name), strings.Join(options, ", ")))
		}
	}
	var err error
	for _, name := range []string{"schema", "table"} {
		if query.Has(name) && query.Get(name) == "" {
			return &store.InvalidError{What: "option " + name, Value: shown(""), Rule: "must not be empty; leave it out for the default"}
		}
	}
	c.Schema, c.Table = query.Get("schema"), query.Get("table")
	if query.Has("shedlock") {
		if c.ShedLock, err = strconv.ParseBool(query.Get("shedlock")); err != nil {
			return &store.InvalidError{What: "option shedlock", Value: shown(query.Get("shedlock")), Rule: "must be true or false"}
		}
	}
	if query.Has(shedlock.ColumnsOption) {
		columns, err := shedlock.ParseColumns(query.Get(shedlock.ColumnsOption))
		if err != nil {
			return err
		}
		c.ShedLockColumns = ShedLockColumns(columns)
	}
	switch listen := query.Get("listen"); {
	case !query.Has("listen"):
	case listen == "auto":
	case listen == "off":
		c.Listen = ListenOff
	default:
		return &store.InvalidError{What: "option listen", Value: shown(listen), Rule: "must be auto or off"}
	}
	for _, name := range options {
		query.Del(name)
	}
	return c.filled().check()
}

// known reports whether pgx, or the server, may know an option. Of the server's settings those are here that a session of ours may want; any
// other can be set in options=-c name=value.
func known(name string) bool {
	return strings.HasPrefix(name, "pool_") || strings.HasPrefix(name, "ssl") || slices.Contains([]string{
		"host", "port", "database", "dbname", "user", "password", "passfile", "service", "servicefile", "connect_timeout",
		"target_session_attrs", "krbsrvname", "krbspn", "min_protocol_version", "max_protocol_version", "channel_binding", "require_auth",
		"default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity", "application_name", "options",
		"search_path", "timezone", "TimeZone", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout",
		"synchronous_commit", "client_encoding", "tcp_user_timeout", "role", "load_balance_hosts",
	}, name)
}

func invalidURL(rule string) error {
	return &store.InvalidError{What: "URL", Value: "of the store", Rule: rule}
}

// reason is what pgx finds wrong, in one line and without anything secret.
func reason(err error, u *url.URL) string {
	var parse *pgconn.ParseConfigError
	text := err.Error()
	if errors.As(err, &parse) && parse.Unwrap() != nil {
		text = parse.Unwrap().Error()
	}
	for name, values := range u.Query() { // of a number pgx does not say which
		if value := values[0]; strings.Contains(text, "strconv.") && !strings.Contains(name, "password") && strings.Contains(text, strconv.Quote(value)) {
			return fmt.Sprintf("its option %s is %s, and must be a number", name, shown(value))
		}
	}
	password, _ := u.User.Password()
	for _, secret := range []string{password, url.QueryEscape(password), url.PathEscape(password), u.Query().Get("password"),
		u.Query().Get("sslpassword"), u.RawQuery, u.String()} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	return text
}
