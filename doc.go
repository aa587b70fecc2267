// Package soloist makes work that a fleet must do once be done by one of its machines.
//
// A [Client] takes leases from a store (package store, and the packages below it) and keeps them:
//
//   - [Client.Do], [Client.Lock] and [Client.TryLock] hold a lock;
//   - [Client.Run] runs [Job]s, each scheduled time on one replica;
//   - [Client.Elements] processes the units of a job's work once each;
//   - [Client.Semaphore] lets at most n in;
//   - [Client.Lead] runs a function while this replica leads.
//
// Every lease has a fencing token that is greater than those before it, and a context that ends when the lease is lost, by the
// holder's own clock and with no need of the network. At most one holder believes that it holds a name, as long as the store
// keeps its promises ([store.Capabilities]), clocks run at about the same rate, and what was begun just before the end of a lease
// ends within [Options.Margin]. Where that is not enough, let the resource check the token (package fence).
//
// # What a call's error says
//
// [ErrHeld] and [ErrDone] say that somebody else has, or has processed, the name. [ErrLost] says that the lease ended before the
// work did. [ErrUnknown] says that the store did not answer: what was asked may have happened. Any other error says that it
// has not.
package soloist
