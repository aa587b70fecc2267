// Package soloist runs work that a fleet must do once on exactly one of its machines: cluster singletons and distributed locks.
//
// A [Client] acquires leases from a store (package store, and the packages below it) and renews them:
//
//   - [Client.Do], [Client.Lock] and [Client.TryLock] hold a lock;
//   - [Client.Run] runs jobs (see [Job]), each scheduled time on one replica;
//   - [Client.Elements] processes the units of a job's work once each;
//   - [Client.Semaphore] admits at most n holders;
//   - [Client.Lead] runs a function while this replica leads.
//
// Every lease has a fencing token that is greater than every earlier token of its name. Every lease has a context that ends when the lease
// is lost. The holder's own clock decides that, so it works without the network. At most one holder believes that it holds a name if three
// conditions hold: the store keeps its promises ([store.Capabilities]), clocks run at about the same rate, and what was begun just before
// the end of a lease ends within [Options.Margin]. Where these conditions are not enough, let the resource check the token (package fence).
//
// # Errors
//
// [ErrHeld] means that another holder has the name, [ErrDone] that the element is processed already. [ErrLost] means that the lease ended
// before the work did. [ErrUnknown] means that the store did not respond: the request may have been carried out. With any other error it
// was not carried out.
package soloist
