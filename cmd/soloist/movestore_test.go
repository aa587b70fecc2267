package main

import (
	"strings"
	"testing"
)

// TestMoveURLKeepsItsSecrets: no error about a URL of a move has a password of one of its parts in it.
func TestMoveURLKeepsItsSecrets(t *testing.T) {
	for _, text := range []string{
		"move:redis://:canary@h/0 postgres://u:canary@h/a old-decides",
		"move:redis://:canary@h/0 old-decides postgres://u:canary@h/a",
		"move:redis://:canary@h/0 postgres://u:canary@h/a",
		"move:canary://u:canary@h",
		"move:old-decides move:canary@h postgres://u:canary@h/a",
	} {
		_, err := source{text: text, from: "$SOLOIST_STORE"}.moving()
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "$SOLOIST_STORE") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := (source{text: "move:later sqlite:a sqlite:b", from: "x"}).moving(); err == nil || !strings.Contains(err.Error(), `"later"`) {
		t.Error(err)
	}
}
