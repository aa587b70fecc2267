package sqlfence_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/fence/sqlfence"
)

// The guard is tested on real databases by the modules that have their drivers.
func TestNewChecksItsConfig(t *testing.T) {
	for _, cfg := range []sqlfence.Config{
		{Dialect: sqlfence.SQLite, Table: "fences; DROP TABLE x"}, {Dialect: sqlfence.SQLite, Table: "A"}, {Dialect: sqlfence.SQLite, Table: "a.b.c"}, {Dialect: sqlfence.SQLite, Table: `"a"`}, {Dialect: 9}, {}} {
		if _, err := sqlfence.New(new(sql.DB), cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	if _, err := sqlfence.New(nil, sqlfence.Config{Dialect: sqlfence.SQLite}); err == nil {
		t.Error("a database that is nil was taken")
	}
	for _, dialect := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite} {
		g, err := sqlfence.New(new(sql.DB), sqlfence.Config{Dialect: dialect, Table: "app.fences"})
		if err != nil || !strings.Contains(g.Schema(), "app.fences (resource ") {
			t.Errorf("dialect %d: %v", dialect, err)
		}
	}
}
