//go:build !linux

package servers

func removeSegment(string) {}

func unmount(string) {}
