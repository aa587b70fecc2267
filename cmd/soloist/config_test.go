package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// samples are two values for flags of each type, neither of which is a default.
var samples = map[string][2]string{
	"bool": {"true", "false"}, "int": {"7", "8"}, "duration": {"7s", "8s"}, "string": {"seven", "eight"}, "address": {"127.0.0.1:7", "127.0.0.1:8"},
	"stringArray": {"seven", "eight"},
}

func sampleOf(t *testing.T, f *pflag.Flag) [2]string {
	t.Helper()
	sample, ok := samples[f.Value.Type()]
	if !ok {
		t.Fatalf("--%s is of type %s: give samples of it, and see that a file can set it", f.Name, f.Value.Type())
	}
	return sample
}

// fullConfig is a file that sets each flag that a file can set.
func fullConfig(t *testing.T) string {
	t.Helper()
	root := (&app{}).root()
	var text strings.Builder
	write := func(indent string, flags *pflag.FlagSet) {
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || f.Name == "config" {
				return
			}
			if sample := sampleOf(t, f); f.Value.Type() == "stringArray" {
				fmt.Fprintf(&text, "%s%s: [%s, %s]\n", indent, f.Name, sample[0], sample[1])
			} else {
				fmt.Fprintf(&text, "%s%s: %s\n", indent, f.Name, sample[0])
			}
		})
	}
	write("", root.PersistentFlags())
	for _, c := range sections(root) {
		fmt.Fprintf(&text, "%s:\n", c.Name())
		write("  ", c.LocalNonPersistentFlags())
	}
	return text.String()
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "soloist.yaml")
	if err := os.WriteFile(file, whole(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// whole ends the last line of a text.
func whole(text string) []byte {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text)
}

// configured is a subcommand with arguments, after it has read its configuration.
func configured(t *testing.T, environ []string, command string, args ...string) (*app, *cobra.Command) {
	t.Helper()
	a := &app{environ: environ}
	c, _, err := a.root().Find(strings.Fields(command))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := a.configure(c); err != nil {
		t.Fatal(err)
	}
	return a, c
}

// Every flag of every subcommand that runs something can be set in the file.
func TestConfigSetsEveryFlag(t *testing.T) {
	file := writeConfig(t, fullConfig(t))
	var commands []string
	for _, c := range sections((&app{}).root()) {
		commands = append(commands, c.Name())
	}
	for _, needed := range []string{"lock", "once", "sem", "lead", "cron", "serve"} {
		if !slices.Contains(commands, needed) {
			t.Errorf("%s has no section", needed)
		}
	}
	for _, command := range commands {
		for _, environ := range [][]string{nil, {varConfig + "=" + file}} {
			var args []string
			if environ == nil {
				args = []string{"--config", file}
			}
			a, c := configured(t, environ, command, args...)
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if f.Hidden || f.Name == "help" || f.Name == "config" {
					return
				}
				got, want := f.Value.String(), sampleOf(t, f)[0]
				switch f.Name {
				case keyStore:
					got = a.configStore.value()
				case "host":
					want = "[seven,eight]"
				}
				if got != want || got == f.DefValue {
					t.Errorf("%s --%s is %q, want %q", command, f.Name, got, want)
				}
			})
		}
	}
}

// What is given on the command line counts, and not the file.
func TestFlagsPrecedeTheConfig(t *testing.T) {
	file := writeConfig(t, fullConfig(t))
	for _, section := range sections((&app{}).root()) {
		args := []string{"--config", file}
		section.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				args = append(args, "--"+f.Name+"="+sampleOf(t, f)[1])
			}
		})
		args = append(args, "--namespace=eight", "--replica=eight", "--require-fleet=false")
		_, c := configured(t, nil, section.Name(), args...)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == "config" || f.Name == keyStore {
				return
			}
			want := sampleOf(t, f)[1]
			if f.Value.Type() == "stringArray" {
				want = "[" + want + "]"
			}
			if got := f.Value.String(); got != want {
				t.Errorf("%s --%s is %q, want %q", c.Name(), f.Name, got, want)
			}
		})
	}
}

// What the command line says of waiting takes the place of what the file says of it by another flag.
func TestWaitOfTheCommandLinePrecedesNonblockOfTheFile(t *testing.T) {
	for _, test := range []struct{ file, flag, wait, nonblock string }{
		{"lock: {nonblock: true}\n", "--wait=7s", "7s", "false"},
		{"lock: {wait: 7s}\n", "--nonblock", "0s", "true"},
		{"lock: {nonblock: true}\n", "--ttl=7s", "0s", "true"},
	} {
		_, c := configured(t, nil, "lock", "--config", writeConfig(t, test.file), test.flag)
		wait, nonblock := c.Flags().Lookup("wait").Value.String(), c.Flags().Lookup("nonblock").Value.String()
		if wait != test.wait || nonblock != test.nonblock {
			t.Errorf("%s beside %q: wait %s and nonblock %s, want %s and %s", test.flag, test.file, wait, nonblock, test.wait, test.nonblock)
		}
	}
}

// The command line precedes the environment, which precedes the file, which precedes the default.
func TestPrecedenceOfTheStore(t *testing.T) {
	dir := t.TempDir()
	named := filepath.Join(dir, "url")
	if err := os.WriteFile(named, []byte("sqlite:named.db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := writeConfig(t, "store: sqlite:file.db\nnamespace: file\nrequire: [durable]\n")
	naming := writeConfig(t, "store-file: "+named+"\nnamespace: file\nrequire: durable\n")
	for _, c := range []struct {
		environ, args              []string
		store, namespace, required string
	}{
		{nil, nil, "sqlite:" + dir + "/soloist/soloist.db", "", "[]"},
		{nil, []string{"--config", file}, "sqlite:file.db", "file", "[durable]"},
		{nil, []string{"--config", naming}, "sqlite:named.db", "file", "[durable]"},
		{[]string{"SOLOIST_CONFIG=" + naming}, []string{"--config", file}, "sqlite:file.db", "file", "[durable]"},
		{[]string{"SOLOIST_CONFIG=" + file, "SOLOIST_STORE=sqlite:env.db"}, nil, "sqlite:env.db", "file", "[durable]"},
		{[]string{"SOLOIST_CONFIG=" + file, "SOLOIST_STORE_FILE=" + named}, nil, "sqlite:named.db", "file", "[durable]"},
		{[]string{"SOLOIST_CONFIG=" + file, "SOLOIST_NAMESPACE=env", "SOLOIST_REQUIRE=fencing"}, nil, "sqlite:file.db", "env", "[fencing]"},
		{[]string{"SOLOIST_CONFIG=" + file, "SOLOIST_NAMESPACE=env"}, []string{"--namespace", "flag", "--require-fleet"}, "sqlite:file.db", "flag", "[fleet durable]"},
		{[]string{"SOLOIST_CONFIG=" + file, "SOLOIST_STORE=sqlite:env.db"}, []string{"--store", "sqlite:flag.db"}, "sqlite:flag.db", "file", "[durable]"},
	} {
		a, _ := configured(t, append(c.environ, "XDG_STATE_HOME="+dir), "locks list", c.args...)
		src, err := a.source()
		if err != nil {
			t.Fatal(err)
		}
		required, err := a.required()
		if err != nil {
			t.Fatal(err)
		}
		if src.text != c.store || a.namespace != c.namespace || fmt.Sprint(required) != c.required {
			t.Errorf("%q %q: %s, namespace %q, required %v; want %s, %q, %s", c.environ, c.args, src.text, a.namespace, required, c.store, c.namespace, c.required)
		}
	}
}

// No key may mean both a flag of every subcommand and a section.
func TestConfigKeysAreUnambiguous(t *testing.T) {
	root := (&app{}).root()
	for _, c := range sections(root) {
		if root.PersistentFlags().Lookup(c.Name()) != nil || c.Name() == keyStoreFile || c.Name() == keyRequire {
			t.Errorf("%s is a flag and a subcommand", c.Name())
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if root.PersistentFlags().Lookup(f.Name) != nil || f.Name == keyStoreFile || f.Name == keyRequire {
				t.Errorf("%s has a flag --%s of every subcommand", c.Name(), f.Name)
			}
		})
	}
}

func TestMistakesInTheConfig(t *testing.T) {
	for text, want := range map[string]string{
		"stor: 'memory:'":                            "f:1: stor: there is no such key: did you mean store? The keys are namespace,",
		"serve: {lisen: 1}":                          "f:1: lisen: there is no such key: did you mean listen? The keys are behind-proxy,",
		"serve: {namespace: x}":                      "f:1: namespace: there is no such key; the keys are behind-proxy,",
		"config: x":                                  "f:1: config: there is no such key; the keys",
		"jobs: {list: {output: json}}":               "f:1: jobs: there is no such key; the keys",
		"serve:\n  help: true":                       "f:2: help: there is no such key; the keys",
		"serve: {drain: 5}":                          `f:1: serve.drain: "5": give a duration such as 30s`,
		"lock: {wait: soon}":                         `f:1: lock.wait: "soon": give a duration such as 30s, a number of seconds, or "forever"`,
		"cron:\n\n  parallel: many":                  `f:3: cron.parallel: "many": give a whole number`,
		"require-fleet: yes":                         `f:1: require-fleet: "yes": give true or false`,
		"serve: {listen: nowhere}":                   `f:1: serve.listen: "nowhere": `,
		"serve: {listen: [1, 2]}":                    "f:1: serve.listen: a list stands here; write one value",
		"serve: {host: {a: b}}":                      "f:1: serve.host: a mapping stands here",
		"serve: {host: []}":                          "f:1: serve.host: the list is empty",
		"serve: {host: [a, '']}":                     "f:1: serve.host: it is empty; give a value, or remove the key",
		"serve: {tokens: ''}":                        "f:1: serve.tokens: it is empty",
		"serve: {tokens: }":                          "f:1: serve.tokens: it has no value",
		"serve: x":                                   "f:1: serve: a single value stands here; write keys and values",
		"- serve":                                    "f:1: a list stands here; write keys and values",
		"namespace: ''":                              "f:1: namespace: it is empty",
		"namespace: a\nnamespace: b":                 "f:2: namespace: it is set on line 1 already; remove one",
		"store: ' memory:'":                          "f:1: store: the store: the URL begins or ends with a space",
		"store-file: x\nstore: 'memory:'":            "f:1: store-file: store is set on line 2 already; give one of them",
		"require: [fleet, speed]":                    `f:1: require: "speed" is none of fleet, fencing and durable`,
		"require: []":                                "f:1: require: the list is empty",
		"a: b\n---\nc: d":                            "f:2: a second document begins here; keep all settings in one",
		"serve: {listen: 1":                          "f:1: this is no YAML: ",
		"store: memory:":                             "f:1: this is no YAML: mapping values are not allowed in this context; quote a value that has a colon",
		strings.Repeat(" ", maxConfig+1):             "f: it is longer than 1048576 bytes",
		"redis://:canary@h":                          "f:1: a single value stands here",
		"redis://:canary@h: {x: y}":                  "f:1: what stands here is no name of a key",
		"store: [redis://:canary@h]":                 "f:1: store: a list stands here",
		"store: !canary x":                           "f:1: store: a tag means nothing here",
		"store: *canary":                             "f: this is no YAML: unknown anchor '…' referenced",
		"lock: redis://:canary@h":                    "f:1: lock: a single value stands here",
		"serve: {listen: 'redis://u:canary@h'}":      "f:1: serve.listen: this looks like a URL with a password",
		"cron: {drain: 'redis://h?password=canary'}": "f:1: cron.drain: this looks like a URL with a password",
		"require: 'redis://u:canary@h'":              "f:1: require: this looks like a URL with a password",
		"store: |\n  redis://:canary@h\n  x":         "f:1: store: the store: the URL begins or ends with a space, or has a newline",
	} {
		settings, err := parseConfig("f", whole(text))
		if err == nil {
			t.Errorf("%q is fine: %v", text, settings)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want) || strings.Contains(got, "canary") {
			t.Errorf("%.80q: %v\nwant %s", text, err, want)
		}
	}
	for _, text := range []string{"", "# nothing\n", "serve:\n  # nothing yet", "{}", "x-shared: &l {log-level: info}\nserve: {<<: *l}\ncron: *l", "serve: {host: one}", `{"serve":{"max-waiting":5}}`, "lock: {command: 'curl https://u:p@h'}"} {
		if _, err := parseConfig("f", whole(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	const cut = "f:2: the file ends within this line: write it to its end, and a newline"
	if settings, err := parseConfig("f", []byte("store: memory:x\nnamespace: prod")); err == nil || err.Error() != cut {
		t.Errorf("a file that ends within a line: %v, %v", settings, err)
	}
}

// The example that packages install, and the one of the documentation, are right, also where their settings are no comments any more.
func TestExampleConfigs(t *testing.T) {
	example, err := os.ReadFile("../../deploy/soloist.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operate/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```yaml\n")
	shown, _, found := strings.Cut(shown, "```")
	if !found {
		t.Fatal("the page has no example")
	}
	var all strings.Builder
	for line := range strings.Lines(string(example)) {
		if setting, comment := strings.CutPrefix(line, "#"); comment && (strings.HasPrefix(setting, "  ") || !strings.HasPrefix(setting, " ")) {
			line = setting
		}
		all.WriteString(line)
	}
	for text, least := range map[string]int{string(example): 0, all.String(): 8, shown: 8} {
		if settings, err := parseConfig("example", []byte(text)); err != nil || len(settings) < least {
			t.Errorf("%d settings, %v in\n%s", len(settings), err, text)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, text := range []string{
		"store: redis://:canary@h\nnamespace: a\nrequire: [fleet]\nserve: {listen: 1, host: [a, b]}", "x-a: &a {log-level: info}\ncron: {<<: *a, drain: 1s}", "a: b\n---\nc",
		"lock: {wait: forever, nonblock: true}", "store: *x", "? [a]\n: b", "serve: &s {<<: *s}", "\ufeffnamespace: a", "a: !!binary x", "x-: 0",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := parseConfig("f", []byte(text))
		again, err2 := parseConfig("f", []byte(text))
		if fmt.Sprint(settings, err) != fmt.Sprint(again, err2) {
			t.Error("twice is not the same")
		}
		if err != nil {
			if len(settings) > 0 || !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%v, %v", settings, err)
			}
			return
		}
		root, lines := (&app{}).root(), 1
		for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} { // as YAML has it
			lines += strings.Count(text, end)
		}
		for _, s := range settings {
			c := root
			if s.command != "" {
				c, _, _ = root.Find([]string{s.command})
			}
			if s.line < 1 || s.line > lines || len(s.values) == 0 || slices.Contains(s.values, "") {
				t.Errorf("%+v", s)
			}
			flag := c.Flags().Lookup(s.key)
			if flag == nil {
				flag = c.PersistentFlags().Lookup(s.key)
			}
			if flag == nil && s.key != keyStoreFile && s.key != keyRequire {
				t.Errorf("no flag %+v", s)
			}
		}
	})
}
