package sqlfence_test

import (
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/fence/sqlfence"
)

// The guard is tested on real databases by the modules that have their drivers.
func TestNewChecksItsConfig(t *testing.T) {
	for _, cfg := range []sqlfence.Config{{Table: "fences; DROP TABLE x"}, {Table: "A"}, {Table: "a.b.c"}, {Table: `"a"`}, {Dialect: 9}} {
		if _, err := sqlfence.New(nil, cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	for _, dialect := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite} {
		g, err := sqlfence.New(nil, sqlfence.Config{Dialect: dialect, Table: "app.fences"})
		if err != nil || !strings.Contains(g.Schema(), "app.fences (resource ") {
			t.Errorf("dialect %d: %v", dialect, err)
		}
	}
}
