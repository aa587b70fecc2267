// Package redisstore is a store in Redis (5 or newer) or Valkey: on one server, behind Sentinel, or in a cluster.
//
// Every verb is a script that runs in the server in one step, by the server's clock: one request for a whole batch, or in a cluster one
// for each of at most 64 parts. A record is a hash that outlives its lease, so that tokens go on to grow. Nobody's wall clock is
// asked, and nothing depends on keys expiring.
//
// What is promised depends on how the server is set up, and Capabilities says it by looking: only one server that syncs every write,
// evicts nothing and has no replica that could take over keeps every grant. Everything else is best effort.
package redisstore
