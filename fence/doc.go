// Package fence provides guards for resources. A guard refuses the writes of a holder whose lease has passed to another
// holder.
//
// A holder may notice too late that its lease is lost: a process is paused for longer than its TTL, resumes, and
// writes. No lock can prevent that; the resource can. Every lease has a fencing token that is greater than those before
// it. A guard remembers the greatest token that it has seen for a resource and refuses lower ones, in one atomic step
// with the write.
//
// A guard orders writes; it does not exclude holders. Until the successor's first write, those of the old holder still
// pass. So a new holder should call Claim first: it shows the guard the new token without writing.
//
// A token that has passed a guard counts as seen even if the write then fails or panics: it still proves that the lease
// has passed to its holder.
package fence
