// Package etcdstore keeps leases in etcd.
//
// A name has one key, its record, which stays. The record of a name that is held names a session: a key of the holder's process, which is attached to a lease of etcd. If
// the process dies, etcd's leader ends that lease and deletes the key, and all names that it had are free. Every change of a name is one transaction, on the condition that
// the record is as it was read, and that the sessions are there, or not there, on which the change relies. The fencing token is etcd's revision of the transaction that granted
// the name.
//
// # Who keeps the clock
//
// The leases of one process share a few leases of etcd, one for each range of TTLs. The store keeps these alive while they are in use, and
// ends by itself each lease that its holder does not extend: it writes that the name is free as soon as the TTL is over, by the clock of this process. So etcd
// only has to notice that a process is dead or cut off. It does so later than after the TTL, never earlier: its leases are a few seconds or
// up to two fifths longer than the TTL, and a new leader gives each its whole time again.
//
// # Waiting
//
// Who waits for a name writes a ticket, attached to the lease of etcd of its process. A release grants the name to the holder of the first ticket in the same
// transaction, and leaves a note for its process, which watches its notes. See Store.Queue.
//
// # Requests
//
// Acquiring a name, refusing it and releasing it is one request each, also for batches of up to a hundred names. Extending thousands of leases is
// one request, and now and then one more that keeps the shared lease alive.
package etcdstore
