// Package move moves a fleet from one store to another while it runs. A store of this package is made of an old and a new one, and of a phase:
//
//	phase       asks for a lease    decides, and its token is the lease's
//	OldOnly     old                 old
//	OldDecides  new, then old       old
//	NewDecides  old, then new       new
//	NewOnly     new                 new
//
// This package is the mechanism: its caller keeps the order of the phases. Package fleetmove keeps it for a fleet: its replicas announce their phases,
// and are refused in one that is not open.
//
// Replicas roll from each phase to the next one, as with any change of their configuration. While they do, some are in one phase and some are in
// the next: a name still has at most one holder, and its tokens keep growing. Two replicas must never be more than one phase apart.
//
// The steps of a move are:
//
//  1. Roll all replicas to OldDecides. Call [Copy] in this phase until its report is complete: the new store then has what the old one has.
//  2. Roll all replicas to NewDecides. Call Copy in this phase until its report is complete: the tokens of the new store are then above
//     those of the old one.
//  3. Roll all replicas to NewOnly, or to the new store itself. Nobody needs the old store any more.
//
// The way back is the same in the other direction, with a complete Copy in each of the two middle phases before it is left. A Copy that is told the next phase, by
// Options.Next, is complete for that phase alone.
//
// Both stores must be able to raise tokens, see [store.Claim]. Those of etcd, Consul and NATS cannot.
//
// In the middle phases a claim needs both stores. A lease is kept by the store that decides alone, so renewals go on while the other
// one is out of reach; but nothing can be acquired, and no mark or state written, meanwhile. Waiters do not queue, a semaphore is not chosen by the store,
// and there are no completions in a transaction.
// While replicas are in both middle phases, a grant may have ExpiredAge 0 although the last holder died.
// A claim costs two requests, an extension or a release three. The reasons, and what a crash between two requests leaves, are in docs/adr/0019-moving.md.
package move
