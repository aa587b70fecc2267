// Package fleetmove leads the move of a fleet from one store to another, which package store/move makes possible.
//
// A plan, which both stores keep, says which phases replicas may be in: one, or two neighbors between which they roll. [Join] opens the stores for a
// replica: it announces the replica's phase, and refuses one that is not open. A [Manager] begins the plan and advances it: it leaves a phase when no replica is
// known in it, copies the records, and opens the next one. So two replicas are never more than one phase apart. The command soloist move does what a
// Manager does. See docs/guides/moving.md.
package fleetmove
