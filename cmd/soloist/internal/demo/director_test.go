package demo

import (
	"database/sql"
	"errors"
	"testing"
)

// A replica that is paused while it has the file locked would keep the others from taking over until it goes on; the
// director must notice that.
func TestDirectorNoticesALockedStore(t *testing.T) {
	d, err := newDirector(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", d.path)
	if err != nil {
		t.Fatal(err)
	}
	one, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		statement string
		want      bool
	}{{"SELECT 1", true}, {"BEGIN IMMEDIATE", false}, {"ROLLBACK", true}} {
		if _, err := one.ExecContext(t.Context(), step.statement); err != nil {
			t.Fatal(err)
		}
		if got := d.writable(t.Context(), i); got != step.want {
			t.Errorf("after %s: %v", step.statement, got)
		}
	}
	if err := errors.Join(one.Close(), other.Close(), d.close()); err != nil {
		t.Error(err)
	}
}
