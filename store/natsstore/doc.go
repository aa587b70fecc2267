// Package natsstore keeps leases in a key-value bucket of NATS JetStream.
//
// A record is the last message of a subject in the bucket's stream. It is replaced on the condition that it still has the sequence that was read. Package
// casstore implements leases and forgetting on that, without any clock: a lease has expired when its record has not changed for its whole TTL,
// as observed by the process that wants the name. So a process that has just started waits for a whole TTL before it takes over from a dead one.
//
// The fencing token is the sequence of the message that granted the name. Sequences are those of the whole stream and only grow. [Store.Migrate] makes a bucket whose
// sequences begin with the time in microseconds, so they grow even if the bucket is deleted and made again, unless the wall clock of the machine that makes it again is
// behind that of the one that made it before.
package natsstore
