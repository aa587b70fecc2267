// Package zkstore keeps leases in ZooKeeper.
//
// A record is one node. It is replaced on the condition that it still has the version that was read. Package casstore implements leases, tokens and
// forgetting on that, without any clock: a lease has expired when its node has not changed for its whole TTL, as observed by the process that wants
// the name. So a process that has just started waits for a whole TTL before it takes over from a dead one. Released names are free immediately, and
// watches wake those who wait for them.
//
// # Sessions
//
// No lease depends on a session of ZooKeeper, and no node is ephemeral. A session that expires, because the network was cut or the process was
// stopped, ends no lease: the store gets a new session, and a lease that is still within its TTL can be extended. A lease ends at
// its holder when its TTL is over, counted from before the request, whatever the session does. TTLs may be longer and shorter than the session timeout.
//
// # Unknown outcomes
//
// A write during which the connection is lost has an unknown outcome. Every write is unique and conditional. So a caller that repeats it
// either finds that the first one took effect, or carries it out once.
package zkstore
