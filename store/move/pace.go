package move

import (
	"sync/atomic"
	"time"
)

// The sizes of batches, and how long one may take. Its names are taken meanwhile, and the requests for one have to fit into copyTTL well.
const (
	fewCopied  = 16
	mostCopied = 1024
	quickly    = copyTTL / 20
	slowly     = copyTTL / 5
)

// A pace is how large batches are: the larger, the fewer requests, as long as the stores are quick.
type pace struct{ size atomic.Int64 }

func newPace() *pace {
	p := &pace{}
	p.size.Store(fewCopied)
	return p
}

func (p *pace) now() int { return int(p.size.Load()) }

// took takes into account how long a batch took.
func (p *pace) took(n int, d time.Duration) {
	switch size := p.now(); {
	case d < quickly && n >= size:
		p.size.CompareAndSwap(int64(size), int64(min(2*size, mostCopied)))
	case d > slowly && n > size/2:
		p.size.CompareAndSwap(int64(size), int64(max(size/2, 1)))
	}
}
