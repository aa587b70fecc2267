//go:build !unix

package main

import "io/fs"

// untrusted reports why the content of a file or a directory may be somebody else's. Owners and modes tell nothing about
// that here.
func untrusted(fs.FileInfo) string { return "" }

// othersRead reports whether other users can read a file. Modes do not tell that here.
func othersRead(fs.FileInfo) bool { return false }
