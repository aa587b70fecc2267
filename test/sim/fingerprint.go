package sim

import (
	"fmt"
	"hash/fnv"

	"github.com/soloist-dev/soloist/internal/proof"
)

// Fingerprint tells histories apart.
func Fingerprint(h proof.History) uint64 {
	sum := fnv.New64a()
	for _, e := range h {
		fmt.Fprintf(sum, "%+v\n", e)
	}
	return sum.Sum64()
}
