// Package casstore makes a [store.Store] of a backend that can do one thing: replace an item if it is still the one that
// was read (compare-and-set). Such backends are DynamoDB, Cassandra, object stores, and many more. A [Backend] has five
// methods; everything else, leases, tokens, marks and forgetting, is here, once.
//
// # Time without a clock
//
// Such backends have no clock that can be asked in the same step, so none is used. A lease is stored as a duration. An
// observer counts it on its own monotonic clock, from when the reply arrived in which it first saw the item as it is.
// Every renewal changes the item, and the count begins anew. An item that has not changed for its whole TTL has expired,
// and whoever takes it replaces it on condition that it still has not changed.
//
// The holder counts the same TTL from before it sent the request that wrote the item. The item was written after that and
// before any observer saw it, so the holder's lease ends first, as long as the two clocks run at about the same rate. No
// wall clock and no clock of a server decides.
//
// The price: a process that has not seen an item before waits for a whole TTL before it can take over from a dead holder,
// however long ago that one died. Released names are free at once.
//
// # Tokens and forgetting
//
// The fencing token is a counter in the item. When an item is forgotten its token must never come back. [Store.Sweep]
// therefore raises a floor, an item of its own, to the tokens that it is about to forget, and deletes after that. Who makes
// an item anew reads the floor after making it: if a token was forgotten, its floor is there by then, and the new token is
// raised above it before anybody hears of it. Until that is known the item says so ([Record.Unsure]), for its maker may die
// in between. No time has a part in this either.
//
// Two things use the wall clocks of clients, because nobody's safety depends on them: since when a lease has been held, for
// people and for the search for interrupted runs, and how long a released record is remembered ([store.Release.Retain]).
package casstore
