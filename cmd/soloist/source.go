package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/nearest"
	"github.com/soloist-dev/soloist/store"
)

// A source is the URL of a store, where it stands, and as whom the store is used. Messages name where it stands: the URL itself may have secrets
// in it.
type source struct{ text, from, replica string }

// The variables that name the store, and what it has to promise.
const (
	varStore     = "SOLOIST_STORE"
	varStoreFile = "SOLOIST_STORE_FILE"
	varNamespace = "SOLOIST_NAMESPACE"
	varRequire   = "SOLOIST_REQUIRE"
)

var (
	// ofStore are these, and settings all that people set for soloist.
	ofStore  = []string{varStore, varStoreFile, varNamespace, varRequire}
	settings = append([]string{varConfig}, ofStore...)
	// toCommands are those that soloist sets for commands. Such a command can be a soloist.
	toCommands = []string{
		"SOLOIST_NAME", "SOLOIST_TOKEN", "SOLOIST_HOLDER", "SOLOIST_ATTEMPT", "SOLOIST_SCHEDULED_AT", "SOLOIST_RUN",
		"SOLOIST_NOTICE", "SOLOIST_NOTICE_ID",
	}
)

// openStore opens the store of --store, $SOLOIST_STORE, $SOLOIST_STORE_FILE, the configuration file, or the user's own file.
func (a *app) openStore() (store.Store, error) {
	src, err := a.source()
	if err != nil {
		return nil, err
	}
	s, err := src.open()
	if err != nil {
		return nil, err
	}
	if err := a.require(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// source finds the store's URL, and checks what is said about the store beside it. It looks once: a file may be a pipe.
func (a *app) source() (source, error) {
	if a.found.text == "" {
		src, err := a.findSource()
		if err != nil {
			return source{}, err
		}
		a.found = src
		a.found.replica = a.replicaName()
	}
	return a.found, nil
}

func (a *app) findSource() (source, error) {
	for _, flag := range []string{"store", "namespace"} {
		if a.emptyFlag(flag) {
			return source{}, badConfig(fmt.Errorf("--%s is empty: give a value, or leave it out", flag))
		}
	}
	if err := a.misspelled(); err != nil {
		return source{}, badConfig(err)
	}
	count := ofStore
	if a.storeURL != "" { // beside which no other is looked for
		count = []string{varNamespace, varRequire}
	}
	for _, name := range count {
		if value, set := a.lookupEnv(name); set && value == "" {
			return source{}, badConfig(fmt.Errorf("$%s is set and empty: give it a value, or unset it; without it another store, or other names, could be used than those that were meant", name))
		}
	}
	if a.storeURL != "" {
		if hasPassword(a.storeURL) {
			return source{}, badConfig(errors.New("--store has a password in it, and everybody on this machine can see the arguments of a process: put the URL into $SOLOIST_STORE, or into a file and its path into $SOLOIST_STORE_FILE"))
		}
		return checkSource(source{text: a.storeURL, from: "--store"})
	}
	if text := a.env(varStore); text != "" {
		return checkSource(source{text: text, from: "$" + varStore})
	}
	if path := a.env(varStoreFile); path != "" {
		return readSource(path, "$"+varStoreFile)
	}
	switch s := a.configStore; s.key {
	case keyStore:
		return checkSource(source{text: s.value(), from: s.where})
	case keyStoreFile:
		return readSource(s.value(), s.where)
	}
	if nested := a.nested(); nested != "" {
		return source{}, badConfig(fmt.Errorf("this soloist runs in a command of another (%s), and no store is named for it: give --pass-store to the outer soloist, or --store, $%s or $%s to this one",
			nested, varStore, varStoreFile))
	}
	path, err := a.stateFile()
	if err != nil {
		return source{}, badConfig(err)
	}
	return source{text: "sqlite:" + escapePath(path), from: "the default store"}, nil
}

// misspelled returns an error about a variable whose name is almost one that soloist reads: without its value another
// store, other names or a store that promises less would be used. Other names that begin as those of soloist are no
// error: Kubernetes makes some for a service that is called so.
func (a *app) misspelled() error {
	for _, entry := range a.environ {
		name, _, _ := strings.Cut(entry, "=")
		given := strings.ToUpper(name)
		if !strings.HasPrefix(given, child.Prefix) || slices.Contains(settings, name) || slices.Contains(toCommands, name) {
			continue
		}
		likely := nearest.Of(given, settings)
		if given == varStore+"_URL" {
			likely = varStore
		}
		if likely != "" {
			return fmt.Errorf("$%s is set, which soloist does not read: did you mean $%s? Rename or unset it; "+
				"without it another store could be used than the one that was meant", name, likely)
		}
	}
	return nil
}

// nested reports in whose command this process runs: "" if in nobody's. Such a process has an environment without the
// outer soloist's store.
func (a *app) nested() string {
	if name := a.env("SOLOIST_NAME"); name != "" && a.env("SOLOIST_TOKEN") != "" {
		return fmt.Sprintf("of %q", name)
	}
	if a.env("SOLOIST_RUN") != "" {
		return "its name is unknown"
	}
	return ""
}

// readSource reads the URL from a file that has one line, and that where names.
func readSource(path, where string) (source, error) {
	fail := func(err error) (source, error) {
		return source{}, badConfig(fmt.Errorf("reading the store's URL from the file of %s: %w", where, err))
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail(err)
	}
	if why := untrusted(info); why != "" {
		return fail(fmt.Errorf("%s: %s, and could name another store: chown and chmod it", path, why))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fail(err)
	}
	line := strings.TrimRight(string(text), " \t\r\n")
	switch {
	case line == "":
		return fail(fmt.Errorf("%s is empty: write the URL into it", path))
	case strings.Contains(line, "\n"):
		return fail(fmt.Errorf("%s has more than one line: write the URL alone into it", path))
	}
	return checkSource(source{text: line, from: path})
}

// checkSource refuses what no URL has, and what the parser of a store could take for a part of a name.
func checkSource(src source) (source, error) {
	if strings.TrimSpace(src.text) != src.text || strings.ContainsFunc(src.text, unicode.IsControl) {
		return source{}, badConfig(fmt.Errorf("%s: the URL begins or ends with a space, or has a newline or another control character in it: remove that", src.from))
	}
	return src, nil
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
