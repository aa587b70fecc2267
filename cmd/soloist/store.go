package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/store/dynamostore"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/mysqlstore"
	"github.com/soloist-dev/soloist/store/natsstore"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/store/sqlitestore"
	"github.com/soloist-dev/soloist/store/temporalstore"
	"github.com/soloist-dev/soloist/store/zkstore"
)

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
	"dynamodb":        opener(dynamostore.OpenURL),
	"cassandra":       opener(cassandrastore.OpenURL),
	"hazelcast":       opener(hazelcaststore.OpenURL),
	"etcd":            opener(etcdstore.OpenURL),
	"consul":          opener(consulstore.OpenURL),
	"nats":            opener(natsstore.OpenURL),
	"zk":              opener(zkstore.OpenURL),
	"temporal":        opener(temporalstore.OpenURL),
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
	if s.scheme() == moveScheme {
		m, err := s.moving()
		if err != nil {
			return nil, err
		}
		return m.open()
	}
	open, ok := openers[s.scheme()]
	if !ok {
		return nil, badConfig(fmt.Errorf("%s: there is no store %q; there are %s", s.from, s.scheme()+":", schemes()))
	}
	opened, err := open(context.Background(), s.text)
	switch {
	case err == nil:
		return opened, nil
	case errors.Is(err, store.ErrInvalid): // what the URL says is wrong
		return nil, badConfig(fmt.Errorf("%s: %w", s.from, err))
	}
	return nil, fmt.Errorf("%s: %w", s.from, err)
}

// schemes lists what a URL can begin with.
func schemes() string {
	names := slices.Sorted(maps.Keys(openers))
	return strings.Join(names[:len(names)-1], ":, ") + ": and " + names[len(names)-1] + ":"
}

// sqlitePath takes the path from a URL: as it stands after "sqlite:", or of "sqlite:///absolute", with %XX for any
// character. What would otherwise become part of the name of another file is an error.
func sqlitePath(rest string) (string, error) {
	if path, ok := strings.CutPrefix(rest, "//"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", errors.New("a file has no host; write sqlite:PATH or sqlite:///ABSOLUTE/PATH")
		}
		rest = path
	}
	if rest == "" {
		return "", errors.New("the path is missing; write sqlite:PATH")
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		return "", fmt.Errorf("sqlite: has no options, so nothing may follow the path: %q; write %%3F or %%23 for a ? or # in the name of the file", rest[i:])
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return "", fmt.Errorf("the path %q: %s has no meaning; write %%25 for a %% in the name of the file", rest, badEscape(err))
	}
	if i := strings.IndexFunc(path, unicode.IsControl); i >= 0 {
		return "", fmt.Errorf("the path %q has a control character; give the path of a file without one", path)
	}
	return path, nil
}

// badEscape is the part of a URL that is no escape.
func badEscape(err error) string {
	var bad url.EscapeError
	if errors.As(err, &bad) {
		return strconv.Quote(string(bad))
	}
	return "a %"
}

func openSQLite(path string) (store.Store, error) {
	s, err := sqlitestore.Open(path)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, store.ErrUnusable):
		return nil, badConfig(err)
	}
	return nil, err
}

// hasPassword reports whether a URL has a password, or what may be one in its query.
func hasPassword(text string) bool {
	if parts := strings.Fields(text); len(parts) > 1 { // of a move
		return slices.ContainsFunc(parts, hasPassword)
	}
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(text, "@")
	}
	if u.User != nil {
		if _, set := u.User.Password(); set {
			return true
		}
	}
	// USER:PASSWORD@HOST, but the // before it was left out.
	if before, _, found := strings.Cut(u.Opaque, "@"); found && u.Scheme != "sqlite" && strings.Contains(before, ":") {
		return true
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
