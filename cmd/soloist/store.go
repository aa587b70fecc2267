package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

// openStore opens the store of --store, $SOLOIST_STORE, $SOLOIST_STORE_FILE, or the user's own file.
func (a *app) openStore() (store.Store, error) {
	switch {
	case a.storeURL != "":
		if hasPassword(a.storeURL) {
			return nil, badConfig(errors.New("--store has a password in it, and everybody on this machine can see the arguments of a process: put the URL into $SOLOIST_STORE, or into a file and its path into $SOLOIST_STORE_FILE"))
		}
		return openURL(a.storeURL, "--store")
	case a.env("SOLOIST_STORE") != "":
		return openURL(a.env("SOLOIST_STORE"), "$SOLOIST_STORE")
	case a.env("SOLOIST_STORE_FILE") != "":
		path := a.env("SOLOIST_STORE_FILE")
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, badConfig(fmt.Errorf("reading the store's URL from $SOLOIST_STORE_FILE: %w", err))
		}
		return openURL(strings.TrimSpace(string(text)), path)
	}
	path, err := a.stateFile()
	if err != nil {
		return nil, badConfig(err)
	}
	return openSQLite(path)
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
	return filepath.Join(dir, "soloist.db"), nil
}

// openURL opens the store that a URL names. from says where the URL stands, for messages: the URL itself may have secrets in it.
func openURL(text, from string) (store.Store, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return nil, badConfig(fmt.Errorf("%s: it is no URL; write memory: or sqlite:PATH", from))
	}
	switch strings.ToLower(scheme) {
	case "memory":
		if rest != "" {
			return nil, badConfig(fmt.Errorf("%s: nothing may follow memory:", from))
		}
		return memstore.New(), nil
	case "sqlite":
		path, err := sqlitePath(rest)
		if err != nil {
			return nil, badConfig(fmt.Errorf("%s: %w", from, err))
		}
		return openSQLite(path)
	}
	return nil, badConfig(fmt.Errorf("%s: there is no store %q; there are memory: and sqlite:PATH", from, scheme+":"))
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
