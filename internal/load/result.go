package load

import "time"

// A Result has the figures of one case. Figures that a case does not have are 0.
type Result struct {
	Case       string  `json:"case"`
	What       string  `json:"what"` // "64 goroutines, a name each"
	Unit       string  `json:"unit"` // what an operation is: "pair", "try"
	Seconds    float64 `json:"seconds"`
	Operations int64   `json:"operations"`
	Rate       float64 `json:"per_second"`
	P50        float64 `json:"p50_us"` // of an operation's time, µs
	P90        float64 `json:"p90_us"`
	P99        float64 `json:"p99_us"`
	Max        float64 `json:"max_us"`
	Requests   float64 `json:"requests_per_op"` // calls of the store
	CPU        float64 `json:"cpu_us_per_op"`   // of this process, µs
	Allocs     float64 `json:"allocs_per_op"`
	Bytes      float64 `json:"bytes_per_op"` // allocated
	More       []More  `json:"more,omitempty"`
}

// More is a figure that only some cases have.
type More struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// A Sample has what a period of work used.
type Sample struct {
	Took          time.Duration
	Operations    int64
	Late          int64 // operations that timed out, in addition
	Times         Times // of each operation
	CPU           time.Duration
	Allocs, Bytes uint64
}

func (s *Sample) since(before usage) {
	now := used()
	s.Took = now.at.Sub(before.at)
	s.CPU = now.cpu - before.cpu
	s.Allocs, s.Bytes = now.allocs-before.allocs, now.bytes-before.bytes
}

// Result returns the result of the sample. requests is the number of requests of all operations together.
func (s *Sample) Result(letter, what, unit string, requests int64) Result {
	n := float64(max(1, s.Operations))
	r := Result{
		Case: letter, What: what, Unit: unit, Seconds: s.Took.Seconds(), Operations: s.Operations, Rate: float64(s.Operations) / max(s.Took.Seconds(), 1e-9),
		P50: Micros(s.Times.Quantile(0.5)), P90: Micros(s.Times.Quantile(0.9)), P99: Micros(s.Times.Quantile(0.99)), Max: Micros(s.Times.Max()),
		Requests: float64(requests) / n, CPU: Micros(s.CPU) / n, Allocs: float64(s.Allocs) / n, Bytes: float64(s.Bytes) / n,
	}
	if s.Late > 0 {
		r.More = []More{{Name: "NOT ANSWERED IN TIME", Value: float64(s.Late)}}
	}
	return r
}

// Micros returns d in µs.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
