package soloist

// A Kind is what a lease is of.
type Kind string

// The kinds of leases.
const (
	KindLock    Kind = "lock"
	KindLeader  Kind = "leader"
	KindPermit  Kind = "permit" // of a semaphore
	KindJob     Kind = "job"
	KindElement Kind = "element"
)
