package mysqlstore

import (
	"errors"
	"testing"

	"github.com/soloist-dev/soloist/store"
)

// Releases of one name in a batch are repetitions of each other only if they are of the same lease.
func TestReleasesOfOneNameInABatch(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	token := take(t, s, "x", "a").Token
	errs, err := s.Release(t.Context(), []store.Release{
		{Name: "x", Holder: "a", Token: token}, {Name: "x", Holder: "a", Token: token - 1}, {Name: "x", Holder: "b", Token: token}, {Name: "x", Holder: "a", Token: token},
	})
	if err != nil || errs[0] != nil || !errors.Is(errs[1], store.ErrLost) || !errors.Is(errs[2], store.ErrLost) || errs[3] != nil {
		t.Errorf("%v, %v; want nil, lost, lost and nil", errs, err)
	}
}
