// Package failover checks what a store keeps while servers of its cluster are killed, paused and without a majority. Each check is called
// by the tests of a store, which bring the cluster.
package failover
