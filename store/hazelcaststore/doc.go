// Package hazelcaststore keeps leases in a map of Hazelcast.
//
// A record is one entry of an IMap. It is replaced on the condition that it still is the entry that was read. Package casstore implements
// leases, tokens and forgetting on that, without any clock: a lease has expired when its entry has not changed for its whole TTL, as
// observed by the process that wants the name. So a process that has just started waits for a whole TTL before it takes over from a dead one.
//
// # Best effort
//
// An IMap prefers availability to consistency. When members of the cluster cannot reach each other, each side keeps working, and **both sides grant
// the same name, with the same fencing token**. When the sides meet again, Hazelcast keeps one of the two entries; the other holder learns at its next
// renewal that its lease is lost. So the store promises no fencing, and a client with RequireFencing refuses it. [Config.MinMembers] makes the
// smaller side refuse with an error as soon as it notices, which takes up to the heartbeat timeout of the cluster.
package hazelcaststore
