// Package hazelcaststore keeps leases in a map of Hazelcast, or in its CP Subsystem.
//
// A record is one entry of an IMap, or one reference of a CP group. It is replaced on the condition that it still is
// what was read. Package casstore implements leases, tokens and forgetting on that, without any clock: a lease has
// expired when its record has not changed for its whole TTL, as observed by the process that wants the name. So a
// process that has just started waits for a whole TTL before it takes over from a dead one.
//
// # A map: best effort
//
// An IMap prefers availability to consistency. When members of the cluster cannot reach each other, each side keeps
// working, and **both sides grant the same name, with the same fencing token**. When the sides meet again, Hazelcast
// keeps one of the two entries; the other holder learns at its next renewal that its lease is lost. So the store
// promises no fencing, and a client with RequireFencing refuses it. [Config.MinMembers] makes the smaller side refuse
// with an error as soon as it notices, which takes up to the heartbeat timeout of the cluster.
//
// # The CP Subsystem: fencing
//
// With [Config.CP] a majority of a CP group decides each write, by Raft: the store promises fencing, and a side of a
// split cluster without the majority grants nothing. The requests are written here, in the protocol of members,
// because the client library has neither references nor a way to choose the member: a member whose CP Subsystem is
// off answers as if it had one. Each connection is used after its member has shown that it has it. See
// docs/adr/0018-hazelcast-maps.md.
package hazelcaststore
