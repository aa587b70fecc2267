//go:build linux

package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// A token that callers have sent, in each way there is, is in no file of the service, and not in its log, arguments or environment.
func TestTokensAreNowhere(t *testing.T) {
	dir := memoryDir(t)
	secret := writeToken(t, filepath.Join(dir, "tokens"), "admin")
	p := watched(t, dir, "sqlite:"+filepath.Join(dir, "store.db"), "serve", "--listen", "0", "--tokens", "tokens", "--log-level", "debug")
	base := "http://" + p.address()
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	send := func(want int, method, path, body string, headers ...string) {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != want {
			t.Errorf("%s %s: %s, want %d", method, path, response.Status, want)
		}
	}
	bearer, cookie := []string{"Authorization", "Bearer " + secret}, []string{"Cookie", "soloist_token=" + secret}
	send(200, "POST", "/v1/locks/x/acquire", "", bearer...)
	send(409, "DELETE", "/v1/locks/x?token=7&reason=test", "", bearer...)
	send(401, "GET", "/v1/locks", "", "Authorization", "Basic "+secret)
	send(401, "GET", "/v1/locks", "", "Authorization", "Bearer "+secret+"x")
	send(200, "GET", "/locks", "", cookie...)
	send(303, "POST", "/login", "token="+url.QueryEscape(secret), "Content-Type", "application/x-www-form-urlencoded")
	send(401, "POST", "/login", "token=x"+url.QueryEscape(secret), "Content-Type", "application/x-www-form-urlencoded")
	places := []string{"/proc/" + strconv.Itoa(p.Process.Pid) + "/cmdline", "/proc/" + strconv.Itoa(p.Process.Pid) + "/environ"}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			places = append(places, path)
		}
		return err
	})
	if err != nil || len(places) < 5 {
		t.Fatalf("%v: %q", err, places)
	}
	for _, place := range places {
		text, err := os.ReadFile(place)
		if err != nil && !errors.Is(err, fs.ErrPermission) { // soloist keeps its environment from all but root
			t.Error(err)
		}
		if strings.Contains(string(text), strings.TrimPrefix(secret, "soloist_")) {
			t.Errorf("the token is in %s", place)
		}
	}
}
