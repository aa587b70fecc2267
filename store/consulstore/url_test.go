package consulstore_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
)

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestURLs(t *testing.T) {
	for url, text := range map[string]string{
		"consul://":                                "HOST or HOST:PORT",
		"consul:///prefix":                         "HOST or HOST:PORT",
		"consul://host:0/prefix":                   "HOST or HOST:PORT",
		"consul://canary@host/prefix":              "write :TOKEN@",
		"consul://user:canary@host/prefix":         "write :TOKEN@",
		"consul://:ca/nary@host/prefix":            "has an @ after the hosts",
		"consul://:ca%20nary@host/prefix":          "SecretID",
		"consul://host/a//b":                       "single slashes",
		"consul://host/a/../b":                     "single slashes",
		"consul://host/a/":                         "single slashes",
		"consul://host/a%20b":                      "single slashes",
		"consul://host/p?dc=dc1":                   "there are cafile, certfile, creds, datacenter",
		"consul://host/p?datacenter=a.b":           "letters, digits",
		"consul://host/p?namespace=a/b":            "letters, digits",
		"consul://host/p?partition=%26":            "letters, digits",
		"consul://host/p?dialtimeout=5":            "duration",
		"consul://host/p?cafile=x":                 "tls=true",
		"consul://host/p?tls=true&cafile=/not/it":  "/not/it",
		"consul://:canary@host/p?creds=/etc/token": "a token or a file",
		"consul:host/p":                            "consul://:TOKEN",
		"consul://host/p?tls=true&tls=true":        "twice",
	} {
		s, err := consulstore.OpenURL(background, url)
		if s != nil || !errors.Is(err, store.ErrInvalid) || !says(err, text) || says(err, "nary") {
			t.Errorf("%q: %v, want an invalid input that says %q", url, err, text)
		}
	}
	for _, url := range []string{
		"consul://host", "consul://:token@a:8501,b,[::1]:8502/apps/Soloist_1.x?datacenter=dc-1&namespace=team&partition=p&dialtimeout=1s&tls=true&servername=server.dc1.consul",
		"consul://host/p?creds=/etc/token",
	} {
		s, err := consulstore.OpenURL(background, url)
		if err != nil {
			t.Errorf("%q: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil { // it has not connected
			t.Error(err)
		}
		if err := s.Ping(background); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestConfigs: what cannot be is refused with what would be right.
func TestConfigs(t *testing.T) {
	address := func(all ...string) consulstore.Config { return consulstore.Config{Addresses: all} }
	for _, test := range []struct {
		cfg  consulstore.Config
		text string // "" if it can be
	}{
		{address("http://127.0.0.1:8500"), "HOST:PORT"},
		{address("host"), "HOST:PORT"},
		{address("host:"), "HOST:PORT"},
		{address("a b:1"), "HOST:PORT"},
		{address("user@host:1"), "HOST:PORT"},
		{address("host:1", "host"), "HOST:PORT"},
		{address("host:1", "[::1]:2"), ""},
		{consulstore.Config{DialTimeout: 1}, "1ms to 1h"},
		{consulstore.Config{DialTimeout: -1}, "or 0 for 5 s"},
		{consulstore.Config{DialTimeout: time.Hour + 1}, "1ms to 1h"},
		{consulstore.Config{DialTimeout: time.Hour}, ""},
		{consulstore.Config{DialTimeout: time.Millisecond}, ""},
		{consulstore.Config{Prefix: "/a"}, "single slashes"},
		{consulstore.Config{Prefix: ".."}, "single slashes"},
		{consulstore.Config{Prefix: "a/."}, "single slashes"},
		{consulstore.Config{Prefix: ".a/b./..c"}, ""},
		{consulstore.Config{Prefix: strings.Repeat("p", 256)}, "1 to 255"},
		{consulstore.Config{Prefix: strings.Repeat("p", 255)}, ""},
		{consulstore.Config{Token: "a\nb"}, "SecretID"},
		{consulstore.Config{Token: "a b"}, "SecretID"},
		{consulstore.Config{Token: "a\x7f"}, "SecretID"},
		{consulstore.Config{Token: "é"}, "SecretID"},
		{consulstore.Config{Token: "!~"}, ""},
		{consulstore.Config{Token: "a", TokenFile: "f"}, "a token or a file"},
	} {
		s, err := consulstore.New(test.cfg)
		if err == nil {
			err = s.Close()
		}
		if test.text == "" && err != nil || test.text != "" && (!errors.Is(err, store.ErrInvalid) || !says(err, test.text)) {
			t.Errorf("%+v: %v, want an invalid input that says %q", test.cfg, err, test.text)
		}
	}
}
