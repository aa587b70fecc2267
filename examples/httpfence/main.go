// Command httpfence shows a guarded HTTP service that refuses a holder whose lease has gone to another.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/store/memstore"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	service := httptest.NewServer(fence.Handler(&fence.Memory{}, nil, http.HandlerFunc(write)))
	defer service.Close()
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		return err
	}
	defer client.Close()

	// The first holder writes, and is paused so long that its lease ends.
	first, err := client.TryLock(ctx, "ledger")
	if err != nil {
		return err
	}
	if err := post(ctx, first, service.URL, "the first holder"); err != nil {
		return err
	}
	if err := first.Release(); err != nil {
		return err
	}

	// Its successor claims the resource before anything else.
	second, err := client.TryLock(ctx, "ledger")
	if err != nil {
		return err
	}
	fenced := &http.Client{Transport: fence.Transport{Lease: second}}
	if err := fence.ClaimURL(ctx, fenced, service.URL+"/ledger"); err != nil {
		return err
	}

	// The first holder wakes up, knows nothing, and writes again.
	if err := post(ctx, first, service.URL, "the first holder, late"); err != nil {
		return err
	}
	return post(ctx, second, service.URL, "the second holder")
}

func write(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "written with token %s\n", r.Header.Get(fence.TokenHeader))
}

func post(ctx context.Context, lease *soloist.Lease, url, who string) error {
	client := &http.Client{Transport: fence.Transport{Lease: lease}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/ledger", strings.NewReader("100"))
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Printf("%s: %s\n", who, answer.Status)
	return nil
}
