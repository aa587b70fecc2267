package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) passFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.passStore, "pass-store", false, "let a soloist in the command use the same store and namespace, which it finds in a file that only this user can read")
}

// passOn writes the store's URL into a file for the soloists within the commands that this one runs, if --pass-store
// asks for it. It returns the variables that name the file, the namespace and what is required of the store; they are
// nil without --pass-store. remove removes the file.
//
// The URL is in no argument and no environment, where other users or a listing of processes could see it.
func (a *app) passOn() (env map[string]string, remove func(), err error) {
	if !a.passStore {
		return nil, func() {}, nil
	}
	src, err := a.source()
	if err != nil {
		return nil, nil, err
	}
	text, err := src.elsewhere()
	if err != nil {
		return nil, nil, badConfig(fmt.Errorf("--pass-store: %w", err))
	}
	dir := a.env("XDG_RUNTIME_DIR") // in memory, and this user's alone; else the directory for temporary files
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = ""
	}
	f, err := os.CreateTemp(dir, "soloist-store-") // mode 0600
	if err != nil {
		return nil, nil, fmt.Errorf("--pass-store: making a file for the store's URL: %w", err)
	}
	remove = func() { _ = os.Remove(f.Name()) }
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		remove()
		return nil, nil, fmt.Errorf("--pass-store: writing the store's URL for the command: %w", err)
	}
	env = map[string]string{varStoreFile: f.Name()}
	required, err := a.required()
	if err != nil {
		remove()
		return nil, nil, err
	}
	for name, value := range map[string]string{varNamespace: a.namespace, varRequire: strings.Join(required, ",")} {
		if value != "" {
			env[name] = value
		}
	}
	return env, remove, nil
}

// elsewhere is the URL for a process with another working directory.
func (s source) elsewhere() (string, error) {
	switch s.scheme() {
	case "memory":
		return "", errors.New("the store is in the memory of this process, where no other process finds it: name another store")
	case "sqlite":
		path, err := sqlitePath(s.text[len("sqlite:"):])
		if err != nil {
			return "", err
		}
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
		return "sqlite:" + escapePath(path), nil
	case moveScheme:
		m, err := s.moving()
		if err != nil {
			return "", err
		}
		return m.text(func(s source) (string, error) {
			text, err := s.elsewhere()
			return strings.ReplaceAll(text, " ", "%20"), err
		})
	}
	return s.text, nil
}

// escapePath is a path as it stands in a URL of SQLite.
func escapePath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(path)
}
