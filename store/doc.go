// Package store defines the interface between soloist and the backends that keep leases. It is to soloist what database/sql/driver is to
// database/sql: applications open a store and give it to soloist.New; only authors of stores and of wrappers call it.
//
// A store keeps one [Record] per name and has three methods that change it: Acquire, Extend and Release. Each takes a batch; a single lease is
// a batch of one. Everything above (locks, jobs, elements, semaphores, leadership) is made of these three. What else a backend can do is in
// small optional interfaces, which [As] finds.
//
// # Laws
//
// A store keeps the following laws. Package storetest checks them.
//
//  1. Only durations are passed, never instants. Callers ask for "thirty seconds" and a store returns "another twelve", both by the
//     backend's own clock. The clocks of callers are never compared.
//  2. Each element of a batch is decided by itself, atomically and linearizably, in the order of the batch. A batch is one round trip wherever
//     the backend can do it.
//  3. Tokens grow forever: the token of a grant is greater than that of every earlier grant of the same name, across releases, expiry, sweeps
//     and reopening.
//  4. Repeating a request is safe. A holder that already holds the name gets the same token, and the lease ends when it would have. An
//     outcome that the store does not know is reported as [ErrUnknown], never as free or held.
//  5. A release or an extension names the holder and the token of its lease. A stale holder can neither end, extend nor overwrite the lease of
//     its successor.
//  6. A claim that is refused writes nothing.
//  7. A record that cannot be read affects its own name only. A reply of the backend is checked before it is believed.
//  8. A store caches nothing of what is in the backend, logs nothing, starts no goroutine that outlives Close, never ends the process, and never
//     puts a secret into an error.
package store
