package load

import (
	"runtime"
	"time"
)

// A usage is what this process has used so far: processor time, memory.
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

// heap returns the size of the live heap, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // collects what finalizers have freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
