package sqlitestore

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// swept takes a name with a token greater than any clock would make, gives it back and has it forgotten.
func swept(t *testing.T, s *Store, name string, between func()) (token int64) {
	t.Helper()
	r := take(t, s, name, "a", time.Hour)
	r.Token, r.Retain = math.MaxInt64/2, 0
	exec(t, raw(t, s.path), "UPDATE records SET token = "+strconv.FormatInt(r.Token, 10)+" WHERE name = '"+name+"'")
	release(t, s, r)
	between()
	if n, err := s.Sweep(context.Background(), 10); n != 1 || err != nil {
		t.Fatalf("a sweep has forgotten %d, %v", n, err)
	}
	return r.Token
}

// What a sweep has forgotten is not granted with a lower token, be the clock as it may.
func TestTokensGrowOverASweep(t *testing.T) {
	s := openAt(t, newPath(t))
	token := swept(t, s, "x", func() {})
	for _, name := range []string{"x", "other"} {
		if again := take(t, s, name, "b", time.Hour); again.Token <= token {
			t.Errorf("token %d of %q follows %d", again.Token, name, token)
		}
	}
}

// A claim that has looked at a record decides again if that is forgotten before it writes.
func TestTokensGrowOverASweepDuringAClaim(t *testing.T) {
	s, late := openAt(t, newPath(t)), (*Store)(nil)
	late = openAt(t, s.path)
	claims, outcomes := claim("x", "late", time.Hour), make([]store.Outcome, 1)
	var found *record
	token := swept(t, s, "x", func() {
		must(t, late.view(background, func(f *file, c *conn) (err error) {
			_, found, err = answer(f.clock, c, claims, outcomes)
			return err
		}))
	})
	if found == nil {
		t.Fatal("the claim has not seen the record")
	}
	must(t, late.writing.take(background))
	done, err := late.quick(background, late.file, retake(found, claims[0], &outcomes[0]))
	if done || err != nil {
		t.Fatalf("a record that has been forgotten was granted: %+v, %v", outcomes[0], err)
	}
	must(t, late.write(background, late.file, func(tx *tx) error { return tx.acquire(claims, outcomes) }))
	late.writing.give()
	if outcomes[0].Err != nil || outcomes[0].Grant.Token <= token {
		t.Errorf("token %d follows %d (%v)", outcomes[0].Grant.Token, token, outcomes[0].Err)
	}
}
