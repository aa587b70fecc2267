package sqlshared

import (
	"embed"
	"strings"
)

// Statement returns the statement in sql/NAME.sql of files without its comments and blank ends of lines. It panics if there is no such file: the
// files are part of a store.
func Statement(files embed.FS, name string) string {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		code, _, _ := strings.Cut(line, "--")
		b.WriteString(strings.TrimRight(code, " \n") + "\n")
	}
	return strings.TrimSpace(b.String())
}
