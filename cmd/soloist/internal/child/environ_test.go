package child

import (
	"slices"
	"testing"
)

func TestEnviron(t *testing.T) {
	base := []string{
		"PATH=/bin", "SOLOIST_STORE=redis://:secret@host", "SOLOIST_STORE_FILE=/x", "SOLOIST_TOKEN=1", "HOME=/old",
		"HOME=/root", "SOLOIST=kept", "=C:=odd", "", "broken",
	}
	got := Environ(base, map[string]string{"SOLOIST_TOKEN": "42", "SOLOIST_NAME": "n=1", "PATH": "/usr/bin"})
	want := []string{"HOME=/root", "SOLOIST=kept", "broken", "PATH=/usr/bin", "SOLOIST_NAME=n=1", "SOLOIST_TOKEN=42"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
