package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop, url := errors.New("seen enough"), ""
	address := regexp.MustCompile(`the dashboard of this run, until it ends: (http://127\.0\.0\.1:\d+/)\n`)
	progress := &buffer{onWrite: func(all string) {
		found := address.FindStringSubmatch(all)
		if found == nil || url != "" || !strings.Contains(all, "are at work") {
			return
		}
		url = found[1]
		if code, page := get(t, url); code != http.StatusOK || !strings.Contains(page, "<html") {
			t.Errorf("got %d: %s", code, page)
		}
		cancel(stop)
	}}
	if err := Run(ctx, Config{Dir: dir, Open: true, Progress: progress}); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if url == "" {
		t.Fatalf("nothing says where the dashboard is:\n%s", progress)
	}
	if code, _ := get(t, url); code != 0 {
		t.Errorf("the dashboard is still there: %d", code)
	}
	leavesNothing(t, dir)
}

// get returns the status and the body of a page, or 0 if nobody serves it.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(page)
}
