package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/mysqlstore"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

// A source is the URL of a store and where it stands. Messages name the latter: the URL itself may have secrets in it.
type source struct{ text, from string }

// openStore opens the store of --store, $SOLOIST_STORE, $SOLOIST_STORE_FILE, or the user's own file.
func (a *app) openStore() (store.Store, error) {
	src, err := a.source()
	if err != nil {
		return nil, err
	}
	return src.open()
}

func (a *app) source() (source, error) {
	switch {
	case a.storeURL != "":
		if hasPassword(a.storeURL) {
			return source{}, badConfig(errors.New("--store has a password in it, and everybody on this machine can see the arguments of a process: put the URL into $SOLOIST_STORE, or into a file and its path into $SOLOIST_STORE_FILE"))
		}
		return source{a.storeURL, "--store"}, nil
	case a.env("SOLOIST_STORE") != "":
		return source{a.env("SOLOIST_STORE"), "$SOLOIST_STORE"}, nil
	case a.env("SOLOIST_STORE_FILE") != "":
		path := a.env("SOLOIST_STORE_FILE")
		text, err := os.ReadFile(path)
		if err != nil {
			return source{}, badConfig(fmt.Errorf("reading the store's URL from $SOLOIST_STORE_FILE: %w", err))
		}
		return source{strings.TrimSpace(string(text)), path}, nil
	}
	path, err := a.stateFile()
	if err != nil {
		return source{}, badConfig(err)
	}
	return source{"sqlite:" + path, "the default store"}, nil
}

func (s source) scheme() string {
	scheme, _, _ := strings.Cut(s.text, ":")
	return strings.ToLower(scheme)
}

// stateFile is the default store. Its directory is made if it is not there.
func (a *app) stateFile() (string, error) {
	dir := a.env("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // as the XDG base directory specification has it
		home := a.env("HOME")
		if home == "" {
			return "", errors.New("there is no store: give --store or $SOLOIST_STORE, for there is no $HOME to keep one in")
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "soloist")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the directory of the default store: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("looking at the directory of the default store: %w", err)
	}
	if why := untrusted(info); why != "" {
		return "", fmt.Errorf("the directory %s of the default store: %s: chown and chmod it, or name the store by --store if that is meant", dir, why)
	}
	return filepath.Join(dir, "soloist.db"), nil
}

// quiet keeps go-redis from writing to standard error what the errors say as well.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }

// openers open the stores, by the scheme of their URL. They do not connect yet, but for that of SQLite.
var openers = map[string]func(ctx context.Context, text string) (store.Store, error){
	"memory": func(_ context.Context, text string) (store.Store, error) {
		if len(text) > len("memory:") {
			return nil, badConfig(errors.New("nothing may follow memory:"))
		}
		return memstore.New(), nil
	},
	"sqlite": func(_ context.Context, text string) (store.Store, error) {
		path, err := sqlitePath(text[len("sqlite:"):])
		if err != nil {
			return nil, badConfig(err)
		}
		return openSQLite(path)
	},
	"redis":           opener(redisstore.OpenURL),
	"rediss":          opener(redisstore.OpenURL),
	"redis+sentinel":  opener(redisstore.OpenURL),
	"rediss+sentinel": opener(redisstore.OpenURL),
	"redis+cluster":   opener(redisstore.OpenURL),
	"rediss+cluster":  opener(redisstore.OpenURL),
	"postgres":        opener(pgstore.OpenURL),
	"postgresql":      opener(pgstore.OpenURL),
	"cockroach":       opener(pgstore.OpenURL),
	"cockroachdb":     opener(pgstore.OpenURL),
	"mysql":           opener(mysqlstore.OpenURL),
	"mariadb":         opener(mysqlstore.OpenURL),
}

// opener makes the OpenURL of a package one of openers, without the nil that is not nil.
func opener[S store.Store](open func(context.Context, string) (S, error)) func(context.Context, string) (store.Store, error) {
	return func(ctx context.Context, text string) (store.Store, error) {
		s, err := open(ctx, text)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// open opens the store that the URL names.
func (s source) open() (store.Store, error) {
	if !strings.Contains(s.text, ":") {
		return nil, badConfig(fmt.Errorf("%s: it is no URL of a store; write one such as sqlite:PATH, of %s", s.from, schemes()))
	}
	open, ok := openers[s.scheme()]
	if !ok {
		return nil, badConfig(fmt.Errorf("%s: there is no store %q; there are %s", s.from, s.scheme()+":", schemes()))
	}
	opened, err := open(context.Background(), s.text)
	var invalid *store.InvalidError
	switch {
	case err == nil:
		return opened, nil
	case errors.As(err, &invalid), errors.Is(err, mysqlstore.ErrRefused): // what the URL says is wrong
		return nil, badConfig(fmt.Errorf("%s: %w", s.from, err))
	}
	return nil, fmt.Errorf("%s: %w", s.from, err)
}

// schemes lists what a URL can begin with.
func schemes() string {
	names := slices.Sorted(maps.Keys(openers))
	return strings.Join(names[:len(names)-1], ":, ") + ": and " + names[len(names)-1] + ":"
}

// sqlitePath takes the path from a URL: as it stands after "sqlite:", or of "sqlite:///absolute".
func sqlitePath(rest string) (string, error) {
	if path, ok := strings.CutPrefix(rest, "//"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", errors.New("a file has no host; write sqlite:PATH or sqlite:///ABSOLUTE/PATH")
		}
		return path, nil
	}
	if rest == "" {
		return "", errors.New("the path is missing; write sqlite:PATH")
	}
	return rest, nil
}

func openSQLite(path string) (store.Store, error) {
	s, err := sqlitestore.Open(path)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, sqlitestore.ErrRefused):
		return nil, badConfig(err)
	}
	return nil, err
}

// hasPassword says that a URL has a password, or what may be one in its query.
func hasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(text, "@")
	}
	if u.User != nil {
		if _, set := u.User.Password(); set {
			return true
		}
	}
	for key := range u.Query() {
		key = strings.ToLower(key)
		for _, secret := range []string{"password", "passwd", "secret", "token", "pwd"} {
			if strings.Contains(key, secret) {
				return true
			}
		}
	}
	return false
}
