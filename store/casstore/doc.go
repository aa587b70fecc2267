// Package casstore implements [store.Store] on any backend that can replace an item on the condition that it has not
// changed since it was read (compare-and-set). Such backends are DynamoDB, Cassandra, object stores, and many more. A
// [Backend] has five methods; everything else (leases, tokens, marks, forgetting) is implemented here, once.
//
// # Time without a clock
//
// Such backends have no clock that can be read in the same step, so none is used. A lease is stored as a duration. An
// observer measures it on its own monotonic clock, from the arrival of the reply in which it first saw this version of
// the item. Every renewal changes the item, and the measurement starts again. An item that has not changed for its
// whole TTL has expired. A client that acquires it replaces it on the condition that it still has not changed.
//
// The holder counts the same TTL from before it sent the request that wrote the item. The item was written after that and
// before any observer saw it, so the holder's lease ends first, as long as the two clocks run at about the same rate. No
// wall clock and no clock of a server decides.
//
// The cost: a process that has not seen an item before waits for a whole TTL before it can take over from a dead
// holder, however long ago that holder died. Released names are free immediately.
//
// # Tokens and forgetting
//
// The fencing token is a counter in the item. After an item has been forgotten, its token must never be granted again.
// Therefore [Store.Sweep] first raises a floor, which is a separate item, to the tokens that it will forget, and then
// deletes the items. A client that creates an item reads the floor after that. If a token was forgotten, the floor
// includes it by then, and the client raises the new token above the floor before it returns the grant. Until this is
// done the item is marked ([Record.Unsure]), because the client may die in between, and others who are refused see the
// lower token. This does not depend on any clock either.
//
// A backend whose versions are numbers that only grow needs no floor: the version of the write that granted a name is its token
// ([Config.Sequenced]).
//
// Two things use the wall clocks of clients, because safety does not depend on them: since when a lease has been held,
// which lists show and the search for interrupted runs uses; and how long a released record is remembered
// ([store.Release.Retain]).
package casstore
