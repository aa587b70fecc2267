package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/sqlitestore"
)

// Two processes of a host want the same name; here they are two handles.
func Example() {
	dir, err := os.MkdirTemp("", "soloist")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "leases.db")

	for _, holder := range []string{"one", "two"} {
		s, err := sqlitestore.Open(path)
		if err != nil {
			log.Fatal(err)
		}
		defer s.Close()
		out, err := s.Acquire(context.Background(), []store.Claim{{Name: "nightly", Holder: holder, TTL: time.Minute}})
		switch {
		case err != nil:
			log.Fatal(err)
		case errors.Is(out[0].Err, store.ErrHeld):
			fmt.Println(holder, "is refused")
		default:
			fmt.Println(holder, "has it")
		}
	}
	// Output:
	// one has it
	// two is refused
}
