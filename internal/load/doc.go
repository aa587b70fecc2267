// Package load puts load on a store, by the client that applications use, and measures what it costs. Each case has a
// letter, the same as in docs/compare/benchmarks.md. It does not depend on other libraries: the benchmarks of those
// pass their operations to its loops.
//
// Its records are in a namespace that nothing else may use; Clean removes them.
package load
