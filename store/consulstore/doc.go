// Package consulstore keeps leases in the key-value store of Consul, over its HTTP API.
//
// A record is the value of one key. It is replaced in a transaction, on the condition that its ModifyIndex is the one that was read. Package casstore implements
// leases and forgetting on that, without any clock: a lease has expired when its record has not changed for its whole TTL, as observed by the process that
// wants the name. So a process that has just started waits for a whole TTL before it takes over from a dead one. Released names are free immediately, and
// blocking queries wake those who wait for them.
//
// The fencing token is the ModifyIndex of the write that granted the name. It is an index of Consul's log, which only grows, also over deletions and when a snapshot is
// restored in the same datacenter.
//
// # Sessions
//
// The store uses no sessions of Consul. A lease may be shorter than ten seconds, ends neither when the agent of its holder fails a health check nor when a session is
// invalidated, and is not prolonged by a lock-delay.
//
// # Unknown outcomes
//
// A write during which the connection is lost, or to which Consul replies with an error of its own, has an unknown outcome. Every write is unique and
// conditional. So a caller that repeats it either finds that the first one took effect, or carries it out once.
package consulstore
