// Package rules has no code. Its tests hold the project to the rules of its house: which module may require
// and import what, which words may be used where, and that what the documents say is there.
package rules
