package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A ledger keeps in a file by what defects were caught, so that a run that was broken off resumes where it was. An entry is about one state of
// the project: when a line of its code or the patch has changed, the defect is tried again.
type ledger struct {
	project [sha256.Size]byte // the state of all files but patches and documents

	mu    sync.Mutex
	file  *os.File
	known map[string]entry // by key
}

// An entry is a line of the file.
type entry struct {
	Key       string   `json:"key"`
	Name      string   `json:"name"`
	Caught    []string `json:"caught"`
	Histories int      `json:"histories,omitempty"`
}

// openLedger reads the file at path, which need not exist. An empty path keeps nothing.
func openLedger(root, path string) (*ledger, error) {
	l := &ledger{known: map[string]entry{}}
	if path == "" {
		return l, nil
	}
	var err error
	if l.project, err = state(root); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line may have been cut off
			l.known[e.Key] = e
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	l.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	return l, err
}

// state is a sum of all files that a test may read, but for patches and documents.
func state(root string) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "target"):
			return fs.SkipDir
		case !d.Type().IsRegular() || strings.HasSuffix(name, ".patch") || strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}

func (l *ledger) key(patch string, runs int) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%x %d %s", l.project, runs, patch)))
}

// find returns what a defect was caught by before.
func (l *ledger) find(key string) (entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[key]
	return e, ok
}

// keep adds an entry.
func (l *ledger) keep(e entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[e.Key] = e
	if l.file == nil {
		return nil
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(text, '\n'))
	return err
}
