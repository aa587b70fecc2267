package fence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/soloist-dev/soloist/fence"
)

// A guard in memory is for a resource that only this process writes to.
func ExampleMemory() {
	var guard fence.Memory
	ctx := context.Background()
	write := func(context.Context) error {
		fmt.Println("written")
		return nil
	}

	_ = guard.Claim(ctx, "ledger", 18) // the new holder's first act
	_ = guard.Do(ctx, "ledger", 18, write)
	err := guard.Do(ctx, "ledger", 17, write) // the old holder, which was paused for too long
	fmt.Println(errors.Is(err, fence.ErrStale))
	// Output:
	// written
	// true
}

// A server that takes writes with a token only, and a client that sends the token of its lease.
func ExampleHandler() {
	var guard fence.Memory
	resource := func(r *http.Request) string { return r.URL.Path }
	put := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("written") })
	server := httptest.NewServer(fence.Handler(&guard, resource, put))
	defer server.Close()

	for _, token := range []string{"18", "17", ""} {
		request, err := http.NewRequest(http.MethodPut, server.URL+"/accounts/7", strings.NewReader("10"))
		if err != nil {
			panic(err)
		}
		if token != "" {
			request.Header.Set(fence.TokenHeader, token) // fence.Transport does this, under a lease
		}
		response, err := server.Client().Do(request)
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		fmt.Println(token, response.StatusCode)
	}
	// Output:
	// written
	// 18 200
	// 17 412
	//  428
}
