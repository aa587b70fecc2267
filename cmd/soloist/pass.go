package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

func (a *app) passFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.passStore, "pass-store", false, "let a soloist in the command use the same store and namespace, which it finds in a file that only this user can read")
}

// A handover is what the soloists within the commands find: a file with the store's URL, and variables that name it.
//
// The URL is in no argument and no environment, where other users or a listing of processes could see it.
type handover struct {
	text string // the URL
	dir  string // for the file, if it is there; else that for temporary files
	log  *slog.Logger

	mu   sync.Mutex
	file os.FileInfo
	env  map[string]string // the file, the namespace and what is required of the store
}

// passOn writes the file, if --pass-store asks for it; else it returns nil, of which the methods do nothing.
func (a *app) passOn(log *slog.Logger) (*handover, error) {
	if !a.passStore {
		return nil, nil
	}
	src, err := a.source()
	if err != nil {
		return nil, err
	}
	text, err := src.elsewhere()
	if err != nil {
		return nil, badConfig(fmt.Errorf("--pass-store: %w", err))
	}
	required, err := a.required()
	if err != nil {
		return nil, err
	}
	h := &handover{text: text, dir: a.env("XDG_RUNTIME_DIR"), log: log, env: map[string]string{}}
	for name, value := range map[string]string{varNamespace: a.namespace, varRequire: strings.Join(required, ",")} {
		if value != "" {
			h.env[name] = value
		}
	}
	if err := h.write(); err != nil {
		return nil, err
	}
	return h, nil
}

// variables are for a command that is to be started. A file that is gone is written anew for it: the end of a session removes the user's
// directory in memory, and a clean-up what is old in that for temporary files.
func (h *handover) variables() map[string]string {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.env[varStoreFile]
	if now, err := os.Lstat(was); err != nil || !os.SameFile(h.file, now) {
		if err := h.write(); err != nil {
			h.log.Warn("a soloist in a command does not find its store", "err", err)
		} else if is := h.env[varStoreFile]; is != was {
			h.log.Warn("a soloist in a command finds its store in another file now: the one before is gone", "file", is, "before", was)
		}
	}
	return maps.Clone(h.env)
}

// write makes the file: where it was, so that commands that run find it again, or else anew.
func (h *handover) write() error {
	f, err := os.OpenFile(h.env[varStoreFile], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		dir := h.dir // in memory, and this user's alone
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			dir = ""
		}
		f, err = os.CreateTemp(dir, "soloist-store-") // mode 0600
	}
	if err != nil {
		return fmt.Errorf("--pass-store: making a file for the store's URL: %w", err)
	}
	_, err = f.WriteString(h.text + "\n")
	info, unknown := f.Stat()
	if err = errors.Join(err, unknown, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("--pass-store: writing the store's URL for the command: %w", err)
	}
	h.file, h.env[varStoreFile] = info, f.Name()
	return nil
}

// remove removes the file.
func (h *handover) remove() {
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		_ = os.Remove(h.env[varStoreFile])
	}
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
