//go:build !linux

package sqlitestore

func mountedAlone(string) (string, bool) { return "", false }
