package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// One holder takes a name, another is refused, and the next grant has a greater token.
func Example() {
	ctx := context.Background()
	s := memstore.New()
	defer s.Close()

	ask := func(holder string) (store.Grant, error) {
		out, err := s.Acquire(ctx, []store.Claim{{Name: "backup", Holder: holder, TTL: 30 * time.Second}})
		if err != nil {
			return store.Grant{}, err
		}
		return out[0].Grant, out[0].Err
	}

	one, _ := ask("one")
	_, err := ask("two")
	fmt.Println("two is refused:", errors.Is(err, store.ErrHeld))

	_, _ = s.Release(ctx, []store.Release{{Name: "backup", Holder: "one", Token: one.Token, State: []byte("page 7")}})
	two, _ := ask("two")
	fmt.Printf("two goes on at %q, token greater: %t\n", two.State, two.Token > one.Token)
	// Output:
	// two is refused: true
	// two goes on at "page 7", token greater: true
}
