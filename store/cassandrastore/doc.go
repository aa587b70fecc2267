// Package cassandrastore keeps leases in a table of Apache Cassandra.
//
// A record is one row in its own partition. It is replaced by a lightweight transaction, on the condition that it still
// is the row that was read, and it is read at the consistency SERIAL. Package casstore makes leases, tokens and forgetting of
// that, without any clock: a lease has expired when its row has not changed for its whole TTL, as observed by the process
// that wants the name. So a process that has just started waits for a whole TTL before it takes over from a dead one.
//
// What the store can promise depends on the keyspace: how many copies it has, and in how many datacenters. See
// [Store.Capabilities].
package cassandrastore
