package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"

	"github.com/go-sql-driver/mysql"
)

const (
	urlRule = "must be like mysql://user:password@host:3306/database?tls=true&table=soloist"

	dialTimeout = 10 * time.Second // where the URL has no timeout and the context no deadline
	maxOpen     = 16               // requests come in batches, so few connections carry much
	maxIdleTime = 5 * time.Minute  // below the servers' wait_timeout and what lies in between
)

// OpenURL makes a store with its own connections, which Close closes, without asking the server anything yet. The URL is
//
//	mysql://user:password@host:port/database?tls=true&table=name&schema=name&shedlock=true&shedlock_zone=+01:00&shedlock_columns=name,lock_until,locked_at,locked_by&socket=/path&timeout=5s
//
// or begins with mariadb://. All but the database may be left out: the host is 127.0.0.1, the port 3306. tls is false, true,
// skip-verify or the name of a configuration registered with mysql.RegisterTLSConfig; true verifies the certificate and is what a server
// elsewhere should be spoken to with. socket is the path of a unix socket, in place of a host. timeout bounds the making of a connection.
//
// What is wrong with the URL is a *store.InvalidError, which does not show the password.
func OpenURL(_ context.Context, rawURL string) (*Store, error) {
	driver, cfg, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(driver)
	if err != nil {
		return nil, &store.InvalidError{What: "URL", Value: "of the store", Rule: err.Error()}
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(maxOpen)
	db.SetMaxIdleConns(maxOpen)
	db.SetConnMaxIdleTime(maxIdleTime)
	s, err := New(db, cfg)
	if err != nil {
		db.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

// parseURL returns what the driver and the store make of a URL. Its errors have nothing of the URL in them that may be secret.
func parseURL(rawURL string) (*mysql.Config, Config, error) {
	u, err := url.Parse(rawURL)
	var wrong *url.Error
	switch {
	case errors.As(err, &wrong), err == nil && strings.Contains(u.RawQuery+u.Fragment, "@"): // the password may be in what would be shown
		return nil, Config{}, &store.InvalidError{What: "URL", Value: "of the store", Rule: urlRule + "; a password with / ? # @ : % needs each as %XX"}
	case err == nil && u.Fragment != "":
		return nil, Config{}, &store.InvalidError{What: "URL", Value: "of the store with " + shown("#"+u.Fragment), Rule: "has no fragment: write a # as %23"}
	case err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb":
		return nil, Config{}, &store.InvalidError{What: "URL", Value: "of the store", Rule: urlRule}
	}
	d := mysql.NewConfig()
	d.User = u.User.Username()
	d.Passwd, _ = u.User.Password()
	d.DBName = strings.TrimPrefix(u.Path, "/")
	d.Net, d.Addr = "tcp", net.JoinHostPort(or(u.Hostname(), "127.0.0.1"), or(u.Port(), "3306"))
	d.Timeout = dialTimeout
	d.Logger = &mysql.NopLogger{} // the errors contain what it would log
	d.MultiStatements = true      // only ever those of this package, without a value in them that is not a number or hexadecimal
	d.Params = map[string]string{"time_zone": "'+00:00'", "autocommit": "1", "innodb_lock_wait_timeout": "5"}
	cfg := Config{}
	if err := options(d, &cfg, u.RawQuery); err != nil {
		return nil, Config{}, err
	}
	if port, err := strconv.Atoi(or(u.Port(), "3306")); err != nil || port < 1 || port > 65535 {
		return nil, Config{}, &store.InvalidError{What: "port", Value: shown(u.Port()), Rule: "must be between 1 and 65535"}
	}
	if strings.Contains(d.DBName, "/") || d.DBName == "" && cfg.Schema == "" {
		return nil, Config{}, &store.InvalidError{What: "database", Value: shown(d.DBName), Rule: "must be one name, the path of the URL: " + urlRule}
	}
	return d, cfg, nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// options applies the parameters of the URL. A parameter that cannot be read is an error: if a tls=true were ignored, the password would be sent in
// clear text.
func options(d *mysql.Config, cfg *Config, query string) error {
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(query, "&") {
		if query == "" {
			return nil
		}
		key, value, found := strings.Cut(pair, "=")
		key, errKey := url.QueryUnescape(key)
		value, errValue := url.QueryUnescape(value)
		switch {
		case !found || errKey != nil || errValue != nil || strings.Contains(pair, ";"):
			return &store.InvalidError{What: "URL parameter", Value: shown(pair), Rule: "must be key=value, with & between two, and a ; or % in it as %3B or %25"}
		case seen[key]:
			return &store.InvalidError{What: "URL parameter", Value: shown(key), Rule: "must be given once"}
		}
		seen[key] = true
		if err := option(d, cfg, key, value); err != nil {
			return err
		}
	}
	return nil
}

// option applies one parameter of the URL.
func option(d *mysql.Config, cfg *Config, key, value string) (err error) {
	invalid := func(rule string) error {
		return &store.InvalidError{What: "URL parameter " + key, Value: shown(value), Rule: rule}
	}
	switch key {
	case "table":
		if cfg.Table = value; value == "" {
			return invalid("must be a name; leave it out for the default")
		}
	case "schema":
		if cfg.Schema = value; value == "" {
			return invalid("must be a name; leave it out for that of the connection")
		}
	case "shedlock":
		if cfg.ShedLock, err = strconv.ParseBool(value); err != nil {
			return invalid("must be true or false")
		}
	case "shedlock_zone":
		cfg.ShedLockZone = strings.Replace(value, " ", "+", 1) // a + in a query is a space
	case shedlock.ColumnsOption:
		columns, err := shedlock.ParseColumns(value)
		if err != nil {
			return err
		}
		cfg.ShedLockColumns = ShedLockColumns(columns)
	case "socket":
		if !strings.HasPrefix(value, "/") {
			return invalid("must be the absolute path of a unix socket")
		}
		d.Net, d.Addr = "unix", value
	case "tls":
		if d.TLSConfig = value; value == "" || value == "preferred" {
			return invalid("must be true, false, skip-verify, or the name of a registered configuration")
		}
	case "timeout":
		if d.Timeout, err = time.ParseDuration(value); err != nil || d.Timeout <= 0 {
			return invalid("must be a duration above 0, such as 5s")
		}
	default:
		return &store.InvalidError{What: "URL parameter", Value: shown(key),
			Rule: "is none of tls, table, schema, shedlock, shedlock_zone, shedlock_columns, socket and timeout"}
	}
	return nil
}
