//go:build !linux

package sqlitestore

import (
	"errors"
	"runtime"
)

func hostClock() (*clock, error) {
	return nil, errors.New("on " + runtime.GOOS + " leases are kept by the wall clock")
}
