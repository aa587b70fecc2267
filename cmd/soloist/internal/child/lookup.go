//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultPath is searched when the environment has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// Check returns a *StartError if the program or the directory is not there now, or cannot be executed; else nil.
func (c *Command) Check() error {
	_, err := c.lookup(c.Env)
	return err
}

// lookup finds the file to execute for args[0].
func (c *Command) lookup(env []string) (string, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return "", &StartError{"", CodeNotFound, "no command is given", nil}
	}
	name := c.Args[0]
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return "", &StartError{name, CodeNotExecutable, fmt.Sprintf("there is no directory %q to run it in", c.Dir), err}
		}
	}
	if strings.Contains(name, "/") {
		return name, c.runnable(name)
	}
	path, ok := valueOf(env, "PATH")
	if !ok {
		path = defaultPath
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // which file that is would depend on where the command runs
		}
		file := filepath.Join(dir, name)
		err := c.runnable(file)
		if err == nil {
			return file, nil
		}
		var start *StartError
		if denied == nil && errors.As(err, &start) && start.Code == CodeNotExecutable {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	reason := fmt.Sprintf("it is in no absolute directory of PATH (%s)", path)
	if c.runnable("./"+name) == nil {
		reason += "; for the one in the working directory write ./" + name
	}
	return "", &StartError{name, CodeNotFound, reason, os.ErrNotExist}
}

func (c *Command) runnable(file string) error {
	at := file
	if !filepath.IsAbs(file) {
		at = filepath.Join(c.Dir, file)
	}
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return &StartError{file, CodeNotFound, "there is no such file", err}
	case err != nil:
		return &StartError{file, CodeNotExecutable, err.Error(), err}
	case info.IsDir():
		return &StartError{file, CodeNotExecutable, "it is a directory", unix.EISDIR}
	case unix.Access(at, unix.X_OK) != nil:
		return &StartError{file, CodeNotExecutable, "it is not executable by this user (chmod +x would make it so)", os.ErrPermission}
	}
	return nil
}

// startError explains what the system said to executing file.
func startError(file string, err error) error {
	e := &StartError{file, CodeNotExecutable, err.Error(), err}
	switch {
	case errors.Is(err, unix.ENOEXEC):
		e.Reason = `it is neither a program for this machine nor a script that begins with a line such as "#!/bin/sh"`
	case errors.Is(err, unix.ENOENT):
		e.Reason = `the interpreter that its first line ("#!…") or its format names does not exist`
	case errors.Is(err, unix.E2BIG):
		e.Reason = "its arguments and environment are too long for this system"
	case errors.Is(err, unix.ETXTBSY):
		e.Reason = "it is being written to"
	}
	return e
}
