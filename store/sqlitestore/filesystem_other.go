//go:build !linux && !darwin

package sqlitestore

import "runtime"

func fileSystemOf(string) (fileSystem, error) {
	return fileSystem{doubt: "whether the file is on a local disk is not known on " + runtime.GOOS}, nil
}
