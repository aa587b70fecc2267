// Package histories asks real stores for leases in every way that package store has, while single backends and connections are stopped,
// delayed and cut, requests are repeated and returns lost. It records what was asked and answered on one clock, and package proof
// judges it: tokens, linearizability, beliefs.
//
// A run consists of rounds. Each round has names that no other has, many actors, and a few thousand operations. All actors end
// before the round is judged, so a history is complete, and a run may have any number of operations.
package histories
