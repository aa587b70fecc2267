// Package health has HTTP handlers for probes: whether a process serves requests at all, and whether it can do its work.
//
// Restart a process that is not live, and send no requests to one that is not ready. A process whose store is away is live: a restart would
// not bring the store back.
package health
