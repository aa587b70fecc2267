package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/strictyaml"
)

// varConfig names the configuration file, if --config does not.
const varConfig = "SOLOIST_CONFIG"

// The keys of a configuration file that are no flags.
const (
	keyStore     = "store" // a flag, but the file may have a password in it
	keyStoreFile = "store-file"
	keyRequire   = "require"
)

// maxConfig bounds the size of a configuration file.
const maxConfig = 1 << 20

// A setting is what one key of a configuration file sets.
type setting struct {
	command string // whose flag it is; "" for those of every subcommand
	key     string // the name of the flag, or one of the keys that are no flags
	values  []string
	line    int
	where   string // FILE:LINE: KEY
}

// name is the key with that of its section.
func (s setting) name() string {
	if s.command == "" {
		return s.key
	}
	return s.command + "." + s.key
}

func (s setting) value() string { return s.values[0] }

// configFlag adds --config to the flags of every subcommand.
func (a *app) configFlag(flags *pflag.FlagSet) {
	flags.StringVar(&a.config, "config", "", "a YAML file with values for flags, for those that are not given (default $SOLOIST_CONFIG; see docs/operate/configuration.md)")
}

// sections are the subcommands whose flags a configuration file can set: those that run something.
func sections(root *cobra.Command) (all []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.GroupID == "run" && !c.Hidden {
			all = append(all, c)
		}
	}
	return all
}

// settable reports whether a configuration file can set a flag.
func settable(f *pflag.Flag) bool { return !f.Hidden && f.Name != "help" && f.Name != "config" }

// settableKeys are the names of the settable flags.
func settableKeys(flags *pflag.FlagSet) (keys []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if settable(f) {
			keys = append(keys, f.Name)
		}
	})
	return keys
}

// unconfigured are subcommands that have no use for a configuration, and work if it is wrong.
var unconfigured = []string{"help", "completion", "man", "version", "config"}

// configure gives the flags of c that are not given the values that the configuration file has for them.
func (a *app) configure(c *cobra.Command) error {
	top := c
	for top.HasParent() && top.Parent().HasParent() {
		top = top.Parent()
	}
	if a.configured || top.Hidden || slices.Contains(unconfigured, top.Name()) {
		return nil
	}
	a.configured = true
	path, err := a.configPath()
	if err != nil || path == "" {
		return err
	}
	settings, err := readConfig(path)
	if err != nil {
		return err
	}
	given := map[string]bool{} // on the command line
	c.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, s := range settings {
		if s.command == "" || s.command == c.Name() && c == top {
			if err := a.apply(s, c.Flags(), given); err != nil {
				return err
			}
		}
	}
	return nil
}

// configPath is the path of the configuration file, or "".
func (a *app) configPath() (string, error) {
	if a.emptyFlag("config") {
		return "", badConfig(errors.New("--config is empty: give the path of a file, or leave it out"))
	}
	value, set := a.lookupEnv(varConfig)
	switch {
	case a.config != "":
		return a.config, nil
	case set && value == "":
		return "", badConfig(fmt.Errorf("$%s is set and empty: give it the path of a file, or unset it", varConfig))
	}
	return value, nil
}

// instead are the flags that on the command line stand for another one, so that what the file has for that does not count.
var instead = map[string]string{"wait": "nonblock", "nonblock": "wait"}

// apply sets what neither the command line nor the environment sets.
func (a *app) apply(s setting, flags *pflag.FlagSet, given map[string]bool) error {
	switch s.key {
	case keyStore, keyStoreFile:
		a.configStore = s
		return nil
	case keyRequire:
		a.configRequire = s
		return nil
	case "namespace":
		if _, set := a.lookupEnv(varNamespace); set {
			return nil
		}
	case "command":
		if a.argv != nil {
			return nil
		}
	}
	if given[s.key] || given[instead[s.key]] {
		return nil
	}
	for _, value := range s.values {
		if err := flags.Set(s.key, value); err != nil {
			return badConfig(fmt.Errorf("%s: %w", s.where, err))
		}
	}
	if a.fromConfig == nil {
		a.fromConfig = map[string]setting{}
	}
	a.fromConfig[s.key] = s
	return nil
}

var flagNames = regexp.MustCompile(`--[a-z][a-z-]*`)

// setIn reports where a configuration file sets the flags that an error names: "" if it sets none.
func (a *app) setIn(text string) string {
	var all []string
	for _, name := range flagNames.FindAllString(text, -1) {
		if s, ok := a.fromConfig[name[2:]]; ok && !slices.Contains(all, s.where) {
			all = append(all, s.where)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (set in " + strings.Join(all, ", ") + ")"
}

// configCommand checks a configuration file.
func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "config FILE",
		Short:   "Check a configuration file, and show what it sets",
		GroupID: "see",
		Long: `config reads a file of --config as the other subcommands do, and lists what it sets, without passwords. If something is wrong with the
file, it says what, and exits with 78. What depends on the machine, such as whether a port is free, shows only when a subcommand starts.`,
		Example: `  soloist config /etc/soloist/soloist.yaml`,
		Args:    a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			settings, err := readConfig(args[0])
			if err != nil {
				return err
			}
			return write(a, "LINE|KEY|VALUE", configRows(settings), func(r configRow) []string {
				return []string{fmt.Sprint(r.Line), r.Key, strings.Join(r.Values, ", ")}
			})
		},
	}
	a.outputFlag(c)
	return c
}

// A configRow shows one setting.
type configRow struct {
	Line   int      `json:"line"`
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

func configRows(settings []setting) []configRow {
	rows := make([]configRow, len(settings))
	for i, s := range settings {
		rows[i] = configRow{s.line, s.name(), s.values}
		if s.key == keyStore {
			rows[i].Values = []string{source{text: s.value()}.shown()}
		}
	}
	slices.SortStableFunc(rows, func(a, b configRow) int { return cmp.Compare(a.Line, b.Line) })
	return rows
}

// readConfig reads a configuration file.
func readConfig(path string) ([]setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, badConfig(fmt.Errorf("reading the configuration: %w", err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, badConfig(fmt.Errorf("reading the configuration: %w", err))
	}
	if why := untrusted(info); why != "" {
		return nil, badConfig(fmt.Errorf("%s: %s, and could name another store: chown and chmod it", path, why))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, badConfig(fmt.Errorf("reading the configuration: %w", err))
	}
	settings, err := parseConfig(path, data)
	if err != nil {
		return nil, badConfig(err)
	}
	for _, s := range settings {
		if s.key == keyStore && hasPassword(s.value()) && othersRead(info) {
			return nil, badConfig(fmt.Errorf("%s: the URL has a password, and the mode %04o of the file lets others read it: chmod 600 it, or put the URL into a separate file and write store-file here",
				s.where, info.Mode().Perm()))
		}
	}
	return settings, nil
}

// parseConfig parses a configuration file. It checks each value as its flag does. No error shows what may be a secret.
func parseConfig(file string, data []byte) ([]setting, error) {
	p := &configParser{Reader: &strictyaml.Reader{Report: &strictyaml.Report{File: file}, HideValues: true}}
	if len(data) > maxConfig {
		p.Fail(0, "", "it is longer than %d bytes", maxConfig)
	} else if document := p.Document(data, "settings"); document != nil {
		root := (&app{}).root() // whose flags take the values to check them
		keys := append(settableKeys(root.PersistentFlags()), keyStoreFile, keyRequire, "x-")
		for _, c := range sections(root) {
			keys = append(keys, c.Name())
		}
		if top := p.Mapping(document, "", keys); top != nil {
			p.top(top, root)
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return p.settings, nil
}

// A configParser reads one configuration file.
type configParser struct {
	*strictyaml.Reader
	settings []setting
}

func (p *configParser) top(m *strictyaml.Mapping, root *cobra.Command) {
	commands := sections(root)
	for _, key := range m.Keys {
		if strings.HasPrefix(key, "x-") { // for anchors
			continue
		}
		if i := slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == key }); i >= 0 {
			c := commands[i]
			if strictyaml.IsNull(strictyaml.Resolved(m.Values[key])) { // all of it may be a comment
				continue
			}
			if section := p.Mapping(m.Values[key], key, settableKeys(c.LocalNonPersistentFlags())); section != nil {
				for _, key := range section.Keys {
					p.setting(section, c.Name(), key, c.LocalNonPersistentFlags().Lookup(key))
				}
			}
			continue
		}
		p.setting(m, "", key, root.PersistentFlags().Lookup(key))
	}
	if _, both := m.Values[keyStore]; both && m.Values[keyStoreFile] != nil {
		p.Fail(m.LineOf(keyStoreFile), keyStoreFile, "%s is set on line %d already; give one of them", keyStore, m.LineOf(keyStore))
	}
}

// setting reads one key. flag is nil for keys that are no flags.
func (p *configParser) setting(m *strictyaml.Mapping, command, key string, flag *pflag.Flag) {
	s := setting{command: command, key: key, line: m.LineOf(key)}
	name := s.name()
	s.where = fmt.Sprintf("%s:%d: %s", p.File, s.line, name)
	before := p.Failures()
	nodes := strictyaml.Items(m.Values[key])
	if _, list := flagValue(flag).(pflag.SliceValue); nodes == nil || !list && key != keyRequire {
		nodes = append(nodes[:0:0], m.Values[key])
	}
	if len(nodes) == 0 {
		p.Fail(s.line, name, "the list is empty; write values into it, or remove the key")
	}
	for _, n := range nodes {
		value, ok := p.Text(n, name)
		if !ok {
			continue
		}
		if rule := wrong(key, value, flag); rule != "" {
			p.Fail(n.Line, name, "%s", rule)
		}
		s.values = append(s.values, value)
	}
	if p.Failures() == before {
		p.settings = append(p.settings, s)
	}
}

func flagValue(flag *pflag.Flag) pflag.Value {
	if flag == nil {
		return nil
	}
	return flag.Value
}

// wrong describes what is wrong with a value, and what would be right; it returns "" if nothing is.
func wrong(key, value string, flag *pflag.Flag) string {
	switch {
	case value == "":
		return "it is empty; give a value, or remove the key"
	case key == keyStore:
		if _, err := checkSource(source{text: value, from: "the store"}); err != nil {
			return err.Error()
		}
		return ""
	case key != "command" && hasPassword(value):
		return "this looks like a URL with a password, which only store may have"
	case key == keyRequire && requirable[value] == nil:
		return fmt.Sprintf("%q is none of fleet, fencing and durable", value)
	case flag == nil:
		return ""
	}
	if err := flag.Value.Set(value); err != nil {
		return fmt.Sprintf("%q: %s", value, flagRule(flag, err))
	}
	return ""
}
