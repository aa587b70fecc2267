//go:build race

package sim

// raced reports whether the race detector makes everything some ten times slower.
const raced = true
