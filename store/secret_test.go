package store_test

import (
	"encoding/json"
	"testing"

	"github.com/soloist-dev/soloist/store"
)

// TestSecretIsRead: a configuration that is read from JSON has the text of its secrets, and an empty one is not shown as set.
func TestSecretIsRead(t *testing.T) {
	var cfg struct{ Token, None store.Secret }
	if err := json.Unmarshal([]byte(`{"Token": "canary"}`), &cfg); err != nil || string(cfg.Token) != "canary" {
		t.Errorf("got %q and %v, want the text", string(cfg.Token), err)
	}
	if text, err := json.Marshal(cfg); err != nil || string(text) != `{"Token":"(secret)","None":""}` {
		t.Errorf("got %s and %v", text, err)
	}
}
