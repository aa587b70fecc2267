// Package dynamostore keeps leases in a table of Amazon DynamoDB.
//
// A record is one item, replaced on the condition that it still is the one that was read. Package casstore makes leases,
// tokens and forgetting of that, without any clock: a lease has expired when its item has not changed for its whole TTL, as
// the process observes that wants the name. So a process that has just started waits for a whole TTL before it takes over
// from a dead one.
//
// The table must be in one region. A global table accepts writes in several at once, and would grant a name twice. The
// table's own time to live must be off: it would delete items whose tokens must not come back.
package dynamostore
