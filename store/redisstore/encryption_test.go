package redisstore

import (
	"testing"

	"github.com/soloist-dev/soloist/store"
)

// A connection that leaves the machine without TLS is warned of; one that does not is well.
func TestClearTextIsWarnedOf(t *testing.T) {
	for url, want := range map[string]store.Level{
		"redis://127.0.0.1": store.LevelOK, "redis://localhost:7000": store.LevelOK, "redis://[::1]:7000": store.LevelOK, "rediss://db.example": store.LevelOK,
		"redis://10.0.0.7": store.LevelWarning, "redis://db.example": store.LevelWarning, "redis+cluster://127.0.0.1": store.LevelWarning,
	} {
		s, err := OpenURL(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if f := s.encryption(); f.Level != want {
			t.Errorf("%s: %+v, want level %s", url, f, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
