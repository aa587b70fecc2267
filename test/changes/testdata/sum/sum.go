// Package sum is changed by a test of command changes.
package sum

import "errors"

// Sum returns a + b, or an error below zero.
func Sum(a, b int) (int, error) {
	if a < 0 || b < 0 {
		return 0, errors.New("below zero")
	}
	return a + b, nil
}

// Forgotten returns the smaller number.
func Forgotten(a, b int) int { return min(a, b) }
