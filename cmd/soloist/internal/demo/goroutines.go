package demo

import (
	"regexp"
	"runtime"
	"time"
)

var goroutineID = regexp.MustCompile(`(?m)^goroutine (\d+) \[`)

// goroutines returns the numbers of those there are. No number is used twice.
func goroutines() map[string]bool {
	stacks := make([]byte, 1<<20)
	ids := map[string]bool{}
	for _, match := range goroutineID.FindAllSubmatch(stacks[:runtime.Stack(stacks, true)], -1) {
		ids[string(match[1])] = true
	}
	return ids
}

// leftOver is how many goroutines there are that were not there before. Those that have been told to end may need a
// moment.
func leftOver(before map[string]bool) int {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		left := 0
		for id := range goroutines() {
			if !before[id] {
				left++
			}
		}
		if left == 0 || time.Since(begin) > 2*time.Second {
			return left
		}
	}
}
