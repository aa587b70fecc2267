// Package load puts load on a store, by the client that applications use, and measures what it costs. Each case has a letter, the
// same as in docs/compare/benchmarks.md. It knows no other library: those that compare bring their own operations to its loops.
//
// What it makes in the store is under a namespace that must be its own; Clean removes it.
package load
