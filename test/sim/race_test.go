//go:build race

package sim

// raced says that the race detector makes everything some ten times slower.
const raced = true
