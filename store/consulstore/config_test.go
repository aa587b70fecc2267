package consulstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store/consulstore"
)

// TestConfigHidesTheToken: a configuration can be printed and logged without its token.
func TestConfigHidesTheToken(t *testing.T) {
	cfg := consulstore.Config{Token: "canary"}
	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown[verb] = fmt.Sprintf(verb, cfg) + fmt.Sprintf(verb, &cfg) + fmt.Sprintf(verb, cfg.Token)
	}
	text, err := json.Marshal(cfg.Token) // Config.TLS has functions, which JSON does not have
	if err != nil {
		t.Fatal(err)
	}
	shown["JSON"] = string(text)
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("begins", "config", cfg, "token", cfg.Token)
	}
	shown["slog"] = log.String()
	for how, text := range shown {
		if strings.Contains(text, "canary") || strings.Contains(text, fmt.Sprintf("%x", "canary")) || !strings.Contains(text, "(secret)") {
			t.Errorf("%s shows %s", how, text)
		}
	}
}
