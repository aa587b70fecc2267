//go:build !linux

package sqlitestore

import (
	"errors"
	"os"
	"runtime"
)

func pledge([]uintptr, os.FileInfo) error {
	return errors.New("that is not known on " + runtime.GOOS)
}

const nobody = 0

func unpledged([]uintptr, int64) error { return nil }

func alone(uintptr) bool { return true }

func unpledge([]uintptr) {}

func bind(os.FileInfo, os.FileInfo) error { return nil }

func unbind(os.FileInfo) {}

func usedAs(os.FileInfo, string) string { return "" }
