// Package fence holds guards for resources: they refuse a holder whose lease has gone to another.
//
// A lease can be lost without its holder knowing in time: a process is paused for longer than its TTL, goes on, and writes. No
// lock can prevent that; the resource can. Every lease carries a fencing token that is greater than those before it. A guard
// remembers the greatest token it has seen for a resource and refuses smaller ones, in one atomic step with the write.
//
// A guard orders writes; it does not exclude. Until the successor's first write those of the old holder still pass. So the first
// act of a new holder is Claim, which advances the guard without writing.
//
// A token that has passed a guard has been seen, whatever becomes of the write: one that fails or panics proves as much as another that
// the lease has gone to its holder.
package fence
