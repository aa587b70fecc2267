// Package change switches on one of the changes that command changes has put into the code of a package.
package change

import (
	"cmp"
	"encoding/binary"
	"os"
	"strconv"
	"sync"
)

// Variables of the environment: the number of the change that is made, and the file that gets the numbers of those that are reached.
const (
	Made    = "SOLOIST_CHANGE"
	Reached = "SOLOIST_CHANGES_REACHED"
)

var (
	made    = number(os.Getenv(Made))
	reached = file(os.Getenv(Reached))
	seen    sync.Map // numbers
)

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0 // none
	}
	return n
}

func file(path string) *os.File {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil // nobody asks
	}
	return f
}

// On reports whether a change is made.
func On(n int) bool {
	if reached != nil {
		if _, known := seen.LoadOrStore(n, true); !known {
			_, _ = reached.Write(binary.LittleEndian.AppendUint32(nil, uint32(n))) // a process may be killed at any moment
		}
	}
	return n == made
}

// Zero returns v, or no value.
func Zero[T any](n int, v T) T {
	if On(n) {
		var none T
		return none
	}
	return v
}

// Nil returns err, or nil.
func Nil(n int, err error) error { return Zero(n, err) }

// A Number can be added.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

// Add returns a + b, or a - b.
func Add[T Number](n int, a, b T) T {
	if On(n) {
		return a - b
	}
	return a + b
}

// Sub returns a - b, or a + b.
func Sub[T Number](n int, a, b T) T {
	if On(n) {
		return a + b
	}
	return a - b
}

// Min returns the smaller of two, or always the first, or always the second.
func Min[T cmp.Ordered](first, second int, a, b T) T { return one(first, second, a, b, min(a, b)) }

// Max returns the greater of two, or always the first, or always the second.
func Max[T cmp.Ordered](first, second int, a, b T) T { return one(first, second, a, b, max(a, b)) }

func one[T any](first, second int, a, b, right T) T {
	switch {
	case On(first):
		return a
	case On(second):
		return b
	}
	return right
}
