package sim

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/soloist-dev/soloist/internal/proof"
)

// Fingerprint distinguishes histories.
func Fingerprint(h proof.History) uint64 {
	sum := fnv.New64a()
	for _, e := range h {
		if e.Name = anonymous(e.Name); e.Name == "actions" || strings.HasPrefix(e.Name, "replica") {
			e.State = 0 // it has such a name in it
		}
		fmt.Fprintf(sum, "%+v\n", e)
	}
	return sum.Sum64()
}
