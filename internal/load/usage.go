package load

import (
	"runtime"
	"time"
)

// A usage is what this process has used so far.
type usage struct {
	at            time.Time
	cpu           time.Duration
	allocs, bytes uint64
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: CPU(), allocs: m.Mallocs, bytes: m.TotalAlloc}
}

// heap is what is alive on the heap.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers have freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
