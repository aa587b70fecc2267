// Package store is the seam between soloist and the backends that remember leases.
//
// A store keeps one [Record] per name and offers three verbs on it: Acquire, Extend and Release. Every verb takes a
// batch; a single lease is a batch of one. Everything above the seam (locks, jobs, elements, semaphores, leadership) is
// made of these three verbs; nothing below it knows those words.
//
// # Laws
//
// Package storetest checks each of these against a store.
//
//  1. No instant of time crosses the seam. Callers say "for thirty seconds" and a store answers "for another twelve",
//     both by the backend's own clock. Clocks of callers are never compared.
//  2. Each element of a batch is decided on its own, atomically and linearizably, in the order of the batch. A batch is
//     one round trip wherever the backend can do it.
//  3. Tokens grow for ever: the token of a grant is greater than that of every earlier grant of the same name, across
//     release, expiry, sweeping and reopening.
//  4. Asking again is safe. A holder that already holds the name gets the same token, and its deadline stays where the
//     first answer put it. An outcome that the store does not know is reported as [ErrUnknown], never as free or held.
//  5. A release or an extension names the holder and token it means. A stale holder can neither free nor prolong, nor
//     write over, the lease of its successor.
//  6. A refused claim writes nothing.
//  7. A record that cannot be read harms its own name alone. What a backend answers is checked before it is believed.
//  8. A store caches nothing of what is in the backend, logs nothing, starts no goroutine that outlives Close, never
//     ends the process, and never puts a secret into an error.
package store
