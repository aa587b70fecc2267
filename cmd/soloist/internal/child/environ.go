package child

import (
	"maps"
	"slices"
	"strings"
)

// Prefix begins the names of the variables that are soloist's.
const Prefix = "SOLOIST_"

// Environ is base without every variable of soloist's, so that no command sees the URL of the store, and with set. A
// name occurs once in it: as in set, else as last in base.
func Environ(base []string, set map[string]string) []string {
	last := make(map[string]int, len(base))
	for i, entry := range base {
		last[nameOf(entry)] = i
	}
	env := make([]string, 0, len(base)+len(set))
	for i, entry := range base {
		name := nameOf(entry)
		_, replaced := set[name]
		if name == "" || replaced || last[name] != i || strings.HasPrefix(name, Prefix) {
			continue
		}
		env = append(env, entry)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, name+"="+set[name])
	}
	return env
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

// valueOf is the value of name in env, where the last one counts.
func valueOf(env []string, name string) (string, bool) {
	for _, entry := range slices.Backward(env) {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}
