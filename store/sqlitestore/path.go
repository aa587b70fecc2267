package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// absolute returns the path of a file that does not change with the working directory, or why path is none.
func absolute(path string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("sqlitestore: the path is empty: give the path of a file")
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("sqlitestore: the path %q has a zero byte: give the path of a file", path)
	case strings.HasPrefix(path, "file:"), strings.HasPrefix(path, ":memory:"):
		return "", fmt.Errorf("sqlitestore: %q is no path: give the path of a file (./%[1]s if it is called so); "+
			"for a store in memory use memstore", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlitestore: %s: %w", path, err)
	}
	return abs, nil
}

// look returns the FileInfo of the file, or nil if there is none. The error describes why there cannot be a file.
//
// Nothing here may open the file but SQLite: closing any descriptor of it would drop all of the process's locks on it.
func look(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, errors.New("it is a directory: give the path of a file in it")
	case err == nil && !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file: give the path of one")
	case err == nil:
		return info, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		if _, err := os.Stat(path); err == nil {
			return look(path) // it has just been made
		}
		return nil, errors.New("it is a symbolic link to nothing: make the file's directory, or give the path of the file itself")
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("its directory is not there: make %s first: %w", filepath.Dir(path), err)
	}
	return nil, nil
}

// oneName refuses a file that can be opened by another path, beside which SQLite would keep another log: those who use the one would
// not see the leases of the others.
func oneName(path string, info os.FileInfo) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if n, inode := links(info); n > 1 {
		other := usedAs(info, real)
		if other != "" {
			other = ", one of them used as " + other
		}
		return fmt.Errorf("the file has %d names (hard links)%s, and each would have its own log: delete the other names "+
			"(find / -xdev -inum %d shows them)", n, other, inode)
	}
	if source, is := mountedAlone(real); is {
		return fmt.Errorf("the file is mounted here by itself, from %s, and SQLite would keep another log here than there: "+
			"mount the directory that it is in", source)
	}
	return nil
}

// dsn is path as SQLite's URI, in which no character of it means anything.
func dsn(path, params string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	return "file://" + (&url.URL{Path: path}).EscapedPath() + "?" + params
}

// places are where the file and what SQLite keeps beside it are. The log lies beside the file itself, not beside a
// symbolic link to it.
type places [3]string

func placesOf(path string) (places, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = filepath.EvalSymlinks(filepath.Dir(path))
		real = filepath.Join(real, filepath.Base(path))
	}
	return places{path, real + "-wal", real + "-shm"}, err
}

// identities identify the file, its log and its index, so that replacements are noticed.
type identities [3]os.FileInfo

func (p places) identities() (identities, error) {
	var ids identities
	for i, path := range p {
		var err error
		if ids[i], err = os.Stat(path); err != nil {
			return ids, err
		}
	}
	return ids, nil
}
