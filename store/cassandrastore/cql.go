package cassandrastore

import (
	_ "embed"
	"strings"
)

var (
	//go:embed cql/table.cql
	tableCQL string
	//go:embed cql/insert.cql
	insertCQL string
	//go:embed cql/update.cql
	updateCQL string
	//go:embed cql/delete.cql
	deleteCQL string
	//go:embed cql/read.cql
	readCQL string
	//go:embed cql/list.cql
	listCQL string
	//go:embed cql/begin.cql
	beginCQL string
	//go:embed cql/walk.cql
	walkCQL string
)

// A script is the statements on one table.
type script struct {
	table, insert, update, remove, read, list, begin, walk string
}

// statements returns the statements without their comments, on the table of cfg.
func statements(cfg Config) script {
	on := func(text string) string {
		var lines []string
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "--") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return strings.ReplaceAll(strings.Join(lines, " "), "{table}", cfg.table())
	}
	return script{
		table:  strings.TrimSuffix(on(tableCQL), ";"),
		insert: on(insertCQL), update: on(updateCQL), remove: on(deleteCQL),
		read: on(readCQL), list: on(listCQL), begin: on(beginCQL), walk: on(walkCQL),
	}
}
