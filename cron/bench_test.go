package cron_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

var typical = []string{
	"*/5 * * * *",
	"0/30 * * * * ?",
	"TZ=Europe/Berlin 30 2 * * MON-FRI",
	"TZ=Europe/Berlin 0 * * * *",
	"0 0 12 LW * ?",
	"0 0 29 2 *",
	"@every 10m",
}

func BenchmarkParse(b *testing.B) {
	for _, expression := range typical {
		b.Run(expression, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cron.Parse(expression); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	start := time.Date(2026, time.March, 1, 12, 34, 56, 0, time.UTC)
	for _, expression := range append(typical, "0 0 29 2 */7", "TZ=Europe/Berlin */30 2 29 2 MON#5") {
		b.Run(expression, func(b *testing.B) {
			e := cron.MustParse(expression)
			b.ReportAllocs()
			for b.Loop() {
				e.Next(start)
			}
		})
	}
}

// BenchmarkTenThousandJobs is what a large fleet does when it starts: parse everything, ask for everything once.
func BenchmarkTenThousandJobs(b *testing.B) {
	start := time.Date(2026, time.March, 1, 12, 34, 56, 0, time.UTC)
	jobs := make([]string, 10_000)
	for i := range jobs {
		jobs[i] = fmt.Sprintf("TZ=Europe/Berlin %d %d * * MON-FRI", i%60, i/60%24)
	}
	for b.Loop() {
		for _, expression := range jobs {
			cron.MustParse(expression).Next(start)
		}
	}
}

// TestNextAllocatesNothing: a scheduler asks for thousands of times per second.
func TestNextAllocatesNothing(t *testing.T) {
	start := time.Date(2026, time.March, 28, 12, 34, 56, 0, time.UTC)
	for _, expression := range typical {
		e := cron.MustParse(expression)
		if allocated := testing.AllocsPerRun(100, func() { e.Next(start) }); allocated != 0 {
			t.Errorf("%q: Next allocates %v times", e, allocated)
		}
	}
}
